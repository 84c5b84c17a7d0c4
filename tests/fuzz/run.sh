#!/usr/bin/env bash
# Fuzzes the readers of everything that comes from outside, with libFuzzer and the address and undefined-behaviour
# sanitizers. Builds only what the targets need, with clang, in a build of its own.
#
#   tests/fuzz/run.sh [--seconds N] [TARGET...]      N seconds for each target (default 10); default: every target
#   tests/fuzz/run.sh --list                         the targets
#
# What was found to be new input is kept in BUILD/corpus/TARGET and used the next time. An input that crashes, hangs
# (more than 10 s), leaks, or takes more than 1 GiB is left in BUILD/findings/TARGET-*; run it again with
# BUILD/bin/fuzz_TARGET FILE, mend, and put the file into tests/fuzz/regressions/TARGET: every later run and
# fuzz_corpus_test begin with those.
#
# Ends with `fuzz: N targets, N executions, N edges, N crashes`; status 1 when something was found.
# ASSAY_FUZZ_BUILD_DIR=DIR holds the build (default build/fuzz); ASSAY_JOBS=N compilers, and targets that run at a time.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
cd "$ROOT"

seconds=10
targets=()
mapfile -t all < <(sed -n 's/^assay_fuzz_target(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt)
while [ $# -gt 0 ]; do
  case $1 in
    --seconds)
      seconds=${2:?--seconds needs a number}
      shift
      ;;
    --list)
      printf '%s\n' "${all[@]}"
      exit
      ;;
    -*) die "usage: tests/fuzz/run.sh [--seconds N] [TARGET...]" ;;
    *)
      [[ " ${all[*]} " == *" $1 "* ]] || die "there is no target '$1'; the targets are: ${all[*]}"
      targets+=("$1")
      ;;
  esac
  shift
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds needs a whole number of seconds, not '$seconds'"
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")

command -v clang++ >/dev/null || die "clang++ is not installed; run deploy/install.sh --tests"
build=${ASSAY_FUZZ_BUILD_DIR:-$ROOT/build/fuzz}  # never ASSAY_BUILD_DIR: those programs are of another preset
jobs=$(build_jobs)
mkdir -p "$build"
if [ ! -f "$build/build.ninja" ]; then
  cmake --preset fuzz -B "$build" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log" >&2
    die "the configuration failed (above)"
  }
fi
programs=("${targets[@]/#/fuzz_}")
cmake --build "$build" --parallel "$jobs" --target "${programs[@]}" >&2 || die "the build failed (above)"

findings=$build/findings
logs=$build/logs
mkdir -p "$findings" "$logs"
export ASSAY_SOURCE_DIR=$ROOT
export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1

# seed TARGET: copies the inputs that the tree keeps for it to BUILD/corpus/TARGET, and what looks like a key or a word
# in them to a dictionary.
seed() {
  local corpus=$build/corpus/$1 path
  mkdir -p "$corpus"
  while read -r path; do
    # shellcheck disable=SC2086  # a pattern on purpose
    for path in $path; do cp "$path" "$corpus/$(sha256sum <"$path" | cut -c1-40)"; done
  done < <(
    for path in "tests/fuzz/corpus/$1"/* "tests/fuzz/regressions/$1"/*; do [ ! -f "$path" ] || echo "$path"; done
    sed -n "s/^$1 //p" tests/fuzz/seeds.txt
  )
  { LC_ALL=C grep -haoE '"[A-Za-z0-9_./-]{2,40}"' "$corpus"/* || true; } | sort -u | head -n 2000 >"$build/corpus/$1.dict"
  [ -s "$build/corpus/$1.dict" ] || echo '"0"' >"$build/corpus/$1.dict"
}

# fuzz TARGET: one target; its last figures go to LOGS/TARGET.figures.
fuzz() {
  local log=$logs/$1.log status=0 executions edges
  seed "$1"
  "$build/bin/fuzz_$1" "$build/corpus/$1" -dict="$build/corpus/$1.dict" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 -artifact_prefix="$findings/$1-" -print_final_stats=1 \
    >"$log" 2>&1 || status=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  if [ "$status" -ne 0 ]; then
    tail -n 60 "$log"
    echo "FAIL $1 ended with status $status ($log)"
  fi
  printf '%-18s %10s executions %7s edges %s\n' "$1" "${executions:-?}" "${edges:-?}" \
    "$([ "$status" -eq 0 ] && echo ok || echo CRASH)" | tee "$logs/$1.figures"
}
export -f fuzz seed
export build findings logs seconds

rm -f "$logs"/*.figures
printf '%s\n' "${targets[@]}" | xargs -n 1 -P "$jobs" bash -c 'set -euo pipefail; fuzz "$1"' _ || true
cat "$logs"/*.figures | awk -v wanted=${#targets[@]} '
  { n += 1; executions += $2; edges += $4; crashes += ($6 == "CRASH") }
  END {
    crashes += wanted - n
    printf "fuzz: %d targets, %d executions, %d edges, %d crashes\n", n, executions, edges, crashes
    exit crashes > 0
  }'
