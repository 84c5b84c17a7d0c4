# Shared by the checks; sourced, not run. Every check counts what it looked at and ends with `N passed, N failed` (and
# `, N skipped` when something could not be looked at), which tests/run.sh adds up; its exit status says the same.

. "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
cd "$ROOT"

PASSED=0
FAILED=0
SKIPPED=0

# pass: one more thing is as it should be.
pass() { PASSED=$((PASSED + 1)); }

# fail WORDS...: one thing is not; says which and what to do.
fail() {
  FAILED=$((FAILED + 1))
  printf 'FAIL %s\n' "$*"
}

# skip WORDS...: one thing could not be looked at; says why.
skip() {
  SKIPPED=$((SKIPPED + 1))
  printf 'SKIP %s\n' "$*"
}

# finish: prints the count and ends the script.
finish() {
  if [ "$SKIPPED" -gt 0 ]; then
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
  else
    echo "$PASSED passed, $FAILED failed"
  fi
  [ "$FAILED" -eq 0 ]
  exit
}

# source_files PATTERN...: the files of the tree that match, whether or not committed yet, ignored ones left out.
source_files() {
  git -c safe.directory="$ROOT" ls-files --cached --others --exclude-standard -- "$@" | sort -u |
    while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done
}

# The folder with the built programs and compile_commands.json.
BUILD=${ASSAY_BUILD_DIR:-$ROOT/build/release}
