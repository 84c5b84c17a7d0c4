"""Files in the layout of vLLM's hidden-state extractor, of the model in ./model over ./suite, from the numpy engine of the guides:
extracted/ for all contexts, extracted-again/ for the sentinels. States before the final norm, bfloat16, one layer."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import my_engine
import numpy as np
from safetensors.numpy import save_file

import assay


def write(folder: Path, name: str, tokens: tuple[int, ...], states: np.ndarray) -> None:
    folder.mkdir(exist_ok=True)
    bfloat16 = states[:, None, :].astype(np.float32).astype(ml_dtypes.bfloat16)
    save_file({"hidden_states": bfloat16, "token_ids": np.array(tokens, np.int64)}, folder / f"{name}.safetensors")


def main() -> None:
    model = my_engine.Model("model")
    for context in assay.load_suite("suite"):
        states = model.before_final_norm(context.tokens)
        write(Path("extracted"), f"{7919 * (context.index + 1) % 1000}-request", context.tokens, states)
        if context.sentinel:
            noise = np.random.default_rng(context.index).standard_normal(states.shape) * 1e-3
            write(Path("extracted-again"), f"again-{context.index}", context.tokens, states + noise)
    write(Path("extracted"), "warm-up", (1, 2, 3), model.before_final_norm((1, 2, 3)))


if __name__ == "__main__":
    main()
