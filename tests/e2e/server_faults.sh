#!/usr/bin/env bash
# A port in use, a coordinator that is killed in the middle and comes back, a disk that is full.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

note "a port in use"
start_coordinator one "$WORK/one" --listen 127.0.0.1:0
address=$(head -n 1 "$WORK/one.ready")
run 1 "$BIN/assayd" --data "$WORK/two" --listen "$address"
grep -q PORT_IN_USE "$WORK/stderr" || fail "the second assayd does not say PORT_IN_USE"
grep -qF "${address##*:}" "$WORK/stderr" || fail "the message does not name the port"

note "the coordinator is killed while a client waits; it comes back and the run ends as if nothing had been"
worker() {
  background "worker" "$BIN/assay-worker" --coordinator "$address" --name w --threads 1 \
    --model-root "$(dirname "$TINY")" --cache "$WORK/worker-cache"
}
background score "$BIN/assay" score --server "$address" --reference "$TINY" \
  --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" --out "$WORK/out" --unit-contexts 1
score=$PID
accepted() { "$BIN/assay" runs --server "$address" --json 2>/dev/null | grep -q '"runs/'; }
within 30 accepted || fail "the run was not accepted"
kill -KILL "$COORDINATOR_PID"
wait "$COORDINATOR_PID" 2>/dev/null || true
rm -f "$WORK/one.ready"
start_coordinator one "$WORK/one" --listen "$address"
worker
status=0
wait "$score" || status=$?
cp "$WORK/score.log" "$WORK/stderr"
[ "$status" -eq 0 ] || fail "the client ended with status $status"
run 0 "$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" \
  --out "$WORK/embedded" --threads 1
same_results "$WORK/embedded" "$WORK/out"

note "a full disk"
mkdir "$WORK/small"
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=24m tmpfs "$WORK/small" 2>/dev/null; then
  trap 'umount -l "$WORK/small" 2>/dev/null || true; cleanup' EXIT
  run 1 "$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" \
    --out "$WORK/full" --threads 1 --data "$WORK/small/data"
  grep -Eq 'error \[DISK_(LOW|FULL)\]' "$WORK/stderr" || fail "the error is not about the disk"
  grep -qi 'free' "$WORK/stderr" || fail "the message does not say what to do"
  umount "$WORK/small"
else
  echo "SKIPPED: the full disk (mounting a small file system needs root)"
fi
