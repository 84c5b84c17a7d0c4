"""A capture with Hugging Face transformers.

    python -m assay.recipes.transformers --model DIR --suite DIR --out DIR [--dtype float32|bfloat16|float16]

Takes the output of the model's final norm, one context at a time, without padding and without a cache. Before the first
context it checks that this is, bit for bit, what the model's lm_head is fed; a model that does something in between is
refused. Needs the extra: pip install './client/python[transformers]'.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from ..capture import CaptureWriter
from ..errors import AssayError
from ..suites import load_suite

NORM_NAMES = re.compile(r"(^|\.)(language_model|model)\.norm$")


def find_final_norm(model: Any) -> tuple[str, Any]:
    """The module whose output lm_head takes. FINAL_NORM_UNKNOWN lists what there is when the choice is not clear."""
    named = [(name, module) for name, module in model.named_modules() if name]
    likely = [pair for pair in named if NORM_NAMES.search(pair[0])]
    if len(likely) != 1:
        outside = [p for p in named if not re.search(r"\.\d+(\.|$)", p[0]) and "visual" not in p[0] and "vision" not in p[0]]
        likely = [p for p in outside if p[0].rsplit(".", 1)[-1] in ("norm", "final_layernorm", "ln_f", "final_layer_norm")]
    if len(likely) != 1:
        norms = [name for name, _ in named if "norm" in name.rsplit(".", 1)[-1] and not re.search(r"\.\d+\.", name)]
        raise AssayError(
            "FINAL_NORM_UNKNOWN",
            f"the final norm of {type(model).__name__} cannot be told among {norms}; write a capture with "
            "assay.CaptureWriter and take what lm_head is fed",
        )
    return likely[0]


class FinalNorm:
    """Runs a causal model on one context and gives the output of its final norm, [T, H]."""

    def __init__(self, model: Any) -> None:
        import torch

        self._torch = torch
        self._model = model
        self.name, module = find_final_norm(model)
        self._seen: Any = None
        module.register_forward_hook(self._hook)

    def _hook(self, module: Any, inputs: Any, output: Any) -> None:
        self._seen = output[0] if isinstance(output, tuple) else output

    def _forward(self, module: Any, tokens: tuple[int, ...]) -> Any:
        ids = self._torch.tensor([tokens], dtype=self._torch.long, device=self._model.device)
        with self._torch.inference_mode():
            module(input_ids=ids, use_cache=False)
        seen, self._seen = self._seen, None
        if seen is None or tuple(seen.shape[:2]) != (1, len(tokens)):
            shape = None if seen is None else list(seen.shape)
            raise AssayError("FINAL_NORM_UNKNOWN", f"{self.name} gave {shape}, not [1, {len(tokens)}, H], for one context")
        return seen[0]

    def check(self, tokens: tuple[int, ...]) -> None:
        """CUT_MISMATCH unless lm_head is fed exactly the norm's output. One full forward pass."""
        head = self._model.get_output_embeddings()
        if head is None:
            raise AssayError("CUT_MISMATCH", f"{type(self._model).__name__} has no lm_head; give a causal language model")
        fed: list[Any] = []
        handle = head.register_forward_pre_hook(lambda module, inputs: fed.append(inputs[0].detach().clone()))
        try:
            seen = self._forward(self._model, tokens)
        finally:
            handle.remove()
        if len(fed) != 1 or fed[0].shape[-2] != seen.shape[0] or not bool((fed[0][0] == seen).all()):
            raise AssayError(
                "CUT_MISMATCH",
                f"{type(self._model).__name__} changes the states between {self.name} and lm_head, so they are not "
                "after_final_norm as a head needs them; write a capture with assay.CaptureWriter and take what lm_head is fed",
            )

    def run(self, tokens: tuple[int, ...]) -> Any:
        return self._forward(self._model.base_model, tokens)


def load_model(folder: Path, dtype: str, attention: str, device: str) -> Any:
    """The model in evaluation mode. WEIGHTS_MISSING when the checkpoint leaves a parameter to chance."""
    import torch
    import transformers

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=getattr(torch, dtype),
        attn_implementation=attention,
        device_map="auto" if device == "auto" else None,
        local_files_only=True,
        output_loading_info=True,
    )
    absent = sorted(str(key) for key in info["missing_keys"])
    if absent:
        raise AssayError(
            "WEIGHTS_MISSING",
            f"{folder}: {len(absent)} tensors are not in the checkpoint and would be random ({', '.join(absent[:5])}); it is "
            "another architecture than its config.json says, or incomplete",
        )
    return (model if device == "auto" else model.to(device)).eval()


def describe(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What decides the bits, where it ran, and the version of transformers."""
    import torch
    import transformers

    spread = args.device == "auto"
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if spread else torch.device(args.device).type
    kernels = {
        "compute_dtype": args.dtype,
        "attention": args.attention,
        "batch": 1,
        "torch": torch.__version__,
        "device": kind,
        "tf32": False,
    }
    stack: dict[str, Any] = {"threads": torch.get_num_threads()}
    if kind == "cuda":
        name = torch.cuda.get_device_name(None if spread else args.device)
        stack |= {"device_name": name, "devices": torch.cuda.device_count() if spread else 1, "cuda": torch.version.cuda}
    return kernels, stack, str(transformers.__version__)


def capture(args: argparse.Namespace) -> str:
    import torch

    suite = load_suite(args.suite)
    if args.threads:
        torch.set_num_threads(args.threads)
    kernels, stack, version = describe(args)
    with CaptureWriter(
        args.out,
        suite,
        cut="after_final_norm",
        model=str(args.model),
        model_files=args.model,
        engine="transformers",
        engine_version=version,
        kernels=kernels,
        stack=stack,
        filter=args.filter,
        dtype=args.store,
    ) as writer:
        missing = writer.missing()
        print(
            f"computing in {args.dtype}, storing {args.store}; {writer.kept} contexts kept, {len(missing)} to do",
            file=sys.stderr,
        )
        if missing:
            norm = FinalNorm(load_model(args.model, args.dtype, args.attention, args.device))
            norm.check(missing[0].tokens)
        for number, context in enumerate(missing, 1):
            writer.add(context.index, norm.run(context.tokens))
            if number % 10 == 0 or number == len(missing):
                print(f"context {number} of {len(missing)}", file=sys.stderr)
    return writer.close()


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m assay.recipes.transformers",
        description="Capture a model's final hidden states with Hugging Face transformers. The same command continues a "
        "capture that was broken off.",
    )
    parser.add_argument("--model", required=True, type=Path, help="Hugging Face folder")
    parser.add_argument("--suite", required=True, type=Path, help="suite folder")
    parser.add_argument("--out", required=True, type=Path, help="capture folder to write")
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "bfloat16", "float16"),
        help="what the model computes in (default float32: what the stored weights say, without rounding in between)",
    )
    parser.add_argument(
        "--store",
        default="bf16",
        choices=("keep", "bf16", "f32"),
        help="what is stored: bf16 (default; float32 states are rounded to nearest even, as a replay does anyway), "
        "keep or f32 (twice the size)",
    )
    parser.add_argument("--attention", default="eager", help="attn_implementation of transformers (default eager)")
    parser.add_argument("--device", default="cpu", help="torch device such as cuda:0, or auto: spread over all GPUs (needs the package accelerate); default cpu")
    parser.add_argument("--threads", type=int, default=0, help="torch threads (default: torch's own choice)")
    parser.add_argument("--filter", default="all", help="contexts: all, sentinel or a partition")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    args = parse(arguments)
    try:
        content = capture(args)
    except AssayError as error:
        print(f"error {error}", file=sys.stderr)
        return 3
    except ImportError as error:
        print(f"error: {error}; pip install './client/python[transformers]'", file=sys.stderr)
        return 3
    print(f"{args.out}: complete\ncontent {content}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
