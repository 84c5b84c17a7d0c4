"""The final norm of a Hugging Face checkpoint, applied to states that were taken before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._files import read_json, sha256_bytes
from .._hidden import Floats, map_tensor, read_header, widen
from .._manifest import model_shards
from ..errors import AssayError

PLAIN = frozenset("llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe phi3 deepseek_v3".split())
"""Model types whose final norm is RMSNorm times its weight."""
PLUS_ONE = frozenset("qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text gemma gemma2 gemma3 gemma3_text".split())
"""Model types whose final norm multiplies by one plus the stored weight."""

FINAL_NORM = re.compile(r"^((.*\.)?(language_model\.)?model\.|(.*\.)?language_model\.)?norm\.weight$")


@dataclass(frozen=True)
class FinalNorm:
    """y = x / sqrt(mean(x^2) + eps) * weight, in float64 and rounded once to float32."""

    weight: npt.NDArray[np.float64]
    """What is multiplied with: one plus the stored weight where the family does so."""
    eps: float
    tensor: str
    weight_sha256: str
    plus_one: bool
    layers: int
    """num_hidden_layers: the layer id that vLLM gives to the states before the final norm."""

    def apply(self, states: Floats) -> Floats:
        if states.shape[-1] != self.weight.shape[0]:
            raise AssayError(
                "SHAPE_MISMATCH",
                f"the states have {states.shape[-1]} columns, the final norm {self.weight.shape[0]}: it is of another model",
            )
        wide = states.astype(np.float64)
        scale = 1.0 / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + self.eps)
        normed: Floats = (wide * scale * self.weight).astype(np.float32)
        return normed

    def describe(self) -> dict[str, Any]:
        return {
            "arithmetic": "float64, rounded once to float32",
            "tensor": self.tensor,
            "weight_sha256": self.weight_sha256,
            "eps": self.eps,
            "one_plus_weight": self.plus_one,
        }


def load_final_norm(folder: str | Path) -> FinalNorm:
    """Reads the final norm of a Hugging Face folder. MODEL_UNRECOGNISED, TENSOR_MISSING and FINAL_NORM_UNKNOWN (a family
    whose norm is not known to be RMSNorm) name what was looked for."""
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise AssayError("MODEL_UNRECOGNISED", f"{path}: no Hugging Face folder (config.json and safetensors); give one")
    config = read_json(path / "config.json", "model")
    text = config.get("text_config", config)
    kind = str(text.get("model_type", config.get("model_type")))
    if kind not in PLAIN | PLUS_ONE:
        raise AssayError(
            "FINAL_NORM_UNKNOWN",
            f"{path / 'config.json'}: it is not known how the final norm of model_type {kind!r} works (known: "
            f"{', '.join(sorted(PLAIN | PLUS_ONE))}); apply the model's own norm and write with assay.CaptureWriter",
        )
    tensor, values, digest = _find_weight(path)
    return FinalNorm(
        weight=values.astype(np.float64) + (1.0 if kind in PLUS_ONE else 0.0),
        eps=float(text["rms_norm_eps"]),
        tensor=tensor,
        weight_sha256=digest,
        plus_one=kind in PLUS_ONE,
        layers=int(text["num_hidden_layers"]),
    )


def _find_weight(folder: Path) -> tuple[str, Floats, str]:
    found = [(name, shard) for shard in model_shards(folder) for name in read_header(shard) if FINAL_NORM.search(name)]
    if len(found) != 1:
        names = ", ".join(name for name, _ in found) or "no tensor"
        raise AssayError("TENSOR_MISSING", f"{folder}: {names} instead of one final norm such as model.norm.weight")
    name, shard = found[0]
    slot = read_header(shard)[name]
    raw = map_tensor(shard, slot)
    values = widen(raw) if slot.dtype == "BF16" else raw.astype(np.float32)
    return name, values, sha256_bytes(raw.tobytes())
