# docs/guides/own-captures.md: a small model, a suite, and an engine.
needs=(python)

setup() {
  mkdir model
  cp "$ROOT"/tests/data/arch/llama/{config.json,model.safetensors} model/
  cp "$ROOT/tests/guides/my_engine.py" .
  python "$ROOT/tests/e2e/make_suite.py" --out suite --vocab 320 --contexts 10 --length 32
}

check() {
  python - <<'PYTHON'
import json
import re

import assay

for name, bound in (("engines", 1e-7), ("engines-hf", 1e-7)):
    try:
        result = assay.load(name)
    except assay.AssayError:
        assert name == "engines-hf"
        continue
    values = next(iter(result.values()))["kl_ref_cand"]
    print(name, "mean KLD", values.mean(), "largest", values.max())
    assert values.mean() < bound and values.max() < 1e-4
records = {r["index"]: r["sha256"] for r in json.load(open("capture/capture-manifest.json"))["captures"]}
journal = {r["index"]: r["sha256"] for r in json.load(open("capture.journal"))["records"]}
assert records == journal, "streamed and stored are the same files"
PYTHON
}
