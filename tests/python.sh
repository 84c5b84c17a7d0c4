#!/usr/bin/env bash
# Installs the Python package (client/python) into a virtual environment of its own, build/venv, runs its tests there and
# ends with `N passed, N failed[, N skipped]`. PyPI is needed once, for tests/requirements.txt; the tests use no network.
#
# ASSAY_BIN_DIR: the built programs (default build/release/bin); tests that need them are skipped where there are none.
# ASSAY_TORCH_PYTHON: a Python with torch and transformers, for the tests of the transformers recipe; else they are skipped.
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
# From a copy, so that neither leftovers of an earlier build are installed nor new ones left in the tree.
copy=$(mktemp -d "${TMPDIR:-/tmp}/assay-python.XXXXXX")
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/client"
cp -r client/python "$copy/client/"
cp -r proto "$copy/"
rm -rf "$copy/client/python/build" "$copy"/client/python/src/*.egg-info
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index \
  --force-reinstall "$copy/client/python" || die "client/python could not be installed; its messages are above"

export ASSAY_BIN_DIR=${ASSAY_BIN_DIR:-$ROOT/build/release/bin}
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" - <<'PYTHON'
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
