#!/usr/bin/env bash
# The HTML pages of real results: what `assay score` and `assay replay` leave in OUT says what the other files say, with
# hostile names in the suite, with and without a vocabulary; verify lists the pages and does not fail.
# With "browser" as first word the same pages are looked at in headless Chromium; without one that is skipped.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
here=$ROOT/tests/html

if [ "${1:-}" = browser ]; then
  python3 -c "import sys; sys.path.insert(0, '$here'); import chromium; sys.exit(not chromium.find())" ||
    skip "no chromium is installed: apt-get install chromium, or name one with ASSAY_CHROMIUM"
  look=("$here/browser_test.py")
else
  look=("$here/check_pages.py")
fi

suite=$(tiny_suite)
python3 - "$suite/suite-manifest.json" <<'PYTHON'
import json, sys
manifest = json.load(open(sys.argv[1]))
for row in manifest["context_index"]:
    if row["stratum"] == "prose":
        row["stratum"] = "</script><img src=x onerror=alert(1)>&\"'"
        row["source_cluster"] = "<!--" + row["source_cluster"]
json.dump(manifest, open(sys.argv[1], "w"))
PYTHON

note "assay score leaves pages"
score=("$BIN/assay" score --reference "$TINY" --candidate "self=$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32"
  --candidate "int8=$TINY@rtn:bits=8,group=channel" --suite "$suite" --out "$WORK/out" --threads 1)
run 0 "${score[@]}"
run 0 python3 "${look[@]}" "$WORK/out"

note "assay replay leaves pages"
for label in reference int4; do
  model=$TINY
  [ "$label" = reference ] || model="$TINY@rtn:bits=4,group=32"
  run 0 "$BIN/assay" capture --model "$model" --suite "$suite" --out "$WORK/captures/$label" --threads 1
done
run 0 "$BIN/assay" replay --reference "$WORK/captures/reference" --candidate "$WORK/captures/int4" --head "$TINY" \
  --suite "$suite" --out "$WORK/replayed" --score-from 5 --threads 1
run 0 python3 "${look[@]}" "$WORK/replayed"

note "with a vocabulary, hostile too"
python3 - "$WORK/tokenizer.json" <<'PYTHON'
import json, sys
vocabulary = {f"\u0120word{i}": i for i in range(319)}
vocabulary["</script><img src=x onerror=alert(2)>\u202e"] = 319
json.dump({"model": {"type": "BPE", "vocab": vocabulary}, "decoder": {"type": "ByteLevel"}}, open(sys.argv[1], "w"))
PYTHON
run 0 "$BIN/assay" report html "$WORK/replayed" --suite "$suite" --tokens "$WORK/tokenizer.json"
grep -q '<bdi class="tok">␣word[0-9]*</bdi>' "$WORK/replayed/int4/report.html" || fail "no token has its text"
run 0 python3 "${look[@]}" "$WORK/replayed"
[ "${1:-}" != browser ] || exit 0

note "verify names the pages and stays valid"
run 0 "$BIN/assay" verify "$WORK/out" --key "$WORK/out/key.pub"
grep -q "index.html is not sealed" "$WORK/stdout" || fail "verify does not mention index.html"
grep -q "int4/report.html is not sealed" "$WORK/stdout" || fail "verify does not mention int4/report.html"

note "assay report html makes the same pages"
run 0 "$BIN/assay" report html "$WORK/out" --suite "$suite" --out "$WORK/pages"
cmp "$WORK/out/index.html" "$WORK/pages/index.html" || fail "index.html differs"
cmp "$WORK/out/int4/report.html" "$WORK/pages/int4/report.html" || fail "int4/report.html differs"

note "--no-html leaves none, and takes those of an earlier run away"
run 0 "${score[@]}" --no-html
[ ! -e "$WORK/out/index.html" ] && [ ! -e "$WORK/out/int4/report.html" ] || fail "--no-html left a page"

note "a folder that holds no result is refused"
run 3 "$BIN/assay" report html "$WORK/captures"
refused FILE_MISSING summary.json
