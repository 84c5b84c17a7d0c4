"""The package is typed: mypy --strict finds nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unittest

from fixtures import ROOT

PACKAGE = ROOT / "client" / "python"


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class TypesTest(unittest.TestCase):
    def test_mypy_strict(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / "build" / "mypy-cache")],
            cwd=PACKAGE,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class TokensTest(unittest.TestCase):
    def test_every_reason_is_documented(self) -> None:
        """Each reason token of the package has a line in its README or in docs/errors.md."""
        import re

        used = set()
        for path in sorted((PACKAGE / "src").rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            used |= set(re.findall(r'\w*Error\(\s*"([A-Z][A-Z0-9_]{3,})"', text))
        listed: set[str] = set()
        for page in (PACKAGE / "README.md", ROOT / "docs" / "errors.md"):
            listed |= set(re.findall(r"^\| `([A-Z0-9_]+)`", page.read_text(encoding="utf-8"), flags=re.M))
        self.assertGreater(len(used), 10)
        self.assertEqual(sorted(used - listed), [])


if __name__ == "__main__":
    unittest.main()
