#!/usr/bin/env bash
# Makes the pictures of docs/screenshots from a real run: SmolLM2 and its candidates over eight contexts of the development panel.
#
#   tests/html/screenshots.sh [OUT]     OUT: a result that lies there already; without it the run is made (minutes)
#
# Needs ASSAY_SMOLLM2_GGUF (deploy/fetch_model.sh prints its path) and chromium (apt-get install chromium).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
cd "$ROOT"

BIN=${ASSAY_BIN_DIR:-$ROOT/build/release/bin}
SUITE=$ROOT/deploy/panel/suite
MODEL=${ASSAY_SMOLLM2_GGUF:?name the model: export ASSAY_SMOLLM2_GGUF=\$(deploy/fetch_model.sh)}
LIMIT=$((200 * 1024))  # bytes of a picture

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=${1:-}
if [ -z "$out" ]; then
  out=$work/out
  candidates=(--candidate "int4=$MODEL@rtn:bits=4,group=32" --candidate "int8=$MODEL@rtn:bits=8,group=channel")
  [ -z "${ASSAY_SMOLLM2_Q4_0_GGUF:-}" ] || candidates+=(--candidate "q4_0=$ASSAY_SMOLLM2_Q4_0_GGUF")
  "$BIN/assay" score --reference "$MODEL" "${candidates[@]}" --suite "$SUITE" --filter sentinel --data "$work/data" \
    --out "$out" --no-html
fi
"$BIN/assay" report html "$out" --suite "$SUITE" --tokens "$MODEL" --out "$work/pages"
python3 tests/html/screenshots.py "$work/pages" int4 docs/screenshots
for picture in docs/screenshots/*.png; do
  [ "$(stat -c %s "$picture")" -le "$LIMIT" ] || die "$picture has more than $LIMIT bytes"
done
ls -l docs/screenshots
