# docs/guides/vllm.md from step 2 on: a model, a suite, and files as vLLM would have written them.
needs=(python)

setup() {
  mkdir model
  cp "$ROOT"/tests/data/arch/llama/{config.json,model.safetensors} model/
  python "$ROOT/tests/e2e/make_suite.py" --out suite --vocab 320 --contexts 10 --length 32
  PYTHONPATH=$ROOT/tests/guides python "$ROOT/tests/guides/make_vllm_files.py"
}

check() {
  python - <<'PYTHON'
import assay

for name, label, low, high in (("result", "vllm", 1e-8, 1e-4), ("noise", "again", 1e-9, 1e-4)):
    values = assay.load(name)[label]["kl_ref_cand"]
    print(name, "mean KLD", values.mean(), "largest", values.max())
    assert low < values.mean() < high, "one rounding of the residual stream to bfloat16"
PYTHON
}
