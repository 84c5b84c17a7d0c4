#!/usr/bin/env bash
# Installs what is needed, builds, and runs every test: unit and end-to-end tests, Python tests, golden cases and checks
# of the tree's own rules. Ends with `N passed, N failed` over everything.
#
#   tests/run.sh [PHASE...]      default: all of them, in this order:
#     install build model checks ctest python guides golden metrics tidy fuzz
#   Not among them, since it builds a second copy of the tree: mutants
#
# ASSAY_PRESET=asan-ubsan runs against another build preset. ASSAY_SMOLLM2_GGUF names a copy of the model you have.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/common.sh"
cd "$ROOT"

PRESET=${ASSAY_PRESET:-release}
BUILD=$ROOT/build/$PRESET
export ASSAY_BUILD_DIR=$BUILD ASSAY_BIN_DIR=$BUILD/bin
LOGS=$ROOT/build/test-logs
ALL=(install build model checks ctest python guides golden metrics tidy fuzz)

passed=0
failed=0
skipped=0
timings=()
failures=()

# add PASSED FAILED SKIPPED NAME
add() {
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
  [ "$2" -eq 0 ] || failures+=("$4")
}

# counted NAME COMMAND...: runs a command that ends with `N passed, N failed[, N skipped]` and adds its counts. A command
# that ends without such a line, or whose status and count disagree, counts as one failure.
counted() {
  local name=$1 log=$LOGS/${1//\//-}.log status=0 line p f s
  shift
  "$@" >"$log" 2>&1 </dev/null || status=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1 || true)
  if [ -z "$line" ]; then
    tail -n 40 "$log"
    echo "FAIL $name ended with status $status and without a count ($log)"
    add 0 1 0 "$name"
    return
  fi
  read -r p _ f _ s _ <<<"${line//,/} 0"
  if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
  grep -E '^(FAIL|SKIP)|^look ' "$log" || true
  if [ "$f" -ne 0 ]; then tail -n 40 "$log"; fi
  echo "  $name: $p passed, $f failed, $s skipped"
  add "$p" "$f" "$s" "$name"
}

phase_install() { deploy/install.sh --tests; }

phase_build() { deploy/build.sh "$PRESET"; }

phase_model() {
  ASSAY_SMOLLM2_GGUF=$(deploy/fetch_model.sh) || return
  export ASSAY_SMOLLM2_GGUF
}

phase_ctest() { counted ctest tests/ctest.sh "$BUILD"; }

phase_python() { counted python tests/python.sh; }

phase_guides() { counted guides tests/guides/run.sh; }

phase_checks() {
  local check
  for check in format sizes arrows one_definition link_rules errors_documented systemd mutants; do
    counted "checks/$check" "tests/checks/$check.sh"
  done
}

phase_metrics() { counted checks/metrics tests/checks/metrics.sh; }

phase_tidy() { counted checks/tidy tests/checks/tidy.sh; }

phase_golden() {
  local kind
  for kind in metric metric/qf metric/fidelity-dataset smollm2 arch weights llamacpp; do
    counted "golden/${kind##*/}" tests/golden/run.sh "${kind##*/}" "tests/data/$kind" --threads "$(nproc)"
  done
}

# Every reader for ten seconds. One target counts as one test.
phase_fuzz() {
  local log=$LOGS/fuzz.log status=0 line
  # The parsers of files from outside; the other targets run in fuzz_corpus_test, and here on request.
  tests/fuzz/run.sh --seconds 10 safetensors gguf checkpoint suite capture_manifest model_manifest report receipt dataset published \
    llamacpp_logits >"$log" 2>&1 </dev/null || status=$?
  line=$(tail -n 1 "$log")
  echo "  $line"
  if [[ $line =~ ^fuzz:\ ([0-9]+)\ targets,.*\ ([0-9]+)\ crashes$ ]] && { [ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ]; }; then
    [ "$status" -eq 0 ] || grep -E '^FAIL' "$log"
    add $((BASH_REMATCH[1] - BASH_REMATCH[2])) "${BASH_REMATCH[2]}" 0 fuzz
  else
    tail -n 40 "$log"
    echo "FAIL fuzz ended with status $status ($log)"
    add 0 1 0 fuzz
  fi
}

phase_mutants() { counted mutants tests/mutants/run.sh --sample; }

finish() {
  local entry
  echo
  for entry in "${timings[@]}"; do echo "$entry"; done
  echo "total: $SECONDS s"
  [ ${#failures[@]} -eq 0 ] || echo "failed: ${failures[*]}"
  if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
  [ "$failed" -eq 0 ]
  exit
}

mkdir -p "$LOGS"
[ $# -gt 0 ] || set -- "${ALL[@]}"
for phase in "$@"; do
  declare -F "phase_$phase" >/dev/null || die "there is no phase '$phase'; the phases are: ${ALL[*]}"
done
for phase in "$@"; do
  echo "== $phase"
  start=$SECONDS
  # Without these three nothing that follows can be run at all.
  case $phase in
    install | build | model)
      if ! "phase_$phase"; then
        echo "FAIL $phase"
        add 0 1 0 "$phase"
        finish
      fi
      ;;
    *) "phase_$phase" ;;
  esac
  timings+=("$(printf '%-8s %5d s' "$phase" $((SECONDS - start)))")
done
finish
