#!/usr/bin/env bash
# Builds test programs under sanitizers and runs them. Slow, so only on request: tests/run.sh does not call it.
#
#   tests/sanitize.sh asan-ubsan|tsan|fuzz [--shard I/N] [CTEST_REGEX]
#
#   asan-ubsan, tsan   g++ with the address and undefined-behaviour sanitizers, or the thread sanitizer
#   fuzz               clang with address and undefined behaviour: the build of tests/fuzz/run.sh, so that a machine which
#                      fuzzes compiles the libraries once
#   --shard I/N        every N-th test, beginning with the I-th (1 to N): builds those programs alone, for machines on
#                      which the whole takes too long. All N shards together are everything.
#   CTEST_REGEX        tests by name; default: every one but the end-to-end scripts
#
# What a sanitizer finds in a program that a test starts (assay-rank, say) could pass unseen: it goes to that program's
# log, and the work is done again. So findings are written to files of their own, and each such file counts as a failure,
# whatever ctest says. Ends with `N passed, N failed[, N skipped]`.
#
# The thread sanitizer knows nothing of what happens inside gRPC and RocksDB, which Debian compiles without it: programs
# that link them run with tests/tsan.supp, where each line has its reason; all others run without any suppression.
#
# ASSAY_BUILD_DIR=DIR holds the build and the findings (default build/PRESET). ASSAY_JOBS=N compilers and tests at once.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/common.sh"

usage="usage: tests/sanitize.sh asan-ubsan|tsan|fuzz [--shard I/N] [CTEST_REGEX]"
preset=${1:-}
case $preset in asan-ubsan | tsan | fuzz) shift ;; *) die "$usage" ;; esac
shard=1
shards=1
if [ "${1:-}" = --shard ]; then
  [[ ${2:-} =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] || die "$usage"
  shard=${BASH_REMATCH[1]} shards=${BASH_REMATCH[2]}
  [ "$shard" -le "$shards" ] || die "$usage"
  shift 2
fi
select=(-LE e2e)
[ -z "${1:-}" ] || select=(-R "$1")
cd "$ROOT"
build=${ASSAY_BUILD_DIR:-$ROOT/build/$preset}
jobs=$(build_jobs)
findings=$build/sanitizer-findings

mkdir -p "$build"
cmake --preset "$preset" -B "$build" >"$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  die "the configuration failed (above)"
}

# The names of the tests that were asked for.
mapfile -t tests < <(ctest --test-dir "$build" -N "${select[@]}" | sed -n 's/^ *Test *#[0-9]*: \([^ ]*\).*/\1/p' |
  awk -v i=$((shard % shards)) -v n="$shards" 'NR % n == i')
[ ${#tests[@]} -gt 0 ] || die "no test was selected"
# A test is called as its program, or as a variant of it.
mapfile -t known < <(ninja -C "$build" -t targets all | sed -n 's/^\([A-Za-z0-9_-]*\): phony$/\1/p')
mapfile -t targets < <(printf '%s\n' "${tests[@]/%_avx512/}" | sort -u | grep -Fxf <(printf '%s\n' "${known[@]}") || true)
# Anything else (a script) may need every program.
[ ${#targets[@]} -gt 0 ] || targets=(all)
for name in "${tests[@]}"; do
  [[ " ${targets[*]} " == *" ${name%_avx512} "* ]] || targets=(all)
done
cmake --build "$build" --parallel "$jobs" --target "${targets[@]}" >&2 || die "the build failed (above)"

rm -rf "$findings"
mkdir -p "$findings"
common=log_path=$findings/report
export ASAN_OPTIONS=$common:detect_stack_use_after_return=1
export UBSAN_OPTIONS=$common:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$ROOT/tests/lsan.supp:print_suppressions=0
passed=0
failed=0
skipped=0

# run_tests NAME...: these tests, added to the counts.
run_tests() {
  local status=0 line
  tests/ctest.sh "$build" --parallel "$jobs" -R "^($(IFS='|' && echo "$*"))\$" | tee "$findings/ctest.log" || status=$?
  line=$(tail -n 1 "$findings/ctest.log")
  [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]] ||
    die "the tests ended with status $status and without a count"
  passed=$((passed + BASH_REMATCH[1]))
  failed=$((failed + BASH_REMATCH[2]))
  skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
  [ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
}

# links_foreign TEST: whether its program, or one that it starts, is linked with gRPC or RocksDB.
links_foreign() {
  local program=$build/bin/${1%_avx512}
  [ ! -x "$program" ] || ldd "$program" | grep -qE 'libgrpc|librocksdb'
}

if [ "$preset" = tsan ]; then
  plain=()
  foreign=()
  for name in "${tests[@]}"; do
    if links_foreign "$name"; then foreign+=("$name"); else plain+=("$name"); fi
  done
  export TSAN_OPTIONS=$common:second_deadlock_stack=1
  [ ${#plain[@]} -eq 0 ] || run_tests "${plain[@]}"
  export TSAN_OPTIONS=$TSAN_OPTIONS:suppressions=$ROOT/tests/tsan.supp
  [ ${#foreign[@]} -eq 0 ] || run_tests "${foreign[@]}"
else
  run_tests "${tests[@]}"
fi

shopt -s nullglob
found=("$findings"/report.*)
for report in "${found[@]}"; do
  echo "FAIL $report"
  head -n 60 "$report"
done
failed=$((failed + ${#found[@]}))
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
