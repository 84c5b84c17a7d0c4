# Shared by the end-to-end tests; sourced, not run. A test is a bash script that runs the built programs as a user
# would, and ends with status 0 (passed), 77 (skipped: ctest shows why) or anything else (failed).
#
# ASSAY_BIN_DIR: the folder of the built programs (default build/release/bin).

. "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

BIN=${ASSAY_BIN_DIR:-$ROOT/build/release/bin}
TINY=$ROOT/tests/data/arch/llama            # 3 layers, hidden 64, vocabulary 320: a run takes seconds
SMALL_SUITE=$ROOT/tests/data/smollm2/suite  # 8 contexts of 64 tokens for SmolLM2

[ -x "$BIN/assay" ] || die "$BIN/assay is not built; run deploy/build.sh"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/assay-e2e.XXXXXX")
chmod 755 "$WORK"
export ASSAY_DATA=$WORK/data  # never the user's own
PIDS=()

# Ends what the test itself started, by process id, and removes its files.
cleanup() {
  local status=$? pid
  for pid in "${PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if [ "$status" -ne 0 ] && [ "$status" -ne 77 ] && [ -n "${ASSAY_E2E_KEEP:-}" ]; then
    echo "kept: $WORK"
  else
    rm -rf "$WORK"
  fi
}
trap cleanup EXIT

note() { printf -- '-- %s\n' "$*"; }

fail() {
  printf 'FAILED: %s\n' "$*"
  local file
  for file in "$WORK/stdout" "$WORK/stderr"; do
    [ ! -s "$file" ] || { echo "--- $(basename "$file") of the last command:" && tail -n 30 "$file"; }
  done
  exit 1
}

skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

# run STATUS COMMAND...: the command must end with that status; its output is in $WORK/stdout and $WORK/stderr.
run() {
  local want=$1 got=0
  shift
  printf '$'
  printf ' %q' "$@"
  printf '\n'
  "$@" >"$WORK/stdout" 2>"$WORK/stderr" </dev/null || got=$?
  [ "$got" -eq "$want" ] || fail "the command ended with status $got, not $want"
}

# refused TOKEN [TEXT...]: the last command named this reason, and its message has each TEXT.
refused() {
  local token=$1 text
  shift
  grep -q "error \[$token\]: " "$WORK/stderr" || fail "the error has not the reason $token"
  for text in "$@"; do
    grep -qF -- "$text" "$WORK/stderr" || fail "the error does not mention '$text'"
  done
}

# json FILE EXPRESSION: evaluates a Python expression over the document `d`.
json() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

# same_results OUT OUT: the same candidates, and for each the same report and position arrays, byte for byte.
same_results() {
  local report label
  [ "$(cd "$1" && ls -d ./*/)" = "$(cd "$2" && ls -d ./*/)" ] || fail "$1 and $2 hold different candidates"
  for report in "$1"/*/report.json; do
    label=$(basename "$(dirname "$report")")
    cmp "$report" "$2/$label/report.json" || fail "report.json of $label differs between $1 and $2"
    diff -r "$1/$label/positions" "$2/$label/positions" || fail "the positions of $label differ between $1 and $2"
  done
}

# A suite for the tiny model, made once per test.
tiny_suite() {
  [ -d "$WORK/suite" ] || python3 "$ROOT/tests/e2e/make_suite.py" --out "$WORK/suite" --vocab 320 --hidden 64
  echo "$WORK/suite"
}

# The path of SmolLM2's GGUF; tests/run.sh has fetched it. Without it the test is skipped, and says so.
need_smollm2() {
  [ -n "${ASSAY_SMOLLM2_GGUF:-}" ] ||
    skip "ASSAY_SMOLLM2_GGUF is not set; deploy/fetch_model.sh prints the path to set it to"
  MODEL=$ASSAY_SMOLLM2_GGUF
}

# background NAME PROGRAM...: starts a program (not a function: PID must be its own), its output in $WORK/NAME.log.
background() {
  local name=$1
  shift
  "$@" >"$WORK/$name.log" 2>&1 </dev/null &
  PID=$!
  PIDS+=("$PID")
}

# children PID PROGRAM: the processes called PROGRAM below PID, at any depth.
children() {
  local pid
  for pid in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
    [ "$(cat /proc/"$pid"/comm 2>/dev/null)" != "$2" ] || echo "$pid"
    children "$pid" "$2"
  done
}

# within SECONDS COMMAND...: waits until the command succeeds. A limit against hanging, not a measurement.
within() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.1
  done
}

# flip FILE [OFFSET]: changes one byte, by default the middle one.
flip() {
  python3 - "$@" <<'PYTHON'
import os, sys
size = os.path.getsize(sys.argv[1])
at = int(sys.argv[2]) if len(sys.argv) > 2 else size // 2
with open(sys.argv[1], "r+b") as file:
    file.seek(at)
    byte = file.read(1)[0]
    file.seek(at)
    file.write(bytes([byte ^ 0x01]))
PYTHON
}

# free_port: a TCP port of the loopback interface that nothing listens on.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_coordinator NAME DATA FLAG...: an assayd with a ready file $WORK/NAME.ready; sets COORDINATOR_PID.
start_coordinator() {
  local name=$1 data=$2
  shift 2
  background "$name" "$BIN/assayd" --data "$data" --ready-file "$WORK/$name.ready" "$@"
  COORDINATOR_PID=$PID
  within 30 test -s "$WORK/$name.ready" || { cat "$WORK/$name.log" && fail "assayd did not start"; }
}
