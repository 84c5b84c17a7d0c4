#!/usr/bin/env bash
# A worker that returns wrong numbers of the right form, beside honest ones: it is found, nothing is sealed before
# somebody has decided, both results can be read, and the run ends with the honest bytes or with RESULT_DISPUTED.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

note "the embedded mode, for comparison"
run 0 "$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" \
  --out "$WORK/honest" --threads 1

# Workers whose ranks are watched_rank.py.
mkdir "$WORK/bin"
cp -L "$BIN/assay-worker" "$BIN"/libassay_*.so "$WORK/bin/"
cp "$ROOT/tests/e2e/watched_rank.py" "$WORK/bin/assay-rank"
chmod +x "$WORK/bin/assay-rank"

# begin NAME FLAG...: a coordinator that has everything done twice.
begin() {
  case=$1
  shift
  port=$(free_port) metrics=$(free_port)
  server=127.0.0.1:$port
  mkdir "$WORK/$case" "$WORK/$case/notes"
  start_coordinator "$case" "$WORK/$case/data" --listen "$server" --metrics "127.0.0.1:$metrics" \
    --recheck-per-mille 1000 --lease-ms 3000 --busy-sync-ms 100 --tick-ms 50 "$@"
  WORKERS=()
}

# worker NAME LIE AFTER
worker() {
  WATCHED_RANK=$BIN/assay-rank WATCHED_NAME=$1 WATCHED_NOTES=$WORK/$case/notes WATCHED_LIE=$2 WATCHED_AFTER=$3 \
    background "$case-$1" "$WORK/bin/assay-worker" --coordinator "$server" --name "$1" --threads 1 \
    --model-root "$(dirname "$TINY")" --cache "$WORK/$case/cache-$1"
  WORKERS+=("$PID")
}

# live COUNT: so many workers are connected, and their ranks have said what they are.
live() { [ "$("$BIN/assay" workers --server "$server" --json | python3 -c 'import json, sys
print(sum(w["state"] == "LIVE" and w.get("replay_identity_sha256", "") != "" for w in json.load(sys.stdin)["workers"]))')" = "$1" ]; }

score() {
  background "$case-score" "$BIN/assay" score --server "$server" --reference "$TINY" \
    --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" --out "$WORK/$case/out" --unit-contexts 2
  SCORE=$PID
}

ended() { ! kill -0 "$SCORE" 2>/dev/null; }

# metric NAME: its value at /metrics.
metric() {
  python3 -c 'import sys, urllib.request
for line in urllib.request.urlopen(sys.argv[1], timeout=20).read().decode().splitlines():
    if line.startswith(sys.argv[2] + " "): print(int(float(line.split()[-1])))' "http://127.0.0.1:$metrics/metrics" "$1"
}

differs() { [ "$(metric 'assay_rechecks_total{outcome="different"}')" -ge 1 ]; }

# Everybody has done what there was: no unit is worked on.
idle() { [ "$(metric assay_leases)" = 0 ]; }

disputes() {
  run 0 "$BIN/assay" runs disputes --server "$server" --json
  cp "$WORK/stdout" "$WORK/$case/disputes.json"
}

# all_disputes EXPRESSION: true of every dispute, of which there are some.
all_disputes() {
  [ "$(json "$WORK/$case/disputes.json" "len(d['disputes']) > 0 and all($1 for x in d['disputes'])")" = True ] ||
    fail "not of every dispute: $1: $(cat "$WORK/$case/disputes.json")"
}

finish() {
  kill -TERM "${WORKERS[@]}" "$COORDINATOR_PID" 2>/dev/null || true
  wait "${WORKERS[@]}" "$COORDINATOR_PID" 2>/dev/null || true
  run 0 "$BIN/assayd" fsck --data "$WORK/$case/data"
}

note "the lie comes second: the run waits for a third worker, who confirms the honest bytes"
begin second
worker honest never ""
worker liar second honest
within 60 live 2 || fail "two workers did not come"
score
within 120 differs || fail "the lie was not found: $(tail -n 5 "$WORK/$case-score.log")"
within 60 idle || fail "work goes on without a third worker"
ls "$WORK/$case/notes" | grep -q '^lie-liar-' || fail "the liar did not lie"
disputes
all_disputes "x['state'] == 'OPEN' and x['kind'] == 'replay'"
all_disputes "[(r['worker'], r.get('accepted', False)) for r in x['results']] == [('workers/honest', True), ('workers/liar', False)]"
all_disputes "len(set(r['sha256'] for r in x['results'])) == 2"
run 0 "$BIN/assay" runs --server "$server" --json
[ "$(json "$WORK/stdout" 'd["runs"][0]["state"]')" = RUNNING ] || fail "the run did not wait"
[ ! -e "$WORK/$case/out/int4/receipt.json" ] || fail "a receipt was given for disputed work"
[ "$(metric assay_log_leaves)" = 0 ] || fail "disputed work was sealed"

note "both results are fetched: files that differ in one bit"
run 0 "$BIN/assay" runs disputes --server "$server" --out "$WORK/evidence"
python3 - "$WORK/evidence" <<'PYTHON' || fail "the evidence is not two files of one bit's difference"
import hashlib, json, pathlib, sys
for unit in pathlib.Path(sys.argv[1]).iterdir():
    found = {}
    for result in unit.iterdir():
        digest = json.loads((result / "result.json").read_text())["sha256"]
        data = (result / digest).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest
        found[result.name.split("-")[0]] = data
    assert sorted(found) == ["honest", "liar"] and len(found["honest"]) == len(found["liar"])
    assert sum(bin(a ^ b).count("1") for a, b in zip(found["honest"], found["liar"])) == 1
PYTHON

note "the third worker decides"
worker third never ""
within 120 ended || fail "the run does not end: $(tail -n 5 "$WORK/$case-score.log")"
wait "$SCORE" || fail "the run did not succeed: $(tail -n 5 "$WORK/$case-score.log")"
same_results "$WORK/honest" "$WORK/$case/out"
run 0 "$BIN/assay" verify "$WORK/$case/out" --key "$WORK/$case/out/key.pub"
disputes
all_disputes "x['state'] == 'CONFIRMED'"
all_disputes "sorted(r['worker'] for r in x['results'] if r.get('accepted', False)) == ['workers/honest', 'workers/third']"
finish

# refuted WHY: the run has ended with RESULT_DISPUTED, and nothing was sealed.
refuted() {
  within 120 ended || fail "the run does not end: $(tail -n 5 "$WORK/$case-score.log")"
  local status=0
  wait "$SCORE" || status=$?
  [ "$status" -ne 0 ] || fail "a run with a refuted result succeeded"
  grep -q RESULT_DISPUTED "$WORK/$case-score.log" || fail "no RESULT_DISPUTED: $(tail -n 5 "$WORK/$case-score.log")"
  grep -q "$1" "$WORK/$case-score.log" || fail "the error does not say: $1"
  [ "$(metric assay_log_leaves)" = 0 ] || fail "disputed work was sealed"
  disputes
  all_disputes "x['state'] in ('REFUTED', 'OPEN')"
}

note "the lie comes first: two others agree against it, and the run fails by name"
begin first
worker honest never liar
worker liar first ""
worker third never liar
within 60 live 3 || fail "three workers did not come"
score
refuted "two other workers returned the same other bytes"
liar=${WORKERS[1]}
kill -TERM "$liar"
wait "$liar" 2>/dev/null || true
note "without the liar the same command gives the honest bytes"
run 0 "$BIN/assay" score --server "$server" --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" \
  --suite "$suite" --out "$WORK/$case/out" --unit-contexts 2
same_results "$WORK/honest" "$WORK/$case/out"
finish

note "nobody can decide: the run ends by name after --worker-wait-ms"
begin undecided --worker-wait-ms 3000
worker honest never ""
worker liar second honest
within 60 live 2 || fail "two workers did not come"
score
refuted "no third one could decide"
finish
