"""CaptureWriter: what it stores, what it refuses, how it goes on; and that the programs take what it writes."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from fixtures import HIDDEN, LLAMA, ROOT, WithFolder, need_programs, run_assay

import assay
from assay.suites import load_suite

LENGTH = 20


def states(context: int, rows: int = LENGTH, width: int = HIDDEN) -> np.ndarray[Any, Any]:
    return np.random.default_rng(context).standard_normal((rows, width)).astype(np.float32)


def bf16_by_division(value: float) -> int:
    """Nearest bfloat16 of a float32, ties to even, found by comparing distances: independent of the product's bit trick."""
    low = struct.unpack("<I", struct.pack("<f", value))[0] >> 16

    def real(bits: int) -> float:
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])

    down, up = abs(value - real(low)), abs(real(low + 1) - value)
    return low if down < up or (down == up and low % 2 == 0) else low + 1


class WriterTest(WithFolder):
    def writer(self, out: str = "capture", **options: Any) -> assay.CaptureWriter:
        named: dict[str, Any] = {"cut": "after_final_norm", "model": "tiny", "engine": "test", **options}
        return assay.CaptureWriter(self.folder / out, self.suite, **named)

    def refused(self, reason: str, *texts: str) -> Any:
        return _Refused(self, reason, texts)

    def fill(self, writer: assay.CaptureWriter) -> str:
        for context in writer.missing():
            writer.add(context.index, states(context.index))
        return writer.close()

    def manifest(self, out: str = "capture") -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.folder / out / "capture-manifest.json").read_bytes())
        return value

    def test_stored_bytes_are_the_published_form(self) -> None:
        self.fill(self.writer())
        data = (self.folder / "capture" / "hidden_0003.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        self.assertEqual(length % 8, 0)
        header = json.loads(data[8 : 8 + length])
        size = (LENGTH - 1) * HIDDEN * 4
        entry = {"dtype": "F32", "shape": [LENGTH - 1, HIDDEN], "data_offsets": [0, size]}
        self.assertEqual(header, {"hidden_states": entry})
        self.assertEqual(data[8 + length :], states(3)[:-1].tobytes())

    def test_rounding_to_bf16_is_to_nearest_even_and_recorded(self) -> None:
        values = states(0)
        ties = [1.0 + 2**-8, 1.0 + 3 * 2**-8, -1.0 - 2**-8, 2**-133 + 2**-134, 3.0e38, 1.0 + 2**-8 + 2**-20]
        values[0, : len(ties)] = ties
        writer = self.writer(dtype="bf16")
        writer.add(0, values)
        self.assertEqual(writer.rounded, 1)
        writer.suspend()
        data = (self.folder / "capture" / "hidden_0000.safetensors").read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        stored = np.frombuffer(data[begin:], "<u2")
        expected = [bf16_by_division(float(v)) for v in values[:-1].ravel()]
        self.assertEqual(stored.tolist(), expected)
        self.assertEqual(self.manifest()["engine_identity"]["kernels"]["hidden_rounding"], "bf16-rne")

    def test_a_value_that_rounds_to_infinity_is_refused(self) -> None:
        values = states(0)
        values[4, 7] = np.finfo(np.float32).max
        with self.refused("NON_FINITE_HIDDEN", "context 0, position 4, column 7"):
            self.writer(dtype="bf16").add(0, values)

    def test_float16_is_widened_exactly(self) -> None:
        half = states(0).astype(np.float16)
        writer = self.writer()
        writer.add(0, half[:-1])
        writer.suspend()
        data = (self.folder / "capture" / "hidden_0000.safetensors").read_bytes()
        self.assertTrue(data.endswith(half[:-1].astype("<f4").tobytes()))

    def test_refusals_name_context_and_position(self) -> None:
        writer = self.writer()
        bad = states(2)
        bad[11, 3] = np.nan
        for states_, reason, text in (
            (bad, "NON_FINITE_HIDDEN", "context 2, position 11, column 3"),
            (states(2)[:-2], "SHAPE_MISMATCH", "[18, 64]"),
            (states(2).T, "SHAPE_MISMATCH", "[64, 20]"),
            (states(2)[None], "SHAPE_MISMATCH", "drop the batch axis"),
            (states(2).astype(np.float64), "DTYPE_UNSUPPORTED", "float64"),
        ):
            with self.subTest(reason=reason, text=text), self.refused(reason, "context 2", text):
                writer.add(2, states_)
        with self.refused("CONTEXT_UNKNOWN", "context 99"):
            writer.add(99, states(1))
        writer.add(0, states(0))
        with self.refused("SHAPE_MISMATCH", "hidden size 32"):
            writer.add(1, states(1, width=32))
        with self.refused("DTYPE_UNSUPPORTED", "one capture has one of each"):
            writer.add(1, _as_bfloat16(states(1)))
        self.assertEqual(sorted(p.name for p in (self.folder / "capture").iterdir())[1:], ["hidden_0000.safetensors"])

    def test_the_cut_is_never_guessed(self) -> None:
        with self.assertRaises(TypeError):
            assay.CaptureWriter(self.folder / "x", self.suite, model="m", engine="e")
        with self.refused("CUT_UNKNOWN", "before_final_norm"):
            self.writer(cut="before_final_norm")

    def test_close_refuses_until_all_contexts_are_there(self) -> None:
        writer = self.writer()
        writer.add(0, states(0))
        with self.refused("CAPTURE_INCOMPLETE", "7 of 8", "1, 2, 3"):
            writer.close()
        self.assertFalse(self.manifest()["complete"])

    def test_a_capture_goes_on_and_keeps_what_is_whole(self) -> None:
        whole = self.fill(self.writer("whole"))
        with self.assertRaises(RuntimeError), self.writer() as writer:
            for context in writer.missing()[:4]:
                writer.add(context.index, states(context.index))
            raise RuntimeError("the engine fell over")
        damaged = self.folder / "capture" / "hidden_0002.safetensors"
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x55")
        writer = self.writer()
        self.assertEqual(writer.kept, 3)
        self.assertEqual([c.index for c in writer.missing()], [2, 4, 5, 6, 7])
        self.assertEqual(self.fill(writer), whole)

    def test_a_killed_process_leaves_a_capture_that_goes_on(self) -> None:
        program = (
            f"import os, sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
            "import assay, numpy as np, assay.capture\n"
            "assay.capture.CHECKPOINT_SECONDS = 0\n"
            f"w = assay.CaptureWriter({str(self.folder / 'capture')!r}, {str(self.suite)!r}, cut='after_final_norm', "
            "model='tiny', engine='test')\n"
            "from test_capture import states\n"
            "for c in w.missing()[:5]: w.add(c.index, states(c.index))\n"
            "os.kill(os.getpid(), 9)\n"
        )
        self.assertEqual(subprocess.run([sys.executable, "-c", program]).returncode, -9)
        writer = self.writer()
        self.assertEqual(writer.kept, 5)
        self.assertEqual(self.fill(writer), self.fill(self.writer("whole")))

    def test_another_capture_in_the_folder_is_refused(self) -> None:
        self.fill(self.writer())
        for options in ({"engine": "other"}, {"dtype": "bf16"}, {"filter": "sentinel"}, {"kernels": {"attention": "x"}}):
            with self.subTest(options=options), self.refused("CAPTURE_OUT_OCCUPIED", "another capture"):
                self.writer(**options)
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "notes.txt").write_text("mine")
        with self.refused("CAPTURE_OUT_OCCUPIED", "notes.txt"):
            self.writer("mine")

    def test_two_writers_do_not_share_a_folder(self) -> None:
        first = self.writer()
        with self.refused("OUT_BUSY"):
            self.writer()
        first.suspend()
        self.writer().suspend()

    def test_an_engine_that_does_not_repeat_itself_is_noticed(self) -> None:
        writer = self.writer()
        writer.add(0, states(0))
        writer.add(0, states(0))
        with self.refused("CONTEXT_DIFFERS", "context 0"):
            writer.add(0, states(1))

    def test_no_local_path_is_kept(self) -> None:
        self.fill(self.writer(model=str(LLAMA), model_files=LLAMA))
        manifest = self.manifest()
        self.assertEqual(manifest["model"], "llama")
        self.assertNotIn(str(ROOT), json.dumps(manifest))
        self.assertEqual(set(manifest["candidate_identity"]["shard_sha256"]), {"model.safetensors"})

    def test_the_programs_take_it_and_find_no_difference_where_there_is_none(self) -> None:
        need_programs()
        native, head = self.folder / "native", LLAMA
        done = run_assay("capture", "--model", LLAMA, "--suite", self.suite, "--out", native, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        writer = self.writer()
        for context in writer.missing():
            file = (native / f"hidden_{context.index:04d}.safetensors").read_bytes()
            begin = 8 + struct.unpack("<Q", file[:8])[0]
            writer.add(context.index, _from_bits(np.frombuffer(file[begin:], "<u2").reshape(LENGTH - 1, HIDDEN)))
        content = writer.close()
        stated = json.loads((native / "capture-manifest.json").read_bytes())
        self.assertEqual(self.manifest()["captures"], stated["captures"])
        options = ["--reference", native, "--candidate", f"c={self.folder / 'capture'}", "--head", head]
        done = run_assay("replay", *options, "--suite", self.suite, "--out", self.folder / "out", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        candidate = assay.load(self.folder / "out")["c"]
        self.assertEqual(float(np.abs(candidate["kl_ref_cand"]).max()), 0.0)
        self.assertEqual(candidate.report["candidate"]["capture"]["content_sha256"], content)
        self.assertEqual(candidate.report["candidate"]["capture"]["engine"]["engine"], "test")


class SuiteTest(WithFolder):
    def test_contexts_are_those_of_the_files(self) -> None:
        suite = load_suite(self.suite)
        self.assertEqual(len(suite), 8)
        stated = json.loads((self.suite / "tokens" / "context-0005.json").read_bytes())
        self.assertEqual(list(suite.contexts[5].tokens), stated)
        self.assertEqual([c.index for c in suite.select("sentinel")], [1, 3])
        self.assertEqual([c.index for c in suite.select("qualification")], [4])
        with self.assertRaises(assay.AssayError) as caught:
            suite.select("nothing")
        self.assertEqual(caught.exception.reason, "FILTER_EMPTY")

    def test_damage_is_refused_by_name(self) -> None:
        path = self.suite / "tokens" / "context-0002.json"
        good = path.read_bytes()
        for data, reason in ((good.replace(b"[", b"[1, ", 1), "DIGEST_MISMATCH"), (b"[1,", "JSON_INVALID")):
            path.write_bytes(data)
            with self.assertRaises(assay.AssayError) as caught:
                load_suite(self.suite)
            self.assertEqual(caught.exception.reason, reason)
            self.assertIn("context-0002.json", str(caught.exception))


class _Refused:
    def __init__(self, test: unittest.TestCase, reason: str, texts: tuple[str, ...]) -> None:
        self.test, self.reason, self.texts = test, reason, texts

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if error is None:
            self.test.fail(f"nothing was refused, {self.reason} was expected")
        if not isinstance(error, assay.AssayError):
            return False
        self.test.assertEqual(error.reason, self.reason, str(error))
        for text in self.texts:
            self.test.assertIn(text, str(error))
        return True



def _as_bfloat16(values: Any) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise unittest.SkipTest("ml_dtypes is not installed") from None
    return values.astype(ml_dtypes.bfloat16)


def _from_bits(bits: Any) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise unittest.SkipTest("ml_dtypes is not installed") from None
    return bits.view(ml_dtypes.bfloat16)


if __name__ == "__main__":
    unittest.main()
