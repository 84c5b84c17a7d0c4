#!/usr/bin/env bash
# C++ files stay small: none above 800 lines, half of them below 200. Lists those above 450, which deserve a second look.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LIMIT=800
LOOK=450
MEDIAN=200

mapfile -t sizes < <(source_files '*.cc' '*.h' | while IFS= read -r file; do
  printf '%s %s\n' "$(wc -l <"$file")" "$file"
done | sort -n)
[ ${#sizes[@]} -gt 0 ] || die "no C++ file found in $ROOT"
for entry in "${sizes[@]}"; do
  lines=${entry%% *}
  file=${entry#* }
  if [ "$lines" -gt "$LIMIT" ]; then
    fail "$file has $lines lines, more than $LIMIT; split it"
  else
    pass
    [ "$lines" -le "$LOOK" ] || echo "look $file has $lines lines"
  fi
done
median=${sizes[$((${#sizes[@]} / 2))]%% *}
if [ "$median" -lt "$MEDIAN" ]; then
  pass
else
  fail "the median C++ file has $median lines; it should stay below $MEDIAN"
fi
echo "${#sizes[@]} files, median $median lines"
finish
