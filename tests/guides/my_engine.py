"""An inference engine for the guides' tests: a Llama forward pass in numpy, float64, straight from the formulas. It shares
nothing with Assay's native engine. `run(tokens)` gives what lm_head takes, `before_final_norm(tokens)` what the norm takes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

Array = Any


class Model:
    def __init__(self, folder: str) -> None:
        self.config = json.loads((Path(folder) / "config.json").read_text())
        data = (Path(folder) / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        self.weights: dict[str, Array] = {}
        for name, entry in json.loads(data[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            assert entry["dtype"] == "BF16", name
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            bits = np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16
            self.weights[name] = bits.view(np.float32).astype(np.float64).reshape(entry["shape"])

    def linear(self, x: Array, name: str) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def norm(self, x: Array, name: str) -> Array:
        eps = self.config["rms_norm_eps"]
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * self.weights[f"{name}.weight"]

    def rotate(self, x: Array) -> Array:
        """Rotary positions on [T, heads, d]: halves, not pairs."""
        half = x.shape[-1] // 2
        parameters = self.config.get("rope_parameters") or self.config
        frequency = (1.0 / parameters["rope_theta"] ** (np.arange(half) * 2.0 / x.shape[-1])).astype(np.float32)
        angle = np.arange(x.shape[0])[:, None, None] * frequency.astype(np.float64)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)

    def attention(self, x: Array, name: str) -> Array:
        heads, groups = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        count = x.shape[0]
        q = self.rotate(self.linear(x, f"{name}.q_proj").reshape(count, heads, -1))
        k = self.rotate(self.linear(x, f"{name}.k_proj").reshape(count, groups, -1)).repeat(heads // groups, axis=1)
        v = self.linear(x, f"{name}.v_proj").reshape(count, groups, -1).repeat(heads // groups, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
        scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = np.einsum("hij,jhd->ihd", p / p.sum(axis=-1, keepdims=True), v)
        return self.linear(mixed.reshape(count, -1), f"{name}.o_proj")

    def before_final_norm(self, tokens: Array) -> Array:
        x = self.weights["model.embed_tokens.weight"][np.asarray(tokens)]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            x = x + self.attention(self.norm(x, f"{name}.input_layernorm"), f"{name}.self_attn")
            y = self.norm(x, f"{name}.post_attention_layernorm")
            gate = self.linear(y, f"{name}.mlp.gate_proj")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * self.linear(y, f"{name}.mlp.up_proj"), f"{name}.mlp.down_proj")
        return x

    def run(self, tokens: Array) -> Array:
        return self.norm(self.before_final_norm(tokens), "model.norm").astype(np.float32)


_model: Model | None = None


def load(folder: str) -> None:
    global _model
    _model = Model(folder)


def run(tokens: Array) -> Array:
    assert _model is not None, "load a model first"
    return _model.run(tokens)
