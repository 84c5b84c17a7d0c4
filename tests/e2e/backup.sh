#!/usr/bin/env bash
# A backup taken while a run goes on, and restored by use: what was sealed comes out with the same receipt, byte for byte,
# and the run that was going on is finished with the same results. Then garbage is collected under a sealed report.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

worker() {
  background "worker-$1" "$BIN/assay-worker" --coordinator "$address" --name w --threads 1 \
    --model-root "$(dirname "$TINY")" --cache "$WORK/cache-$1"
  worker=$PID
}
score() {
  printf '%s\n' "$BIN/assay" score --server "$address" --reference "$TINY" --candidate "$1=$TINY@rtn:$2" --suite "$suite" \
    --out "$3" --unit-contexts 1
}
stop() {
  kill -TERM "$worker" "$COORDINATOR_PID"
  wait "$worker" || true
  wait "$COORDINATOR_PID" || fail "assayd ended with status $?"
}

note "one report is sealed, another run goes on"
start_coordinator one "$WORK/one" --listen 127.0.0.1:0
address=$(head -n 1 "$WORK/one.ready")
worker one
mapfile -t first < <(score int4 bits=4,group=32 "$WORK/out/first")
mapfile -t second < <(score int8 bits=8,group=channel "$WORK/out/second")
run 0 "${first[@]}"
background score "${second[@]}"
score=$PID
two_runs() { [ "$("$BIN/assay" runs --server "$address" --json 2>/dev/null | grep -o '"runs/[0-9a-f]*"' | sort -u | wc -l)" -ge 2 ]; }
within 60 two_runs || fail "the second run was not accepted"

note "a backup beside it"
run 0 "$BIN/assayd" backup "$WORK/backup" --data "$WORK/one"
grep -q 'backup: .* 1 sealed' "$WORK/stdout" || fail "the backup does not hold the sealed report"
run 1 "$BIN/assayd" backup "$WORK/backup" --data "$WORK/one"
refused BACKUP_EXISTS "$WORK/backup"
run 22 "$BIN/assayd" fsck --data "$WORK/one"
refused STORE_IN_USE
wait "$score" || fail "the second run ended with status $?"
stop

note "the data folder is lost; a copy of the backup takes its place"
rm -rf "$WORK/one"
cp -a "$WORK/backup" "$WORK/two"
run 0 "$BIN/assayd" fsck --data "$WORK/two"
start_coordinator two "$WORK/two" --listen "$address"
worker two
mkdir "$WORK/again"
mapfile -t first < <(score int4 bits=4,group=32 "$WORK/again/first")
mapfile -t second < <(score int8 bits=8,group=channel "$WORK/again/second")
run 0 "${first[@]}"
cmp "$WORK/out/first/int4/receipt.json" "$WORK/again/first/int4/receipt.json" || fail "the receipt is another one"
cmp "$WORK/out/first/int4/execution.json" "$WORK/again/first/int4/execution.json" || fail "another execution record"
run 0 "${second[@]}"
same_results "$WORK/out/first" "$WORK/again/first"
same_results "$WORK/out/second" "$WORK/again/second"
run 0 "$BIN/assay" verify "$WORK/again/second" --key "$WORK/out/first/key.pub"

note "garbage: counted, then removed; what is sealed stays"
sleep 1.1
run 0 "$BIN/assayd" gc --data "$WORK/two" --dry-run --keep-runs-hours 0 --grace-hours 0
grep -q 'gc: would remove 0 runs, [1-9][0-9]* units' "$WORK/stdout" || fail "nothing would be removed"
run 0 "$BIN/assayd" gc --data "$WORK/two" --keep-runs-hours 0 --grace-hours 0
grep -q 'gc: removed 0 runs, [1-9][0-9]* units, [1-9][0-9]* blobs' "$WORK/stdout" || fail "nothing was removed"
rm -rf "$WORK/again"
run 0 "${first[@]}"
cmp "$WORK/out/first/int4/receipt.json" "$WORK/again/first/int4/receipt.json" || fail "the receipt is another one"
stop
run 0 "$BIN/assayd" fsck --data "$WORK/two"

note "damage: the coordinator names fsck, fsck repairs"
report=$(sha256sum <"$WORK/out/first/int4/report.json" | cut -d' ' -f1)
rm "$WORK/two/blobs/${report:0:2}/${report:2:2}/$report"
run 20 "$BIN/assayd" --data "$WORK/two" --listen "$address"
grep -q "assayd fsck --data $WORK/two" "$WORK/stderr" || fail "the message does not name fsck"
run 20 "$BIN/assayd" fsck --data "$WORK/two" --repair
grep -q "report.json of reports/$report" "$WORK/stdout" || fail "fsck does not name the report"
note "its results are collected by now, so a backup has to help"
run 0 "$BIN/assayd" fsck --data "$WORK/backup"
