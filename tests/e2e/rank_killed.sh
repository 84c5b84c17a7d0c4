#!/usr/bin/env bash
# A rank that is killed in the middle costs an attempt, not the run and not a bit of the result.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_smollm2

score=("$BIN/assay" score --reference "$MODEL" --candidate "int4=$MODEL@rtn:bits=4,group=32" --suite "$SMALL_SUITE"
  --threads 1 --tp 2 --workers 1 --unit-contexts 2)

note "undisturbed"
run 0 "${score[@]}" --out "$WORK/quiet" --data "$WORK/data-quiet"

note "one rank killed soon after it starts, another one later"
background score "${score[@]}" --out "$WORK/killed" --data "$WORK/data-killed"
assay=$PID
a_rank() { rank=$(children "$assay" assay-rank | tail -n 1) && [ -n "$rank" ]; }
kills=0
for pause in 1.5 4; do
  within 60 a_rank || fail "no rank was seen"
  sleep "$pause"
  a_rank || break
  kill -KILL "$rank"
  kills=$((kills + 1))
done
[ "$kills" -ge 1 ] || fail "the run ended before a rank could be killed"
status=0
wait "$assay" || status=$?
cp "$WORK/score.log" "$WORK/stderr"
[ "$status" -eq 0 ] || fail "the run ended with status $status after $kills kills"
same_results "$WORK/quiet" "$WORK/killed"
tries='{a["rank_attempts"] for u in d["units"] for a in u["attempts"]}'
[ "$(json "$WORK/quiet/int4/execution.json" "$tries")" = "{1}" ] || fail "undisturbed ranks count as restarted"
run 0 "$BIN/assay" verify "$WORK/killed" --key "$WORK/killed/key.pub"
