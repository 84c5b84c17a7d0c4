#!/usr/bin/env bash
# Builds the tree under sanitizers and runs the ctest suites with what was built. Slow, so only on request: tests/run.sh
# does not call it.
#
#   tests/sanitize.sh asan-ubsan|tsan [CTEST_REGEX]      default: every suite but the end-to-end scripts
#
# What a sanitizer finds in a program that a test starts (assay-rank, say) could pass unseen: it goes to that program's
# log, and the work is done again. So findings are written to files of their own, and each such file counts as a failure,
# whatever ctest says. Ends with `N passed, N failed[, N skipped]`.
#
# ASSAY_BUILD_DIR=DIR holds the build and the findings (default build/PRESET). ASSAY_JOBS=N compilers and tests at once.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/common.sh"

case ${1:-} in
  asan-ubsan | tsan) ;;
  *) die "usage: tests/sanitize.sh asan-ubsan|tsan [CTEST_REGEX]" ;;
esac
preset=$1
select=(-LE e2e)
[ -z "${2:-}" ] || select=(-R "$2")
cd "$ROOT"
build=${ASSAY_BUILD_DIR:-$ROOT/build/$preset}
jobs=$(build_jobs)
findings=$build/findings

cmake --preset "$preset" -B "$build" >&2 || die "the configuration failed (above)"
cmake --build "$build" --parallel "$jobs" >&2 || die "the build failed (above)"

rm -rf "$findings"
mkdir -p "$findings"
common=log_path=$findings/report
export ASAN_OPTIONS=$common:detect_stack_use_after_return=1
export UBSAN_OPTIONS=$common:print_stacktrace=1
export TSAN_OPTIONS=$common:second_deadlock_stack=1
status=0
tests/ctest.sh "$build" --parallel "$jobs" "${select[@]}" | tee "$findings/ctest.log" || status=$?

shopt -s nullglob
found=("$findings"/report.*)
for report in "${found[@]}"; do
  echo "FAIL $report"
  head -n 60 "$report"
done
line=$(tail -n 1 "$findings/ctest.log")
[[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(.*)$ ]] || die "the suites ended with status $status and without a count"
failed=$((BASH_REMATCH[2] + ${#found[@]}))
echo "${BASH_REMATCH[1]} passed, $failed failed${BASH_REMATCH[3]}"
[ "$status" -eq 0 ] && [ "$failed" -eq 0 ]
