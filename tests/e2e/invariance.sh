#!/usr/bin/env bash
# The same bytes for every tensor-parallel degree, number of workers and unit size, on SmolLM2 and the small panel.
# ASSAY_E2E_FULL=1 runs all 24 combinations instead of the pairs that cover every value.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_smollm2

# tp workers unit-contexts; the first is what the others must equal.
combinations=("1 1 16" "2 3 3" "4 1 1" "8 1 16" "1 3 1" "2 1 16")
if [ -n "${ASSAY_E2E_FULL:-}" ]; then
  combinations=()
  for tp in 1 2 4 8; do for workers in 1 3; do for unit in 16 3 1; do
    combinations+=("$tp $workers $unit")
  done; done; done
fi

first=""
for combination in "${combinations[@]}"; do
  read -r tp workers unit <<<"$combination"
  out=$WORK/tp$tp-workers$workers-unit$unit
  note "tp $tp, $workers workers, units of $unit contexts"
  # A data folder of its own: nothing may be reused from the run before.
  run 0 "$BIN/assay" score --reference "$MODEL" --candidate "int8=$MODEL@rtn:bits=8,group=channel" \
    --candidate "int4=$MODEL@rtn:bits=4,group=32" --suite "$SMALL_SUITE" --out "$out" --data "$WORK/data" \
    --threads 1 --tp "$tp" --workers "$workers" --unit-contexts "$unit"
  rm -rf "$WORK/data"
  if [ -z "$first" ]; then first=$out; else same_results "$first" "$out"; fi
done
