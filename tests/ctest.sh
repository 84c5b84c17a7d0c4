#!/usr/bin/env bash
# Runs ctest over a build folder and ends with `N passed, N failed[, N skipped]`.
#
#   tests/ctest.sh BUILD_DIR [CTEST ARGUMENT...]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/common.sh"

build=${1:?usage: tests/ctest.sh BUILD_DIR [CTEST ARGUMENT...]}
shift
junit=$(mktemp)
trap 'rm -f "$junit"' EXIT
status=0
ctest --test-dir "$build" --parallel "$(nproc)" --output-on-failure --no-tests=error --output-junit "$junit" "$@" ||
  status=$?
# A test that fails but counts as none (a crashed ctest, say) must not read as success: the status decides at the end.
python3 - "$junit" "$status" "$build/Testing/Temporary/LastTest.log" <<'PYTHON'
import re
import sys
import xml.etree.ElementTree as tree

try:
    suite = tree.parse(sys.argv[1]).getroot()
except (tree.ParseError, OSError) as error:
    print(f"FAIL ctest wrote no result: {error}")
    print("0 passed, 1 failed")
    sys.exit(1)
passed = failed = skipped = 0
for case in suite.iter("testcase"):
    name = case.get("name")
    if case.find("failure") is not None or case.get("status") == "fail":
        failed += 1
        print(f"FAIL {name}")
    elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        skipped += 1
        why = case.find("skipped")
        print(f"SKIP {name}: {why.get('message') if why is not None else 'disabled'}")
    else:
        passed += 1
# A case skipped inside a test program does not show in ctest's count.
with open(sys.argv[3], encoding="utf-8", errors="replace") as log:
    for name in re.findall(r"^\[  SKIPPED \] (\S+) \(\d+ ms\)", log.read(), flags=re.M):
        skipped += 1
        print(f"SKIP {name}")
if int(sys.argv[2]) != 0 and failed == 0:
    failed = 1
    print(f"FAIL ctest ended with status {sys.argv[2]}")
print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(failed != 0)
PYTHON
