#!/usr/bin/env bash
# clang-tidy with the profile of .clang-tidy over the sources of some folders (tests left out), from the build's
# compile_commands.json.
#
#   tests/checks/tidy.sh [FOLDER...]     default: storage server/core worker/replay; all of it: storage server worker client
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v clang-tidy >/dev/null || die "clang-tidy is not installed; run deploy/install.sh --tests"
[ -f "$BUILD/compile_commands.json" ] || die "$BUILD/compile_commands.json is missing; run deploy/build.sh first"
[ $# -gt 0 ] || set -- storage server/core worker/replay

mapfile -t files < <(source_files "${@/%//*.cc}" | grep -vP '(?<!/self)_test\.cc$' || true)
[ ${#files[@]} -gt 0 ] || die "no sources below: $*"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# g++'s precompiled headers mean nothing to clang: the sources are checked with what they include themselves.
python3 - "$BUILD/compile_commands.json" "$logs/compile_commands.json" <<'PYTHON'
import json, re, sys
commands = json.load(open(sys.argv[1], encoding="utf-8"))
for entry in commands:
    entry["command"] = re.sub(r" -include \S*cmake_pch\.hxx| -Winvalid-pch| -fpch-preprocess", "", entry["command"])
json.dump(commands, open(sys.argv[2], "w", encoding="utf-8"))
PYTHON

# What this build leaves out (CUDA's parts where there is no CUDA) cannot be checked here.
mapfile -t files < <(python3 - "$logs/compile_commands.json" "$ROOT" "${files[@]}" <<'PYTHON'
import json, os, sys
built = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in json.load(open(sys.argv[1], encoding="utf-8"))}
for file in sys.argv[3:]:
    if os.path.realpath(os.path.join(sys.argv[2], file)) in built:
        print(file)
    else:
        print(f"look {file} is not part of this build", file=sys.stderr)
PYTHON
)
[ ${#files[@]} -gt 0 ] || die "the build has none of: $*"

# One log per file; clang-tidy's counts of suppressed warnings are noise. Clang does not know every g++ flag, finds
# g++'s quadmath.h only when told where it is, and needs an omp.h of its own (libomp-dev).
gcc_headers=$(g++ -print-file-name=include)
export logs gcc_headers
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(build_jobs)" bash -c '
  log=$logs/${1//\//+}
  clang-tidy --quiet -p "$logs" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Qunused-arguments \
    --extra-arg=-idirafter --extra-arg="$gcc_headers" "$1" \
    >"$log" 2>"$log.err" || { [ -s "$log" ] || cp "$log.err" "$log"; touch "$log.failed"; }' _ || true

for file in "${files[@]}"; do
  log=$logs/${file//\//+}
  if [ -e "$log.failed" ]; then
    sed "s|$ROOT/||" "$log"
    fail "$file (above)"
  else
    pass
  fi
done
finish
