#!/usr/bin/env bash
# Every C++ file is as clang-format writes it (.clang-format). Repair with: clang-format -i FILE
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v clang-format >/dev/null || die "clang-format is not installed; run deploy/install.sh --tests"
while IFS= read -r file; do
  if clang-format --dry-run -Werror "$file" >/dev/null 2>&1; then
    pass
  else
    fail "$file is not formatted; run: clang-format -i $file"
  fi
done < <(source_files '*.cc' '*.h')
finish
