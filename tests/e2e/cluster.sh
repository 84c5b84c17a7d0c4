#!/usr/bin/env bash
# A cluster of processes over TCP under different users with no common readable folder, the model in one worker's root
# only: the same report and positions, byte for byte, as the embedded mode. Then failures of the pieces.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "running processes under several users needs root"
command -v setpriv >/dev/null || skip "setpriv (util-linux) is missing"
suite=$(tiny_suite)

# Users without a name, each with a folder of its own; programs are copied to where all may run them.
COORDINATOR=61001 WORKER_A=61002 WORKER_B=61003 CLIENT=61004
mkdir "$WORK/bin"
cp -L "$BIN"/assay "$BIN"/assayd "$BIN"/assay-worker "$BIN"/assay-rank "$BIN"/libassay_*.so "$WORK/bin/"
chmod -R a+rX "$WORK/bin"
for uid in $COORDINATOR $WORKER_A $WORKER_B $CLIENT; do
  mkdir -m 700 "$WORK/$uid"
done
mkdir "$WORK/$WORKER_A/models"
cp -rL "$TINY" "$WORK/$WORKER_A/models/tiny"
cp -r "$suite" "$WORK/$CLIENT/suite"
for uid in $COORDINATOR $WORKER_A $WORKER_B $CLIENT; do chown -R "$uid:$uid" "$WORK/$uid"; done

# as_user UID: sets AS to the words that run a command as that user (no function: a background one would hide the pid).
as_user() {
  AS=(setpriv --reuid "$1" --regid "$1" --clear-groups env -u ASSAY_DATA HOME="$WORK/$1" TMPDIR="$WORK/$1"
    XDG_CACHE_HOME="$WORK/$1/cache" XDG_DATA_HOME="$WORK/$1/share")
}

# as UID COMMAND...: in the foreground.
as() {
  as_user "$1"
  shift
  "${AS[@]}" "$@"
}

# background_as UID NAME COMMAND...
background_as() {
  as_user "$1"
  local name=$2
  shift 2
  background "$name" "${AS[@]}" "$@"
}

note "the embedded mode, for comparison"
run 0 "$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" \
  --out "$WORK/embedded" --threads 1

note "assayd, two workers of different degree, a client"
port=$(free_port)
server=127.0.0.1:$port
background_as $COORDINATOR assayd "$WORK/bin/assayd" --data "$WORK/$COORDINATOR/data" --listen "$server" \
  --ready-file "$WORK/$COORDINATOR/ready" --lease-ms 3000
coordinator=$PID
within 30 test -s "$WORK/$COORDINATOR/ready" || { cat "$WORK/assayd.log"; fail "assayd did not start"; }
background_as $WORKER_A worker-a "$WORK/bin/assay-worker" --coordinator "$server" --name a --tp 2 --threads 1 \
  --model-root "$WORK/$WORKER_A/models" --cache "$WORK/$WORKER_A/cache"
background_as $WORKER_B worker-b "$WORK/bin/assay-worker" --coordinator "$server" --name b --tp 1 --threads 1 \
  --cache "$WORK/$WORKER_B/cache"
worker_b=$PID

note "the owner of the model makes it known; the file stays where it is"
run 0 as $WORKER_A "$WORK/bin/assay" model add --server "$server" --json "$WORK/$WORKER_A/models/tiny"
reference=$(json "$WORK/stdout" 'd["name"]')
run 0 as $WORKER_A "$WORK/bin/assay" model add --server "$server" --json \
  "$WORK/$WORKER_A/models/tiny@rtn:bits=4,group=32"
candidate=$(json "$WORK/stdout" 'd["name"]')

note "the client cannot read the model, and need not"
run 0 as $CLIENT "$WORK/bin/assay" score --server "$server" --reference "$reference" --candidate "int4=$candidate" \
  --suite "$WORK/$CLIENT/suite" --out "$WORK/$CLIENT/out" --unit-contexts 3
chmod -R a+rX "$WORK/$CLIENT"
same_results "$WORK/embedded" "$WORK/$CLIENT/out"
run 0 as $CLIENT "$WORK/bin/assay" verify "$WORK/$CLIENT/out" --key "$WORK/$CLIENT/out/key.pub"
run 0 as $CLIENT "$WORK/bin/assay" workers --server "$server"
run 0 as $CLIENT "$WORK/bin/assay" runs --server "$server"

note "a worker that is killed: the other one finishes"
kill -KILL "$worker_b"
run 0 as $CLIENT "$WORK/bin/assay" score --server "$server" --reference "$reference" --candidate "int8=$reference@rtn:bits=8,group=channel" \
  --suite "$WORK/$CLIENT/suite" --out "$WORK/$CLIENT/out2" --unit-contexts 2

note "the server gone in the middle: the client says so; the server back: the same command finishes"
kill -TERM "$coordinator"
wait "$coordinator" 2>/dev/null || true
run 1 as $CLIENT "$WORK/bin/assay" runs --server "$server"
refused SERVER_UNREACHABLE "$server"
background_as $COORDINATOR assayd "$WORK/bin/assayd" --data "$WORK/$COORDINATOR/data" --listen "$server" \
  --ready-file "$WORK/$COORDINATOR/ready" --lease-ms 3000
rm -rf "$WORK/$CLIENT/out"
run 0 as $CLIENT "$WORK/bin/assay" score --server "$server" --reference "$reference" --candidate "int4=$candidate" \
  --suite "$WORK/$CLIENT/suite" --out "$WORK/$CLIENT/out" --unit-contexts 3
same_results "$WORK/embedded" "$WORK/$CLIENT/out"
