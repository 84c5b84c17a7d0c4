#!/usr/bin/env bash
# Runs the built product over a folder of cases with known answers:
#
#     tests/golden/run.sh KIND DIR [--tp N] [--threads N]
#
# KIND: metric, qf, smollm2, arch, weights, llamacpp, fidelity-dataset, receipts. DIR is laid out like tests/data/KIND (qf: tests/data/metric/qf); anybody can bring a
# folder of their own.
# A line is printed for each case that fails (FAIL) or cannot be run (SKIP), and at the end `N passed, N failed`.
# arch runs each case with 1, 2, 4 and 8 ranks, which must give the same bytes; --tp N above 1 takes that number alone.
# Status 0: every case that was run passed, and at least one was run. 2: bad usage or a kind that this build lacks.
# ASSAY_BIN_DIR names the folder of the built programs (default build/release/bin); smollm2 takes its model from
# ASSAY_SMOLLM2_GGUF and, where there is one, its Q4_0 variant from ASSAY_SMOLLM2_Q4_0_GGUF.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${ASSAY_BIN_DIR:-$root/build/release/bin}

usage() {
  sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

[ $# -ge 2 ] || usage
kind=$1
dir=$2
shift 2
if [ ! -d "$dir" ]; then
  echo "FAIL $kind: $dir is not a folder"
  echo "0 passed, 1 failed"
  exit 1
fi

case $kind in
  metric | qf | smollm2 | arch | weights | llamacpp | fidelity-dataset | receipts)
    if [ ! -x "$bin/assay-golden" ]; then
      echo "FAIL $kind: $bin/assay-golden is not built; run deploy/build.sh or set ASSAY_BIN_DIR"
      echo "0 passed, 1 failed"
      exit 1
    fi
    exec "$bin/assay-golden" "$kind" "$dir" "$@"
    ;;
  *) usage ;;
esac
