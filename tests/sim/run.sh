#!/usr/bin/env bash
# Deterministic simulation of the coordinator: its core, catalogue and sealing over a model disk and network with faults.
#
#     tests/sim/run.sh [--steps N] [--seed S]
#
# Seeds S, S+1, ... (default 1) are simulated until N steps (default 1000000) are done. Ends with one line of figures and
# status 0. A seed that fails is simulated again with a trace: status 1 when it fails at the same step, 3 when it does
# not (which is a mistake of the simulation), 2 for bad usage. tests/sim/README.md says what is simulated and checked.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exec "${ASSAY_BIN_DIR:-$root/build/release/bin}/assay_sim" "$@"
