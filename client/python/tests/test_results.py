"""assay.load: what it gives is what the files hold, and damage is refused."""

from __future__ import annotations

import json
import shutil
import tempfile
import unittest
from pathlib import Path

import numpy as np
from fixtures import LLAMA, make_suite, need_programs, run_assay

import assay

SCORE_FROM = 3


class LoadTest(unittest.TestCase):
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        need_programs()
        made = tempfile.TemporaryDirectory(prefix="assay-py-")
        cls.addClassCleanup(made.cleanup)
        cls.folder = Path(made.name)
        suite = make_suite(cls.folder / "suite")
        for name, model in (("ref", f"{LLAMA}"), ("int4", f"{LLAMA}@rtn:bits=4,group=32")):
            done = run_assay("capture", "--model", model, "--suite", suite, "--out", cls.folder / name, "--quiet")
            assert done.returncode == 0, done.stderr
        for out, more in (("out", []), ("window", ["--score-from", SCORE_FROM])):
            done = run_assay(
                *("replay", "--reference", cls.folder / "ref", "--candidate", f"int4={cls.folder / 'int4'}"),
                *("--head", LLAMA, "--suite", suite, "--out", cls.folder / out, "--quiet", *more),
            )
            assert done.returncode == 0, done.stderr

    def copy(self) -> Path:
        made = tempfile.TemporaryDirectory(prefix="assay-py-")
        self.addCleanup(made.cleanup)
        return Path(shutil.copytree(self.folder / "out", Path(made.name) / "out"))

    def test_every_output_is_the_file(self) -> None:
        candidate = assay.load(self.folder / "out")["int4"]
        files = sorted((self.folder / "out" / "int4" / "positions" / "shared").iterdir())
        self.assertEqual(sorted(candidate.head), sorted(f.stem for f in files))
        for file in files:
            array = candidate[file.stem]
            self.assertIsInstance(array, np.memmap)
            self.assertFalse(array.flags.writeable)
            self.assertEqual(array.tobytes(), file.read_bytes())

    def test_each_position_is_named(self) -> None:
        candidate = assay.load(self.folder / "window", self.folder / "suite")["int4"]
        rows = json.loads((self.folder / "suite" / "suite-manifest.json").read_bytes())["context_index"]
        at = 0
        for row in rows:
            tokens = json.loads((self.folder / "suite" / row["file"]).read_bytes())
            for position in range(SCORE_FROM, len(tokens) - 1):
                self.assertEqual(candidate.context[at], row["index"])
                self.assertEqual(candidate.position[at], position)
                self.assertEqual(candidate.token[at], tokens[position])
                self.assertEqual(candidate.next_token[at], tokens[position + 1])
                self.assertEqual(candidate.stratum[at], row["stratum"])
                at += 1
        self.assertEqual(at, len(candidate))

    def test_means_agree_with_the_report(self) -> None:
        candidate = assay.load(self.folder / "out")["int4"]
        stated = candidate.head.statistics["kl_ref_cand"]["mean"]["value"]
        self.assertGreater(stated, 0.0)
        self.assertAlmostEqual(float(candidate["kl_ref_cand"].mean()), stated, delta=1e-12)
        rows = [row["mean_kl_ref_cand"]["value"] for row in candidate.contexts]
        np.testing.assert_allclose(candidate.per_context("kl_ref_cand"), rows, rtol=1e-12)

    def test_damage_is_refused_when_the_array_is_asked_for(self) -> None:
        out = self.copy()
        path = out / "int4" / "positions" / "shared" / "jsd_bits.f64"
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        candidate = assay.load(out)["int4"]
        candidate["kl_ref_cand"]
        for change, reason in (
            (lambda: None, "DIGEST_MISMATCH"),
            (lambda: path.write_bytes(bytes(data)[:-8]), "SIZE_MISMATCH"),
            (path.unlink, "FILE_MISSING"),
        ):
            change()
            with self.subTest(reason=reason), self.assertRaises(assay.AssayError) as caught:
                candidate["jsd_bits"]
            self.assertEqual(caught.exception.reason, reason)
            self.assertIn("jsd_bits.f64", str(caught.exception))

    def test_a_changed_report_is_refused(self) -> None:
        out = self.copy()
        path = out / "int4" / "report.json"
        path.write_bytes(path.read_bytes().replace(b'"complete":true', b'"complete":null'))
        with self.assertRaises(assay.AssayError) as caught:
            assay.load(out)
        self.assertEqual(caught.exception.reason, "DIGEST_MISMATCH")

    def test_an_unknown_label_or_output_names_those_there_are(self) -> None:
        result = assay.load(self.folder / "out")
        with self.assertRaisesRegex(KeyError, "'int8'; there are int4"):
            result["int8"]
        self.assertNotIn("int8", result)
        with self.assertRaisesRegex(KeyError, "'kld'; there are kl_ref_cand, "):
            result["int4"]["kld"]
        self.assertRegex(repr(result["int4"].head), "<Head shared: kl_ref_cand, ")

    def test_tokens_need_the_suite_that_was_scored(self) -> None:
        with self.assertRaises(assay.AssayError) as caught:
            assay.load(self.folder / "out")["int4"].token
        self.assertEqual(caught.exception.reason, "SUITE_NEEDED")
        other = make_suite(self.copy().parent / "other", seed=2)
        with self.assertRaises(assay.AssayError) as caught:
            assay.load(self.folder / "out", other)
        self.assertEqual(caught.exception.reason, "SUITE_MISMATCH")

    def test_other_folders_are_named(self) -> None:
        for folder in (self.folder, self.folder / "out" / "int4"):
            with self.subTest(folder=folder), self.assertRaises(assay.AssayError) as caught:
                assay.load(folder)
            self.assertEqual(caught.exception.reason, "FILE_MISSING")


if __name__ == "__main__":
    unittest.main()
