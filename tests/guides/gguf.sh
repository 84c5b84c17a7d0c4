# docs/guides/gguf.md: an original with its tokenizer, three GGUF files of it, and texts.
needs=(python)

setup() { python "$ROOT/tests/guides/make_gguf_files.py" "$ROOT"; }

check() {
  python - <<'PYTHON'
import json

means = {c["label"]: c["heads"]["own"]["mean_kl_ref_cand"]["value"] for c in json.load(open("result/summary.json"))["candidates"]}
print(means)
assert means["bf16"] == 0.0, "a BF16 GGUF holds the same weights"
assert 0.0 < means["q8"] < 0.05 < means["q4"], "fewer bits move the model further"
PYTHON
}
