"""tools/verify_receipt.py against results that the programs sealed: two implementations from one description."""
from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "client/python/tools/verify_receipt.py"
TINY = ROOT / "tests/data/arch/llama"
BIN = Path(os.environ.get("ASSAY_BIN_DIR", ROOT / "build/release/bin"))


def load_tool():
    spec = importlib.util.spec_from_file_location("verify_receipt", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tree(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 2.1."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + tree(leaves[:split]) + tree(leaves[split:])).digest()


def subproof(size: int, leaves: list[bytes], whole: bool) -> list[bytes]:
    """SUBPROOF of RFC 6962 2.1.2."""
    if size == len(leaves):
        return [] if whole else [tree(leaves)]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    if size <= split:
        return [*subproof(size, leaves[:split], whole), tree(leaves[split:])]
    return [*subproof(size - split, leaves[split:], False), tree(leaves[:split])]


@unittest.skipUnless(importlib.util.find_spec("cryptography"), "the package cryptography is not installed")
class Consistency(unittest.TestCase):
    def test_every_pair_of_sizes_and_every_flip(self) -> None:
        holds = load_tool().consistency_holds
        leaves = [bytes([i]) for i in range(20)]
        other = [b"x", *leaves[1:]]
        for new in range(1, 20):
            for old in range(1, new + 1):
                path = subproof(old, leaves[:new], True)
                roots = tree(leaves[:old]), tree(leaves[:new])
                self.assertTrue(holds(old, new, path, *roots), (old, new))
                self.assertFalse(holds(old, new, path, tree(other[:old]), roots[1]), (old, new))
                self.assertFalse(holds(old, new, path, roots[0], tree(other[:new])), (old, new))
                for at in range(len(path)):
                    flipped = [*path[:at], bytes([path[at][0] ^ 1]) + path[at][1:], *path[at + 1 :]]
                    self.assertFalse(holds(old, new, flipped, *roots), (old, new, at))
                    self.assertFalse(holds(old, new, path[:at], *roots), (old, new, at))
                self.assertFalse(holds(old, new, [*path, roots[0]], *roots), (old, new))
        self.assertTrue(holds(0, 5, [], tree([]), tree(leaves[:5])))
        self.assertFalse(holds(5, 4, [], tree(leaves[:5]), tree(leaves[:4])))


@unittest.skipUnless(importlib.util.find_spec("cryptography"), "the package cryptography is not installed")
@unittest.skipUnless((BIN / "assay").exists(), "the programs are not built")
class VerifyReceipt(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="assay-verify.")
        cls.work = Path(cls.folder.name)
        make = ROOT / "tests/e2e/make_suite.py"
        subprocess.run([sys.executable, make, "--out", cls.work / "suite", "--vocab", "320", "--hidden", "64"], check=True)
        command = [BIN / "assay", "score", "--reference", TINY, "--candidate", f"a={TINY}@rtn:bits=8,group=32",
                   "--candidate", f"b={TINY}@rtn:bits=4,group=32", "--candidate", f"c={TINY}@rtn:bits=3,group=32",
                   "--suite", cls.work / "suite", "--out", cls.work / "out", "--threads", "1", "--data", cls.work / "data"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def check(self, folder: Path, *arguments: object) -> tuple[int, str]:
        done = subprocess.run([sys.executable, TOOL, folder, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_sealed_results_are_valid(self) -> None:
        key = self.work / "out/key.pub"
        sizes = set()
        for label in "abc":
            status, text = self.check(self.work / "out" / label, "--key", key)
            self.assertEqual(status, 0, text)
            self.assertEqual(self.check(self.work / "out" / label)[0], 6)
            sizes.add(json.loads((self.work / "out" / label / "receipt.json").read_text())["log"]["leaf_index"])
        self.assertEqual(sizes, {0, 1, 2})
        # The last receipt's log extends the first one's.
        last = max("abc", key=lambda x: json.loads((self.work / "out" / x / "receipt.json").read_text())["log"]["leaf_index"])
        for label in "abc":
            older = self.work / "out" / label / "receipt.json"
            status, text = self.check(self.work / "out" / last, "--key", key, "--older", older)
            self.assertEqual(status, 0, text)

    def test_every_flipped_byte_is_refused(self) -> None:
        tool = load_tool()
        key = self.work / "out/key.pub"
        folder = self.work / "out/b"
        for file in sorted(folder.rglob("*")):
            covered = file.suffix in (".json", ".f64", ".i32")
            if not file.is_file() or not covered:
                continue
            data = file.read_bytes()
            step = max(1, len(data) // (60 if file.name == "receipt.json" else 3))
            for at in range(0, len(data), step):
                file.write_bytes(data[:at] + bytes([data[at] ^ 2]) + data[at + 1:])
                with self.assertRaises(tool.Refused, msg=f"{file.name} at {at}"):
                    tool.verify(folder, key, None)
            file.write_bytes(data)
        self.assertEqual(self.check(folder, "--key", key)[0], 0)

    def test_another_key_and_missing_files(self) -> None:
        other = self.work / "other.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", other], check=True, stderr=subprocess.DEVNULL)
        public = self.work / "other.pub"
        subprocess.run(["openssl", "pkey", "-in", other, "-pubout", "-out", public], check=True)
        self.assertEqual(self.check(self.work / "out/a", "--key", public)[0], 5)
        self.assertEqual(self.check(self.work / "out/a", "--key", self.work / "none.pub")[0], 5)
        self.assertEqual(self.check(self.work / "nothing")[0], 5)


if __name__ == "__main__":
    unittest.main()
