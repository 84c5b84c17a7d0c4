"""What the tests of the package share: the built programs, the tiny checkpoints, small suites."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "client" / "python" / "src"
ARCH = ROOT / "tests" / "data" / "arch"
LLAMA = ARCH / "llama"  # 3 layers, hidden 64, vocabulary 320, bf16
VOCAB, HIDDEN = 320, 64
BIN = Path(os.environ.get("ASSAY_BIN_DIR", ROOT / "build" / "release" / "bin"))

# The tests run against the installed package where there is one (tests/python.sh), else against the sources.
try:
    import assay  # noqa: F401
except ImportError:
    sys.path.insert(0, str(SOURCE))


def need_programs() -> None:
    """Skips a test where the programs are not built."""
    if not (BIN / "assay").exists():
        raise unittest.SkipTest(f"{BIN}/assay is not built (deploy/build.sh, or set ASSAY_BIN_DIR)")


def run_assay(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BIN / "assay"), *map(str, arguments)], capture_output=True, text=True)


def make_suite(out: Path, *, contexts: int = 8, length: int = 20, vocab: int = VOCAB, seed: int = 1) -> Path:
    subprocess.run(
        [sys.executable, str(ROOT / "tests" / "e2e" / "make_suite.py"), "--out", str(out), "--vocab", str(vocab)]
        + ["--hidden", str(HIDDEN), "--contexts", str(contexts), "--length", str(length), "--seed", str(seed)],
        check=True,
    )
    return out


class WithFolder(unittest.TestCase):
    """A test with a folder of its own and a small suite in it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="assay-py-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.suite = make_suite(self.folder / "suite")
