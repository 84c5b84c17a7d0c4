#!/usr/bin/env bash
# Follows the guides of docs/guides literally: the commands are taken out of the page and run, in order, in a clean folder
# that holds what the guide says the reader has. Ends with `N passed, N failed[, N skipped]`.
#
#   tests/guides/run.sh [GUIDE...]        default: all; a guide is a name such as gguf
#
# Of a page's fenced blocks, ```sh is run, ```python FILE is written to FILE, and anything else is for reading. A block that needs
# more is marked ```sh torch: it is run with ASSAY_TORCH_PYTHON (a Python with torch and transformers) and skipped without.
# tests/guides/GUIDE.sh prepares the folder (setup) and looks at what came out (check).
#
# ASSAY_BIN_DIR: the built programs (default build/release/bin). The Python parts run with the package and the interpreter
# that tests/python.sh has installed (build/venv), or that of ASSAY_GUIDES_VENV, and are skipped where there is none.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

export ROOT
BIN=${ASSAY_BIN_DIR:-$ROOT/build/release/bin}
VENV=${ASSAY_GUIDES_VENV:-$ROOT/build/venv}
[ -x "$BIN/assay" ] || die "$BIN/assay is not built; run deploy/build.sh"
passed=0 failed=0 skipped=0

# extract PAGE FOLDER: writes the blocks that are run or written to FOLDER/NUMBER, and says KIND, NUMBER and argument of each.
extract() {
  awk -v into="$2" '
    /^```/ && !open { open = 1; kind = substr($1, 4); arg = $2; n += (kind == "sh" || kind == "python");
                      file = sprintf("%s/%02d", into, n); keep = (kind == "sh" || (kind == "python" && arg != ""));
                      if (keep) printf "%s\t%02d\t%s\n", kind, n, arg; next }
    /^```/ { open = 0; keep = 0; next }
    open && keep { print > file }
  ' "$1"
}

# follow GUIDE: in a subshell of its own. Status 0: passed, 77: skipped, else failed.
follow() {
  local guide=$1 page=$ROOT/docs/guides/$1.md kind number argument
  setup() { :; }
  check() { :; }
  needs=()
  . "$ROOT/tests/guides/$guide.sh"
  for need in "${needs[@]}"; do
    if [ "$need" = python ] && ! "$VENV/bin/python" -c 'import assay' 2>/dev/null; then
      echo "SKIP $guide: needs Python with the package assay (run tests/python.sh first, or set ASSAY_GUIDES_VENV)"
      return 77
    fi
  done
  place=$(mktemp -d "${TMPDIR:-/tmp}/assay-guide.XXXXXX")
  trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$place"' EXIT
  blocks=$place/blocks
  mkdir "$blocks" "$place/reader"
  cd "$place/reader"
  export PATH=$VENV/bin:$BIN:$PATH HOME=$place ASSAY_DATA= PYTHONDONTWRITEBYTECODE=1
  unset ASSAY_DATA XDG_DATA_HOME XDG_CONFIG_HOME
  setup
  while IFS=$'\t' read -r kind number argument; do
    if [ "$kind" = python ]; then
      cp "$blocks/$number" "$argument"
      continue
    fi
    if [ "$argument" = torch ]; then
      if [ -z "${ASSAY_TORCH_PYTHON:-}" ]; then
        echo "SKIP $guide, block $number: ASSAY_TORCH_PYTHON names no Python with torch and transformers"
        continue
      fi
      python() { PYTHONPATH=$ROOT/client/python/src "$ASSAY_TORCH_PYTHON" "$@"; }
    fi
    sed 's/^/  $ /' "$blocks/$number"
    # shellcheck disable=SC1090
    . "$blocks/$number" </dev/null
    unset -f python
  done < <(extract "$page" "$blocks")
  check
}

[ $# -gt 0 ] || set -- gguf panel own-captures vllm slurm sharing
for guide in "$@"; do
  [ -f "$ROOT/docs/guides/$guide.md" ] && [ -f "$ROOT/tests/guides/$guide.sh" ] || die "there is no guide '$guide'"
  echo "== docs/guides/$guide.md"
  status=0
  # Not in an `if`: there, set -e would not end the guide at its first failing command.
  set +e
  (set -e && follow "$guide")
  status=$?
  set -e
  case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) echo "FAIL docs/guides/$guide.md: a command ended with status $status, or what came out is not what the page says"
       failed=$((failed + 1)) ;;
  esac
done
if [ "$skipped" -gt 0 ]; then echo "$passed passed, $failed failed, $skipped skipped"; else echo "$passed passed, $failed failed"; fi
[ "$failed" -eq 0 ]
