#!/usr/bin/env bash
# Ctrl-C ends a run at once with status 130 and leaves no process; the same command again finishes it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_smollm2

score=("$BIN/assay" score --reference "$MODEL" --candidate "int4=$MODEL@rtn:bits=4,group=32" --suite "$SMALL_SUITE"
  --out "$WORK/out" --threads 1 --unit-contexts 1)
note "interrupted while ranks work"
background score "${score[@]}"
assay=$PID
a_rank() { [ -n "$(children "$assay" assay-rank)" ]; }
within 60 a_rank || fail "no rank was seen"
sleep 2
programs=$(children "$assay" assayd; children "$assay" assay-worker; children "$assay" assay-rank)
kill -INT "$assay" || fail "the run ended before it could be interrupted"
status=0
wait "$assay" || status=$?
cp "$WORK/score.log" "$WORK/stderr"
[ "$status" -eq 130 ] || fail "the interrupted run ended with status $status, not 130"
gone() {
  local pid
  for pid in $programs; do
    [ ! -e "/proc/$pid/exe" ] || return 1
  done
}
within 20 gone || fail "processes of the interrupted run are still there"

note "the same command again"
run 0 "${score[@]}"
run 0 "$BIN/assay" verify "$WORK/out" --key "$WORK/out/key.pub"

note "as if it had never been interrupted"
run 0 "$BIN/assay" score --reference "$MODEL" --candidate "int4=$MODEL@rtn:bits=4,group=32" --suite "$SMALL_SUITE" \
  --out "$WORK/fresh" --data "$WORK/data-fresh"
same_results "$WORK/fresh" "$WORK/out"
