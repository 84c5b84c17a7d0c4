#!/usr/bin/env bash
# Every entry of tests/mutants/list.txt still changes its file: an edit that no longer applies proves nothing. Whether
# each mistake is caught, tests/mutants/run.sh shows.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

LIST=$ROOT/tests/mutants/list.txt
edit=$(mktemp)
trap 'rm -f "$edit"' EXIT
# name, file and the lines of the edit, a mutant a time.
while IFS= read -r name; do
  awk -v name="$name" '/^name: / { current = substr($0, 7) } current == name && /^sed: / { print substr($0, 6) }' "$LIST" >"$edit"
  file=$(awk -v name="$name" '/^name: / { current = substr($0, 7) } current == name && /^file: / { print substr($0, 7) }' "$LIST")
  if [ ! -f "$ROOT/$file" ]; then
    fail "$name: there is no $file"
  elif sed -E -f "$edit" "$ROOT/$file" | cmp -s - "$ROOT/$file"; then
    fail "$name: the edit no longer applies to $file; repair its entry in tests/mutants/list.txt"
  else
    pass
  fi
done < <(sed -n 's/^name: //p' "$LIST")
finish
