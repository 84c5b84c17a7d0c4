#!/usr/bin/env bash
# Two commands on one data folder: the second is refused by name and harms nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

note "assay beside assay"
score=("$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite"
  --threads 1 --unit-contexts 1)
background first "${score[@]}" --out "$WORK/first"
first=$PID
a_rank() { [ -n "$(children "$first" assay-rank)" ]; }
within 60 a_rank || fail "the first run started no rank"
kill -STOP "$first" || fail "the first run ended too early"
run 3 "${score[@]}" --out "$WORK/second"
refused DATA_DIR_IN_USE "$ASSAY_DATA"
kill -CONT "$first"
status=0
wait "$first" || status=$?
[ "$status" -eq 0 ] || fail "the first run ended with status $status"

note "now it is free"
run 0 "${score[@]}" --out "$WORK/second"
same_results "$WORK/first" "$WORK/second"

note "assayd beside assayd"
start_coordinator one "$WORK/server" --listen "unix:$WORK/one.socket"
run 22 "$BIN/assayd" --data "$WORK/server" --listen "unix:$WORK/two.socket"
grep -q STORE_IN_USE "$WORK/stderr" || fail "the second assayd does not say STORE_IN_USE"
