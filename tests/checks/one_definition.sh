#!/usr/bin/env bash
# No two headers define a class of the same name in the same namespace: linked into one program they would be one class to
# the linker and two to the compiler.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

while IFS= read -r line; do
  fail "${line#* } define the same class; give one of them another name"
done < <(source_files 'storage/*.h' 'server/*.h' 'worker/*.h' 'client/*.h' | xargs awk '
  FNR == 1 { space = "" }
  /^namespace [A-Za-z_:]+ \{/ { space = $2 }
  /^(struct|class|enum class) [A-Z][A-Za-z0-9]*( final)?( :[^;]*)? ?\{/ {
    name = $1 == "enum" ? $3 : $2
    sub(/:$/, "", name)
    key = space "::" name
    if (seen[key] != "" && seen[key] != FILENAME && index(seen[key], " " FILENAME) == 0) twice[key] = 1
    if (seen[key] != FILENAME) seen[key] = seen[key] == "" ? FILENAME : seen[key] " " FILENAME
  }
  END { for (key in twice) print key " " seen[key] " (" key ")" }')
[ "$FAILED" -ne 0 ] || pass
finish
