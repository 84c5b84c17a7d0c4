#!/usr/bin/env bash
# Measures what docs/benchmarks.md promises and prints one table: work, measured ratio, promised ratio, holds or not.
#
#     tests/bench/run.sh [NAME...] [--json FILE] [--quick] [--clock wall|processor|least] [--list]
#                        [--peer-qf PATH] [--python PYTHON] [--threads N]
#
# NAME: rows to run (default: all; --list names them). Every row is a ratio within one run. Rows that need something
# which is absent are skipped by name: --peer-qf is a clone that holds the peer's tools/fidelity.py, --python a Python
# with torch (and transformers, for capture-peer), ASSAY_SMOLLM2_GGUF the model of deploy/fetch_model.sh.
# --quick takes an eighth of the large vocabulary and says so. Ratios are medians over pairs measured in turn;
# --clock processor compares processor time where that is the same thing, for machines that do other work as well.
# ASSAY_BIN_DIR names the folder of the built programs (default build/release/bin).
# Status 0: every row that was run holds, and one was; 1: one does not, or could not be measured; 2: bad usage.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export ASSAY_BIN_DIR=${ASSAY_BIN_DIR:-$root/build/release/bin}
exec python3 "$root/tests/bench/table.py" "$@"
