"""Captures from the files of vLLM's hidden-state extraction (speculative method `extract_hidden_states`).

vLLM's ExampleHiddenStatesConnector writes one NAME.safetensors for each request, with

    hidden_states  [tokens, layers, hidden], in releases before the connector wrote asynchronously [layers, tokens, hidden]
    token_ids      [tokens], int64: the prompt, and the generated tokens where they were asked for

in the model's dtype. The layers are those of `eagle_aux_hidden_state_layer_ids` in ascending order; layer id N is the
residual stream after N layers, so the last one, id num_hidden_layers, lies before the final norm. Neither the ids nor
the point are in the file: both are asked of the person who made it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .._hidden import DTypeRule, Floats, map_tensor, read_header, widen
from ..capture import CaptureWriter
from ..errors import AssayError
from ..suites import Context, Suite, load_suite
from .final_norm import FinalNorm, load_final_norm

Axes = Literal["tokens-first", "layers-first"]
CUTS = ("before_final_norm", "after_final_norm")
FLOATS = ("BF16", "F16", "F32")


@dataclass(frozen=True)
class Extracted:
    """One file: states [tokens, layers, hidden] as stored (BF16 as bit patterns), and the tokens they belong to."""

    path: Path
    states: npt.NDArray[Any]
    dtype: str
    tokens: tuple[int, ...]
    axes: Axes

    def layer(self, at: int) -> Floats:
        chosen = self.states[:, at, :]
        return widen(chosen) if self.dtype == "BF16" else chosen.astype(np.float32)


def read_extracted(path: Path, axes: Axes | None) -> Extracted:
    """Opens a file of the extractor. The axis that counts tokens is the one of token_ids' length; where both could be it,
    AXES_AMBIGUOUS asks for `axes`."""
    slots = read_header(path)
    for name in ("hidden_states", "token_ids"):
        if name not in slots:
            raise AssayError(
                "TENSOR_MISSING", f"{path}: no tensor {name} (it has {sorted(slots)}); is it a file of vLLM's hidden-state extractor?"
            )
    states, ids = slots["hidden_states"], slots["token_ids"]
    if states.dtype not in FLOATS or ids.dtype not in ("I64", "I32"):
        raise AssayError("DTYPE_UNSUPPORTED", f"{path}: hidden_states {states.dtype} and token_ids {ids.dtype}")
    count = ids.shape[0] if len(ids.shape) == 1 else -1
    if len(states.shape) != 3 or count not in states.shape[:2]:
        raise AssayError(
            "SHAPE_MISMATCH",
            f"{path}: hidden_states {list(states.shape)} with token_ids {list(ids.shape)}; [tokens, layers, hidden] and "
            "[tokens] belong together (a prompt computed in chunks is cut short: switch chunked prefill off)",
        )
    fitting: list[Axes] = []
    if states.shape[0] == count:
        fitting.append("tokens-first")
    if states.shape[1] == count:
        fitting.append("layers-first")
    if axes is None and len(fitting) == 2:
        raise AssayError(
            "AXES_AMBIGUOUS",
            f"{path}: {count} tokens and {count} layers, so the shape does not say which axis is which; give "
            "--axes tokens-first (vLLM since the connector writes asynchronously) or layers-first (before)",
        )
    order = axes or fitting[0]
    if order not in fitting:
        raise AssayError("SHAPE_MISMATCH", f"{path}: hidden_states {list(states.shape)} is not {order} for {count} tokens")
    array = map_tensor(path, states)
    tokens = tuple(int(t) for t in map_tensor(path, ids))
    return Extracted(path, array if order == "tokens-first" else array.transpose(1, 0, 2), states.dtype, tokens, order)


def _refuse_unfinished(path: Path) -> None:
    """vLLM holds a lock on NAME.safetensors.lock until the file is written."""
    lock = Path(f"{path}.lock")
    if not lock.exists():
        return
    with lock.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssayError("FILE_BUSY", f"{path}: vLLM still writes it; wait until the engine is done") from None


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise AssayError("FILE_MISSING", f"{folder}: there is no such folder; give vLLM's shared_storage_path")
    packed = sorted(folder.glob("*.safetensors.zst"))
    if packed:
        raise AssayError("DTYPE_UNSUPPORTED", f"{packed[0]}: compressed; unpack the files with `zstd -d` first")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise AssayError("FILE_MISSING", f"{folder}: holds no *.safetensors; give vLLM's shared_storage_path")
    return files


class Importer:
    """One import: which layer, through which norm, into which capture."""

    def __init__(
        self,
        folder: str | Path,
        suite: Suite,
        *,
        cut: str,
        final_norm: FinalNorm | None,
        layer_ids: list[int] | None,
        axes: Axes | None,
    ) -> None:
        if cut not in CUTS:
            raise AssayError("CUT_UNKNOWN", f"cut {cut!r}: say where the states were taken, {' or '.join(CUTS)}")
        if cut == "before_final_norm" and final_norm is None:
            raise AssayError(
                "FINAL_NORM_NEEDED",
                "states from before the final norm cannot be put through a head; give --final-norm MODEL, the model's Hugging "
                "Face folder",
            )
        if cut == "after_final_norm" and final_norm is not None:
            raise AssayError("FINAL_NORM_NEEDED", "--final-norm would norm the states twice; leave it out, or correct --cut")
        self._files = _files(Path(folder))
        self._suite = suite
        self._norm = final_norm
        self._layer_ids = sorted(layer_ids) if layer_ids else None  # vLLM collects them as the forward pass meets them
        self._axes = axes
        # States depend on the tokens read, so a file serves every context that begins with its tokens.
        self._wanted: dict[tuple[int, ...], list[Context]] = {}
        for context in suite:
            self._wanted.setdefault(context.tokens[:-1], []).append(context)
        self.unused: list[Path] = []
        """Files whose tokens begin no context of the suite, such as a warm-up request."""

    def describe(self) -> dict[str, Any]:
        """What decides the bits, for the manifest; opens the first file."""
        first = read_extracted(self._files[0], self._axes)
        at = self._layer_index(first)
        return {
            "source": "vllm-hidden-states",
            "source_dtype": first.dtype,
            "source_axes": first.axes,
            "layer": self._layer_ids[at] if self._layer_ids else None,
            "final_norm": self._norm.describe() if self._norm else "applied by the engine",
        }

    def _layer_index(self, file: Extracted) -> int:
        count = file.states.shape[1]
        if self._layer_ids is None:
            if count == 1:
                return 0
            raise AssayError(
                "LAYER_NEEDED",
                f"{file.path}: holds {count} layers; give --layer-ids as in eagle_aux_hidden_state_layer_ids, so that the right "
                "one is taken",
            )
        if len(self._layer_ids) != count:
            raise AssayError("SHAPE_MISMATCH", f"{file.path}: holds {count} layers, --layer-ids has {len(self._layer_ids)}")
        if self._norm is None:
            if count != 1:
                raise AssayError("LAYER_NEEDED", f"{file.path}: holds {count} layers; which is after the final norm?")
            return 0
        if self._norm.layers not in self._layer_ids:
            raise AssayError(
                "LAYER_NEEDED",
                f"the final norm takes the states after layer {self._norm.layers}, which is not among --layer-ids "
                f"{self._layer_ids}; extract again with {self._norm.layers} in eagle_aux_hidden_state_layer_ids",
            )
        return self._layer_ids.index(self._norm.layers)

    def contexts(self) -> Iterator[tuple[Context, Floats]]:
        """Each context that a file serves, with its states [T - 1, H] after the final norm."""
        rows = self._suite.context_length - 1
        first_axes: Axes | None = self._axes
        for path in self._files:
            _refuse_unfinished(path)
            file = read_extracted(path, self._axes)
            if first_axes is not None and file.axes != first_axes:
                raise AssayError("SHAPE_MISMATCH", f"{path}: {file.axes}, the files before it are {first_axes}; one of them is misread")
            first_axes = file.axes
            served = self._wanted.get(file.tokens[:rows], [])
            if not served:
                self._note_unused(file)
                continue
            states = file.layer(self._layer_index(file))[:rows]
            _refuse_unwritten(path, states)
            values = self._norm.apply(states) if self._norm else states
            for context in served:
                yield context, values

    def _note_unused(self, file: Extracted) -> None:
        rows = self._suite.context_length - 1
        if file.tokens[1 : rows + 1] in self._wanted:
            raise AssayError(
                "TOKENS_SHIFTED",
                f"{file.path}: its tokens are those of a context with {file.tokens[0]} before them, so a beginning-of-sequence "
                "token was added; send prompt_token_ids, not text",
            )
        self.unused.append(file.path)


def _refuse_unwritten(path: Path, states: Floats) -> None:
    empty = np.flatnonzero(~states.any(axis=1))
    if empty.size:
        raise AssayError(
            "HIDDEN_NOT_WRITTEN",
            f"{path}: position {int(empty[0])} ({empty.size} in all) is all zeros: vLLM did not write it; switch chunked prefill "
            "and prefix caching off and extract again",
        )


def import_vllm(
    folder: str | Path,
    suite: Suite | str | Path,
    out: str | Path,
    *,
    cut: str,
    final_norm: str | Path | None = None,
    layer_ids: list[int] | None = None,
    axes: Axes | None = None,
    model: str | None = None,
    engine_version: str = "not stated",
    stack: Mapping[str, Any] | None = None,
    store: DTypeRule = "bf16",
    filter: str = "all",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[str, list[Path]]:
    """Makes a capture of the files in `folder`; gives its content digest and the files that no context needed.

    `cut`: "before_final_norm" (the last layer, needs `final_norm`, the model's Hugging Face folder) or "after_final_norm".
    `layer_ids`: those given to vLLM, needed when a file holds several layers. `store`: as `dtype` of `CaptureWriter`; bf16
    rounds to nearest even. CAPTURE_INCOMPLETE names the contexts that no file serves.
    """
    panel = suite if isinstance(suite, Suite) else load_suite(suite)
    norm = load_final_norm(final_norm) if final_norm is not None else None
    work = Importer(folder, panel, cut=cut, final_norm=norm, layer_ids=layer_ids, axes=axes)
    writer = CaptureWriter(
        out,
        panel,
        cut="after_final_norm",
        model=model or (str(final_norm) if final_norm is not None else Path(folder).resolve().name),
        model_files=final_norm,
        engine="vllm",
        engine_version=engine_version,
        kernels=work.describe(),
        stack=stack,
        filter=filter,
        dtype=store,
    )
    wanted = {c.index for c in writer.missing()}
    done: set[int] = set()
    with writer:
        for context, states in work.contexts():
            if context.index not in wanted:
                continue
            writer.add(context.index, states)  # a second file of the same tokens must have the same bits
            done.add(context.index)
            if progress is not None:
                progress(len(done), len(wanted))
    return writer.close(), work.unused
