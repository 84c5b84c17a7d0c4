#!/usr/bin/env bash
# A port in use, a coordinator that is killed in the middle and comes back, a disk that is full.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

note "a port in use"
start_coordinator one "$WORK/one" --listen 127.0.0.1:0
one=$COORDINATOR_PID
address=$(head -n 1 "$WORK/one.ready")
run 1 "$BIN/assayd" --data "$WORK/two" --listen "$address"
grep -q PORT_IN_USE "$WORK/stderr" || fail "the second assayd does not say PORT_IN_USE"
grep -qF "${address##*:}" "$WORK/stderr" || fail "the message does not name the port"

note "metrics are served while connections that say nothing are open"
metrics=127.0.0.1:$(free_port)
start_coordinator watched "$WORK/watched" --listen 127.0.0.1:0 --metrics "$metrics"
python3 - "$metrics" <<'PYTHON' || fail "no metrics beside idle connections"
import socket, sys, urllib.request
host, port = sys.argv[1].split(":")
idle = [socket.create_connection((host, int(port))) for _ in range(3)]
text = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=20).read().decode()
sys.exit("assay_runs" not in text)
PYTHON
kill -TERM "$COORDINATOR_PID"
wait "$COORDINATOR_PID" || fail "assayd ended with status $?"

note "a socket in a folder whose name means something in a URI"
odd="$WORK/a b%20c#d?e"
mkdir "$odd"
start_coordinator odd "$WORK/watched" --listen "unix:$odd/s"
[ -S "$odd/s" ] || fail "the socket is not where it was asked for"
run 0 timeout 60 "$BIN/assay" runs --server "unix:$odd/s"
kill -TERM "$COORDINATOR_PID"
wait "$COORDINATOR_PID" || fail "assayd ended with status $?"

note "more connections than file descriptors: a coordinator that nobody can reach ends by name, and works when started again"
(ulimit -n 120 && exec "$BIN/assayd" --data "$WORK/watched" --listen 127.0.0.1:0 --ready-file "$WORK/crowded.ready") \
  >"$WORK/crowded.log" 2>&1 </dev/null &
crowded=$!
PIDS+=("$crowded")
within 30 test -s "$WORK/crowded.ready" || fail "assayd did not start"
python3 - "$(cat "$WORK/crowded.ready")" <<'PYTHON'
import socket, sys, time
host, port = sys.argv[1].split(":")
crowd = [socket.create_connection((host, int(port))) for _ in range(150)]
time.sleep(2)
PYTHON
gone() { ! kill -0 "$crowded" 2>/dev/null; }
within 120 gone || fail "assayd lives on though nobody can reach it"
grep -q LISTENER_LOST "$WORK/crowded.log" || fail "the log does not say LISTENER_LOST"
start_coordinator crowded-again "$WORK/watched" --listen 127.0.0.1:0
run 0 "$BIN/assay" runs --server "$(head -n 1 "$WORK/crowded-again.ready")"
kill -TERM "$COORDINATOR_PID"
wait "$COORDINATOR_PID" || fail "assayd ended with status $?"

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
kill -KILL "$one"
wait "$one" 2>/dev/null || true
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
