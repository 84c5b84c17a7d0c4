# docs/guides/panel.md: texts, a long text, and SmolLM2 as model.gguf (deploy/fetch_model.sh, or ASSAY_SMOLLM2_GGUF).
needs=(python)

setup() {
  python -c 'import tokenizers, jinja2' 2>/dev/null || {
    echo "SKIP panel: the packages tokenizers and jinja2 are not installed (pip install './client/python[suite]')"
    exit 77
  }
  [ -f "${ASSAY_SMOLLM2_GGUF:-}" ] || {
    echo "SKIP panel: ASSAY_SMOLLM2_GGUF does not name SmolLM2-135M-Instruct.Q4_1.gguf (deploy/fetch_model.sh fetches it)"
    exit 77
  }
  ln -s "$ASSAY_SMOLLM2_GGUF" model.gguf
  cp -r "$ROOT/deploy/panel/corpus" texts
  cp "$ROOT/tests/data/llamacpp/panel.txt" book.txt
}

check() {
  python - "$ROOT" <<'PYTHON'
import json
import re
import sys
from pathlib import Path

import assay
from assay.suite.pretokenizers import KNOWN

root = Path(sys.argv[1])
page = (root / "docs/guides/panel.md").read_text("utf-8")
panel = assay.load_suite("panel").manifest
assert len(assay.load_suite("chats").contexts) > 2

print("the table that the page shows is the one that was printed")
strata = {}
for name, *counts in re.findall(r"^(\w+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", page, flags=re.M):
    strata[name] = [int(count) for count in counts]
assert {name: counts[2] for name, counts in strata.items() if name != "all"} == panel["strata"], panel["strata"]
assert strata["all"][3] == panel["total_scored_positions"]
assert strata["all"][4] == panel["build"]["tail_tokens_dropped"]

print("every known pre-tokenizer is on the page, and no other")
rows = re.findall(r"^\| (`.*?`) \|", page, flags=re.M)
assert sorted(re.findall(r"`([^`]+)`", " ".join(rows[1:]))) == sorted(KNOWN), "the table of pre-tokenizers"

print("the chunks are llama-perplexity's, in text order")
tokens = json.loads((root / "tests/data/llamacpp/panel-tokens.json").read_text("utf-8"))["ids"]["llama_plain"]
chunks = assay.load_suite("chunks")
order = {row["index"]: row["source_window_index"] for row in chunks.manifest["context_index"]}
for context in chunks:
    at = 64 * order[context.index]
    assert list(context.tokens) == tokens[at : at + 64]
assert len(chunks) == len(tokens) // 64
assert Path("result/int8/report.json").is_file()
PYTHON
}
