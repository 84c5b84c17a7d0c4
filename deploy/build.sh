#!/usr/bin/env bash
# Configures and builds Assay in build/PRESET; the programs lie in build/PRESET/bin afterwards.
#
#   deploy/build.sh [PRESET [TARGET...]]      PRESET: release (default), debug, asan-ubsan, tsan
#
# ASSAY_JOBS=N overrides how many compilers run at once; ASSAY_CMAKE_ARGS adds arguments to the configuration.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:-release}
[ $# -eq 0 ] || shift
cd "$ROOT"
command -v cmake >/dev/null || die "cmake is not installed; run deploy/install.sh first"
jobs=$(build_jobs)
# shellcheck disable=SC2206  # several arguments on purpose
extra=(${ASSAY_CMAKE_ARGS:-})
# Paths relative to the tree in ccache's keys: a second copy of the tree (tests/mutants) finds what the first compiled.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$ROOT} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-true}
log=build/$preset/configure.log
mkdir -p "build/$preset"
say "build: configuring preset $preset"
if ! cmake --preset "$preset" "${extra[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  die "the configuration failed (above, and in $log)"
fi
say "build: compiling with $jobs at a time in build/$preset"
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
cmake --build "build/$preset" --parallel "$jobs" "${targets[@]}" >&2 || die "the build failed (above)"
say "build: done in $SECONDS s; the programs are in $ROOT/build/$preset/bin"
