#!/usr/bin/env bash
# `assay score --replace` killed at every file that it writes: the earlier result is whole, where it was or where replaced
# results are kept, what is half-written is never taken for a result, and the same command again puts all right.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

start_coordinator one "$WORK/one" --listen "unix:$WORK/s"
background worker "$BIN/assay-worker" --coordinator "unix:$WORK/s" --name w --threads 1 \
  --model-root "$(dirname "$TINY")" --cache "$WORK/worker-cache"
score() { # BITS OUT ARGUMENT...: SCORE holds the command
  SCORE=("$BIN/assay" score --server "unix:$WORK/s" --reference "$TINY" --candidate "q=$TINY@rtn:bits=$1,group=32"
    --suite "$suite" --out "$2" --no-html "${@:3}")
}
score 8 "$WORK/old" && run 0 "${SCORE[@]}"
score 4 "$WORK/new" && run 0 "${SCORE[@]}"  # computed once: what follows only fetches
cp "$WORK/one/signing.key.pub" "$WORK/key.pub"

# The earlier result, complete, in OUT/q or in a folder of OUT/replaced.
old_result_in() {
  local folder
  for folder in "$1"/q "$1"/replaced/*; do
    ! diff -rq -x '*.tmp.*' "$WORK/old/q" "$folder" >/dev/null 2>&1 || return 0
  done
  return 1
}

kills=0
for point in file:written file:renamed; do
  for ((n = 1; n < 200; n += 3)); do
    out=$WORK/out
    rm -rf "$out"
    cp -r "$WORK/old" "$out"
    score 4 "$out" --replace
    status=0
    ASSAY_KILLPOINT=$point@$n "${SCORE[@]}" >"$WORK/stdout" 2>"$WORK/stderr" </dev/null || status=$?
    [ "$status" -ne 0 ] || break
    [ "$status" -eq 137 ] || fail "killed at $point@$n it ended with status $status"
    kills=$((kills + 1))
    old_result_in "$out" || fail "killed at $point@$n: the earlier result is nowhere in $out"
    # A folder with a receipt is a complete result: of the old candidate or of the new one.
    if [ -e "$out/q/receipt.json" ] && ! diff -rq -x '*.tmp.*' "$WORK/old/q" "$out/q" >/dev/null; then
      diff -r "$WORK/new/q" "$out/q" || fail "killed at $point@$n: a receipt stands beside half a result"
    fi
    run 0 "${SCORE[@]}"
    run 0 "$BIN/assay" verify "$out" --key "$WORK/key.pub"
    diff -r "$WORK/new/q" "$out/q" || fail "killed at $point@$n: the second try's result differs"
    old_result_in "$out" || fail "killed at $point@$n: the second try lost the earlier result"
    [ -z "$(find "$out" -name '*.tmp.*')" ] || fail "killed at $point@$n: a temporary file is left"
  done
done
[ "$kills" -ge 10 ] || fail "only $kills kills: the points are not passed any more"
echo "$kills kills"
