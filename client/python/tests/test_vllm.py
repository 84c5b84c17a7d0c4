"""Import of vLLM's extracted hidden states. The files are written by the safetensors library in vLLM's layout; the states
are those of the golden forward passes of tests/data/arch/llama (residual stream and normed states, computed by another
program). vLLM itself is not run here."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from fixtures import ARCH, LLAMA

import assay
from assay.imports.cli import main
from assay.imports.final_norm import FINAL_NORM, load_final_norm

try:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError:
    raise unittest.SkipTest("the safetensors package is not installed") from None

LENGTH = 33
SEQUENCES = ("seq1", "seq2")  # of 33 and 96 tokens; their first 33 are two contexts
LAYERS = 3


def write_suite(folder: Path, contexts: list[list[int]]) -> Path:
    (folder / "tokens").mkdir(parents=True)
    rows = []
    for index, ids in enumerate(contexts):
        data = json.dumps(ids).encode()
        name = f"tokens/context-{index:04d}.json"
        (folder / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        row = {"index": index, "stratum": "code", "source_cluster": f"d{index}", "file": name}
        rows.append({**row, "tokens": LENGTH, "token_sha256": digest, "partition": "analysis", "sentinel": False})
    joined = hashlib.sha256("".join(str(r["token_sha256"]) for r in rows).encode()).hexdigest()
    manifest = {"schema": "qwen38-distribution-fidelity/3", "context_length": LENGTH, "context_index": rows}
    (folder / "suite-manifest.json").write_text(json.dumps({**manifest, "suite_token_sha256": joined}))
    return folder


class VllmTest(unittest.TestCase):
    golden: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        with safe_open(LLAMA / "golden.safetensors", "np") as file:
            cls.golden = {
                f"{sequence}.{what}": file.get_tensor(f"{sequence}.{what}")
                for sequence in SEQUENCES
                for what in ("input_ids", "residual", "hidden")
            }

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="assay-py-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.files = self.folder / "extracted"
        self.files.mkdir()
        self.suite = write_suite(self.folder / "suite", [self.ids(s) for s in SEQUENCES])

    def ids(self, sequence: str, count: int = LENGTH) -> list[int]:
        return [int(t) for t in self.golden[f"{sequence}.input_ids"].ravel()[:count]]

    def residual(self, sequence: str, layers: list[int], count: int = LENGTH) -> Any:
        """[tokens, layers, hidden] as the extractor stacks them: layer id k is the stream after k layers."""
        return np.stack([self.golden[f"{sequence}.residual"][layer][:count] for layer in layers], axis=1)

    def write(self, name: str, states: Any, tokens: list[int]) -> Path:
        path = self.files / f"{name}.safetensors"
        save_file({"hidden_states": np.ascontiguousarray(states), "token_ids": np.array(tokens, dtype=np.int64)}, path)
        return path

    def write_all(self, layers: list[int] | None = None) -> None:
        for sequence in SEQUENCES:
            self.write(f"cmpl-{sequence}", self.residual(sequence, layers or [LAYERS]), self.ids(sequence))

    def run_import(self, *more: object, cut: str = "before_final_norm", norm: bool = True) -> tuple[int, str]:
        command = ["import", "vllm-hidden-states", self.files, "--cut", cut, "--suite", self.suite]
        command += ["--out", self.folder / "capture", *(["--final-norm", LLAMA] if norm else []), *more]
        output = io.StringIO()
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            code = main([str(c) for c in command])
        return code, output.getvalue()

    def refused(self, reason: str, *texts: str, **options: Any) -> None:
        more = options.pop("more", ())
        code, output = self.run_import(*more, **options)
        self.assertEqual(code, 3, output)
        self.assertIn(f"[{reason}]", output)
        for text in texts:
            self.assertIn(text, output)

    def stored(self) -> list[Any]:
        return [load_file(self.folder / "capture" / f"hidden_{i:04d}.safetensors")["hidden_states"] for i in range(2)]

    def check_stored(self) -> None:
        for states, sequence in zip(self.stored(), SEQUENCES, strict=True):
            expected = self.golden[f"{sequence}.hidden"].reshape(-1, states.shape[1])[: LENGTH - 1]
            self.assertEqual(states.shape, (LENGTH - 1, 64))
            self.assertLess(float(np.abs(states - expected).max()), 1e-5)

    def test_the_last_layer_through_the_final_norm_is_what_the_model_gives(self) -> None:
        self.write_all()
        code, output = self.run_import("--store", "keep", "--engine-version", "0.20.2", "--stack", "gpu=H200")
        self.assertEqual(code, 0, output)
        self.check_stored()
        manifest = json.loads((self.folder / "capture" / "capture-manifest.json").read_bytes())
        self.assertTrue(manifest["complete"])
        engine = manifest["engine_identity"]
        self.assertEqual((engine["engine"], engine["engine_version"], engine["gpu"]), ("vllm", "0.20.2", "H200"))
        self.assertEqual(engine["kernels"]["final_norm"]["tensor"], "model.norm.weight")
        self.assertEqual(engine["kernels"]["final_norm"]["eps"], 1e-3)

    def test_the_right_layer_of_several_is_taken(self) -> None:
        self.write_all(layers=[1, 2, 3])
        self.refused("LAYER_NEEDED", "3 layers", "--layer-ids")
        self.refused("SHAPE_MISMATCH", "--layer-ids has 2", more=["--layer-ids", "1,3"])
        self.refused("LAYER_NEEDED", "after layer 3", more=["--layer-ids", "0,1,2"])
        code, output = self.run_import("--store", "keep", "--layer-ids", "3,1,2")
        self.assertEqual(code, 0, output)
        self.check_stored()

    def test_the_older_axis_order_is_recognised_by_the_tokens(self) -> None:
        for sequence in SEQUENCES:
            self.write(sequence, self.residual(sequence, [2, LAYERS]).transpose(1, 0, 2), self.ids(sequence))
        code, output = self.run_import("--store", "keep", "--layer-ids", "2,3")
        self.assertEqual(code, 0, output)
        self.check_stored()

    def test_a_shape_that_could_be_either_order_is_asked_about(self) -> None:
        square = self.residual("seq1", [LAYERS] * LENGTH)
        self.write("a", square, self.ids("seq1"))
        self.refused("AXES_AMBIGUOUS", "33 tokens and 33 layers", "--axes", more=["--layer-ids", "3"])

    def test_the_cut_decides_and_is_never_guessed(self) -> None:
        self.write_all()
        self.refused("FINAL_NORM_NEEDED", "--final-norm MODEL", norm=False)
        self.refused("FINAL_NORM_NEEDED", "norm the states twice", cut="after_final_norm")
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            main(["import", "vllm-hidden-states", str(self.files), "--suite", str(self.suite), "--out", "x"])

    def test_states_after_the_norm_are_stored_as_they_are(self) -> None:
        for sequence in SEQUENCES:
            hidden = self.golden[f"{sequence}.hidden"].reshape(-1, 64)[:LENGTH]
            self.write(sequence, hidden[:, None, :], self.ids(sequence))
        code, output = self.run_import("--store", "keep", cut="after_final_norm", norm=False)
        self.assertEqual(code, 0, output)
        for states, sequence in zip(self.stored(), SEQUENCES, strict=True):
            np.testing.assert_array_equal(states, self.golden[f"{sequence}.hidden"].reshape(-1, 64)[: LENGTH - 1])

    def test_generated_tokens_and_other_requests_are_left_out(self) -> None:
        self.write_all()
        long = self.ids("seq2", 60)
        (self.files / "cmpl-seq2.safetensors").unlink()
        self.write("long", self.residual("seq2", [LAYERS], 60), long)
        self.write("warm-up", self.residual("seq2", [LAYERS], 5), [1, 2, 3, 4, 5])
        code, output = self.run_import("--store", "keep")
        self.assertEqual(code, 0, output)
        self.assertIn("warm-up.safetensors belongs to no context", output)
        self.check_stored()

    def test_an_added_bos_is_named(self) -> None:
        states = self.residual("seq1", [LAYERS])
        self.write("a", np.concatenate([states[:1], states]), [0, *self.ids("seq1")])
        self.refused("TOKENS_SHIFTED", "beginning-of-sequence", "prompt_token_ids")

    def test_what_vllm_did_not_write_is_named(self) -> None:
        states = self.residual("seq1", [LAYERS]).copy()
        states[16:] = 0
        self.write("a", states, self.ids("seq1"))
        self.refused("HIDDEN_NOT_WRITTEN", "position 16 (16 in all)", "chunked prefill")
        self.write("a", states[:16], self.ids("seq1"))
        self.refused("SHAPE_MISMATCH", "chunked prefill")

    def test_missing_contexts_are_named_and_the_import_goes_on(self) -> None:
        self.write("a", self.residual("seq1", [LAYERS]), self.ids("seq1"))
        self.refused("CAPTURE_INCOMPLETE", "1 of 2", "(1)")
        self.write_all()
        code, output = self.run_import()
        self.assertEqual(code, 0, output)
        self.assertIn("context 1 of 1", output)

    def test_a_file_that_is_still_written_is_refused(self) -> None:
        self.write_all()
        lock = os.open(self.files / "cmpl-seq1.safetensors.lock", os.O_CREAT | os.O_WRONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.refused("FILE_BUSY", "cmpl-seq1.safetensors")

    def test_two_requests_that_differ_are_noticed(self) -> None:
        self.write_all()
        self.write("again", self.residual("seq1", [LAYERS]) * 1.01 + 0.01, self.ids("seq1"))
        self.refused("CONTEXT_DIFFERS", "context 0")

    def test_damage_is_refused(self) -> None:
        self.write_all()
        path = self.files / "cmpl-seq1.safetensors"
        path.write_bytes(path.read_bytes()[:-10])
        self.refused("SAFETENSORS_INVALID", "cmpl-seq1.safetensors")


class FinalNormTest(unittest.TestCase):
    def test_every_family_at_hand_gives_its_golden_states(self) -> None:
        seen = []
        for folder in sorted(ARCH.iterdir()):
            if not (folder / "golden.safetensors").exists():
                continue
            with safe_open(folder / "golden.safetensors", "np") as file:
                names = sorted(name for name in file.keys() if name.endswith(".residual"))
                if not names:
                    continue  # quantized folders hold the end of the forward pass only
                before = file.get_tensor(names[-1])[-1]
                kinds = [names[-1].replace("residual", kind) for kind in ("hidden", "hidden_f64")]
                after = file.get_tensor(next(name for name in kinds if name in file.keys()))
            width = before.shape[-1]
            given = load_final_norm(folder).apply(before.reshape(-1, width))
            self.assertLess(float(np.abs(given - after.reshape(-1, width)).max()), 2e-5, folder.name)
            seen.append(folder.name)
        self.assertIn("llama", seen)

    def test_families_that_store_the_weight_less_one(self) -> None:
        with tempfile.TemporaryDirectory(prefix="assay-py-") as made:
            folder = Path(made)
            weight = np.linspace(-0.5, 0.5, 64, dtype=np.float32)
            save_file({"model.language_model.norm.weight": weight}, folder / "model.safetensors")
            text = {"model_type": "qwen3_5_text", "rms_norm_eps": 1e-6, "num_hidden_layers": 4}
            (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_5", "text_config": text}))
            given = load_final_norm(folder).apply(np.full((1, 64), 3.0, dtype=np.float32))[0]
            np.testing.assert_allclose(given, 1.0 + weight, rtol=1e-6)
            (folder / "config.json").write_text(json.dumps({"model_type": "mamba", "rms_norm_eps": 1e-6}))
            with self.assertRaises(assay.AssayError) as caught:
                load_final_norm(folder)
            self.assertEqual(caught.exception.reason, "FINAL_NORM_UNKNOWN")
            self.assertIn("mamba", str(caught.exception))


class NormNameTest(unittest.TestCase):
    def test_only_the_final_norm_is_meant(self) -> None:
        yes = "norm.weight model.norm.weight model.language_model.norm.weight language_model.model.norm.weight"
        no = "model.layers.0.input_layernorm.weight model.layers.3.norm.weight visual.norm.weight model.visual.norm.weight"
        for name in yes.split():
            self.assertTrue(FINAL_NORM.search(name), name)
        for name in no.split():
            self.assertFalse(FINAL_NORM.search(name), name)


if __name__ == "__main__":
    unittest.main()
