"""The transformers recipe with a real (tiny) model, against the native engine. Opt-in: ASSAY_TORCH_PYTHON names a Python
with torch and transformers, which the tests' own environment does not have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from fixtures import LLAMA, SOURCE, WithFolder, need_programs, run_assay

import assay
from assay.errors import AssayError
from assay.recipes.transformers import find_final_norm

TORCH_PYTHON = os.environ.get("ASSAY_TORCH_PYTHON", "")

# Measured over 504 positions: float32 2.1e-9 nats mean and 5.6e-7 at most (bf16 rounding ties of the stored states);
# bfloat16 1.6e-4 mean. A wrong norm, position or dtype is far beyond.
FLOAT32_MEAN, FLOAT32_MAX = 5e-8, 1e-5
BFLOAT16_MEAN = (1e-5, 1e-3)


@unittest.skipUnless(TORCH_PYTHON, "ASSAY_TORCH_PYTHON names no Python with torch and transformers")
class RecipeTest(WithFolder):
    def recipe(self, *more: object, model: Path = LLAMA, out: str = "hf") -> subprocess.CompletedProcess[str]:
        command = [TORCH_PYTHON, "-m", "assay.recipes.transformers", "--model", model, "--suite", self.suite]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HF_HUB_OFFLINE": "1"}
        command += ["--out", self.folder / out, "--threads", "1", *more]
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)

    def divergence(self, *more: object) -> Any:
        need_programs()
        done = self.recipe(*more)
        self.assertEqual(done.returncode, 0, done.stderr)
        native = self.folder / "native"
        done = run_assay("capture", "--model", LLAMA, "--suite", self.suite, "--out", native, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run_assay(
            *("replay", "--reference", native, "--candidate", f"hf={self.folder / 'hf'}", "--head", LLAMA),
            *("--suite", self.suite, "--out", self.folder / "out", "--quiet"),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return assay.load(self.folder / "out")["hf"]

    def test_float32_agrees_with_the_native_engine(self) -> None:
        candidate = self.divergence()
        values = candidate["kl_ref_cand"]
        self.assertLess(float(values.mean()), FLOAT32_MEAN)
        self.assertLess(float(values.max()), FLOAT32_MAX)
        engine = candidate.report["candidate"]["capture"]["engine"]
        self.assertEqual((engine["engine"], engine["compute_dtype"]), ("transformers", "float32"))
        self.assertEqual(engine["hidden_rounding"], "bf16-rne")

    def test_bfloat16_shows_what_it_costs(self) -> None:
        mean = float(np.mean(self.divergence("--dtype", "bfloat16", "--store", "keep")["kl_ref_cand"]))
        self.assertGreater(mean, BFLOAT16_MEAN[0])
        self.assertLess(mean, BFLOAT16_MEAN[1])

    def test_the_same_command_continues(self) -> None:
        self.assertEqual(self.recipe().returncode, 0)
        content = json.loads((self.folder / "hf" / "capture-manifest.json").read_bytes())["captures"]
        manifest = self.folder / "hf" / "capture-manifest.json"
        document = json.loads(manifest.read_bytes())
        document |= {"complete": False, "captures": document["captures"][:5], "contexts": 5}
        manifest.write_text(json.dumps(document))
        done = self.recipe()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("5 contexts kept, 3 to do", done.stderr)
        self.assertEqual(json.loads(manifest.read_bytes())["captures"], content)

    def test_a_checkpoint_with_a_hole_is_refused(self) -> None:
        model = Path(shutil.copytree(LLAMA, self.folder / "model"))
        data = (model / "model.safetensors").read_bytes()
        (model / "model.safetensors").write_bytes(data.replace(b"model.layers.1.mlp.up_proj.weight", b"model.layers.9.mlp.up_proj.weight"))
        done = self.recipe(model=model)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("[WEIGHTS_MISSING]", done.stderr)
        self.assertIn("layers.1.mlp.up_proj", done.stderr)

    def test_a_model_that_changes_the_states_before_its_head_is_refused(self) -> None:
        program = (
            "import sys, torch, transformers\n"
            "from assay.recipes.transformers import FinalNorm, load_model\n"
            "from pathlib import Path\n"
            "model = load_model(Path(sys.argv[1]), 'float32', 'eager', 'cpu')\n"
            "norm = FinalNorm(model)\n"
            "norm.check((1, 2, 3))\n"
            "model.lm_head.register_forward_pre_hook(lambda m, i: (i[0] * 0.5,))\n"
            "norm.check((1, 2, 3))\n"
        )
        done = subprocess.run(
            [TORCH_PYTHON, "-c", program, str(LLAMA)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}
        )
        self.assertIn("[CUT_MISMATCH]", done.stderr)
        self.assertEqual(done.stderr.count("CUT_MISMATCH"), 1)


class FindNormTest(unittest.TestCase):
    def model(self, *names: str) -> Any:
        class Fake:
            def named_modules(self) -> list[tuple[str, str]]:
                return [("", "self"), *((name, f"module {name}") for name in names)]

        return Fake()

    def test_the_final_norm_is_found_by_name(self) -> None:
        for names, expected in (
            (("model.layers.0.norm", "model.norm", "lm_head"), "model.norm"),
            (("model.visual.norm", "model.language_model.norm"), "model.language_model.norm"),
            (("transformer.h.0.ln_1", "transformer.ln_f"), "transformer.ln_f"),
        ):
            self.assertEqual(find_final_norm(self.model(*names))[0], expected)

    def test_a_choice_that_is_not_clear_is_refused(self) -> None:
        with self.assertRaises(AssayError) as caught:
            find_final_norm(self.model("encoder.norm", "decoder.norm"))
        self.assertEqual(caught.exception.reason, "FINAL_NORM_UNKNOWN")
        self.assertIn("decoder.norm", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
