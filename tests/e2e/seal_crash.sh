#!/usr/bin/env bash
# The coordinator killed at each step of sealing: the same command again seals each candidate exactly once, with the bytes
# that the interrupted seal had already made.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

for point in seal:report_stored seal:receipt_stored seal:committed; do
  note "killed at $point"
  data=$WORK/data-${point#seal:}
  out=$WORK/out-${point#seal:}
  score=("$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite"
    --out "$out" --data "$data" --threads 1)
  run 1 env ASSAY_KILLPOINT="$point" "${score[@]}"
  refused COORDINATOR_DIED
  find "$data" -type f -regextype egrep -regex '.*/[0-9a-f]{64}' -printf '%f\n' | sort >"$WORK/blobs"
  run 0 "${score[@]}"
  run 0 "$BIN/assay" verify "$out" --key "$out/key.pub"
  case $point in
    seal:report_stored) file=report.json ;;
    *) file=receipt.json ;;
  esac
  made=$(sha256sum <"$out/int4/$file" | cut -d' ' -f1)
  grep -qx "$made" "$WORK/blobs" || fail "$file is not the one that was made before the crash"
  # One leaf for one candidate: nothing was sealed twice.
  size=$(sed 's/.*"checkpoint":"[^"\\]*\\n\([0-9]*\)\\n.*/\1/' "$out/int4/receipt.json")
  [ "$size" = 1 ] || fail "the log has $size leaves after one candidate"
  [ ! -e "$WORK/first" ] || same_results "$WORK/first" "$out"
  [ -e "$WORK/first" ] || cp -r "$out" "$WORK/first"
done
