#!/usr/bin/env bash
# Kills, stops and starves real processes of a cluster and requires the results of an undisturbed run, byte for byte.
#
#   tests/crash/run.sh [--kills N] [--seed S] [--only points,kills,stops,disk]
#
#   points  every named kill point of coordinator, agent and rank once: SIGKILL there, recovery
#   kills   N random kills (200) of coordinator, agents and ranks during real runs
#   stops   SIGSTOP of each process for longer than its lease
#   disk    a full disk and failing system calls under the coordinator
#
# Ends with one line of figures, and with status 0 when all of it held. ASSAY_BIN_DIR: the built programs.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
suite=$(tiny_suite)
status=0
python3 "$ROOT/tests/crash/crash.py" --bin "$BIN" --work "$WORK" --model "$TINY" --suite "$suite" --source "$ROOT" "$@" ||
  status=$?
exit "$status"
