#!/usr/bin/env bash
# Runs the Python unit tests (client/python/tests) in a virtual environment of their own, build/venv, and ends with
# `N passed, N failed[, N skipped]`.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/common.sh"
cd "$ROOT"

venv=$ROOT/build/venv
stamp=$venv/.requirements
if ! cmp -s tests/requirements.txt "$stamp"; then
  rm -rf "$venv"
  python3 -m venv "$venv" || die "python3 -m venv failed; run deploy/install.sh --tests"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt ||
    die "the packages of tests/requirements.txt could not be installed: is there a network, and is PyPI reachable?"
  cp tests/requirements.txt "$stamp"
fi
PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" - <<'PYTHON'
import sys
import unittest

suite = unittest.defaultTestLoader.discover("client/python/tests")
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
for test, why in result.skipped:
    print(f"SKIP {test.id()}: {why}")
failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
passed = result.testsRun - failed - len(result.skipped)
if result.testsRun == 0:
    print("FAIL no Python test was found")
    failed = 1
print(f"{passed} passed, {failed} failed" + (f", {len(result.skipped)} skipped" if result.skipped else ""))
sys.exit(failed != 0)
PYTHON
