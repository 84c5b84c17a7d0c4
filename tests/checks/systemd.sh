#!/usr/bin/env bash
# The units in deploy/systemd are valid, and their sandboxes leave little open: the exposure level that systemd computes stays
# below a bound. Skipped where there is no systemd-analyze.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v systemd-analyze >/dev/null || { echo "SKIPPED: systemd-analyze is missing"; exit 0; }

# unit: highest exposure level, tenths (0 is none, 100 everything).
declare -A BOUND=([assayd.service]=15 [assay-worker.service]=25)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for unit in "${!BOUND[@]}"; do
  # The programs need not be installed for this: true stands for them.
  sed -E 's@^(ExecStart=)[^ ]+@\1/bin/true@' "$ROOT/deploy/systemd/$unit" >"$work/$unit"
  if said=$(systemd-analyze verify --man=no "$work/$unit" 2>&1) && [ -z "$said" ]; then
    pass
  else
    fail "deploy/systemd/$unit: $said"
  fi
  if systemd-analyze security --offline=true --threshold="${BOUND[$unit]}" "$work/$unit" >"$work/said" 2>&1; then
    pass
  else
    fail "deploy/systemd/$unit: $(tail -n 1 "$work/said")"
  fi
done
finish
