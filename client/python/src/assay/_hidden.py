"""Hidden states as an engine has them, and as a capture stores them: rows of BF16 or F32, and their file."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .errors import AssayError

Bits = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]
DTypeRule = Literal["keep", "bf16", "f32"]
TENSOR = "hidden_states"
HEADER_BYTES_MAX = 100 << 20


@dataclass(frozen=True)
class Rows:
    """Checked rows [T - 1, H] of one context, ready to be stored."""

    dtype: Literal["BF16", "F32"]
    data: npt.NDArray[Any]  # uint16 bit patterns for BF16, float32 for F32; C order
    source_dtype: str
    rounded: bool  # whether values were rounded to bf16 on the way


def to_numpy(states: Any) -> tuple[npt.NDArray[Any], str]:
    """An array of the same values and the name of its type; bfloat16 comes as uint16 bit patterns.

    Takes numpy arrays (float16, float32, and the bfloat16 of ml_dtypes) and torch tensors on any device.
    """
    if type(states).__module__.split(".")[0] == "torch":
        tensor = states.detach().to("cpu")
        name = str(tensor.dtype).removeprefix("torch.")
        if name == "bfloat16":
            import torch

            return np.ascontiguousarray(tensor.view(torch.int16).numpy()).view(np.uint16), name
        return np.ascontiguousarray(tensor.numpy()), name
    array = np.ascontiguousarray(states)
    name = array.dtype.name
    return (array.view(np.uint16) if name == "bfloat16" else array), name


def widen(bits: npt.NDArray[Any]) -> Floats:
    """bfloat16 bit patterns as float32, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def round_to_bf16(values: Floats) -> Bits:
    """float32 to bfloat16 bit patterns: to nearest, ties to even. Values must be finite; large ones become infinite."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)


def prepare(states: Any, context: int, length: int, rule: DTypeRule) -> Rows:
    """Checks the states of one context and brings them to the stored type.

    SHAPE_MISMATCH unless [length, H] (the last row scores nothing and is left out) or [length - 1, H]; DTYPE_UNSUPPORTED
    unless float16, bfloat16 or float32; NON_FINITE_HIDDEN names the first position that is NaN or infinite.
    """
    array, name = to_numpy(states)
    if name not in ("float16", "bfloat16", "float32"):
        raise AssayError(
            "DTYPE_UNSUPPORTED",
            f"context {context}: hidden states are {name}; give float16, bfloat16 or float32 (cast them yourself, so that "
            "you know what was rounded)",
        )
    if array.ndim != 2 or array.shape[0] not in (length, length - 1) or array.shape[1] == 0:
        raise AssayError(
            "SHAPE_MISMATCH",
            f"context {context}: hidden states are {list(array.shape)}; [{length}, H], one row for each token in order, or "
            f"[{length - 1}, H] without the last one, is needed" + (" (drop the batch axis)" if array.ndim == 3 else ""),
        )
    array = array[: length - 1]
    values = widen(array) if name == "bfloat16" else array
    _check_finite(values, context)
    if name == "bfloat16" and rule in ("keep", "bf16"):
        return Rows("BF16", np.ascontiguousarray(array), name, False)
    wide = np.ascontiguousarray(values, dtype=np.float32)
    if rule != "bf16":
        return Rows("F32", wide, name, False)
    bits = round_to_bf16(wide)
    _check_finite(widen(bits), context)
    return Rows("BF16", bits, name, bool(np.any(widen(bits) != wide)))


def _check_finite(values: npt.NDArray[Any], context: int) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        position, column = (int(i) for i in np.argwhere(bad)[0])
        raise AssayError(
            "NON_FINITE_HIDDEN",
            f"context {context}, position {position}, column {column}: the hidden state is {values[position, column]} "
            f"({int(bad.any(axis=1).sum())} positions in all); the engine or the checkpoint is broken there",
        )


def hidden_file_name(index: int) -> str:
    return f"hidden_{index:04d}.safetensors"


def hidden_file_bytes(rows: Rows) -> bytes:
    """A published hidden file: one tensor, header padded with blanks to a multiple of eight bytes."""
    payload = rows.data.astype(rows.data.dtype.newbyteorder("<"), copy=False).tobytes()
    entry = {TENSOR: {"dtype": rows.dtype, "shape": list(rows.data.shape), "data_offsets": [0, len(payload)]}}
    header = json.dumps(entry, separators=(",", ":")).encode("ascii")
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + payload


@dataclass(frozen=True)
class TensorSlot:
    dtype: str
    shape: tuple[int, ...]
    begin: int  # offset in the file
    end: int


ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I64": 8, "I32": 4, "U8": 1, "I8": 1, "BOOL": 1, "F8_E4M3": 1}


def read_header(path: Path) -> dict[str, TensorSlot]:
    """The tensors of a safetensors file, every length checked against the file. SAFETENSORS_INVALID names it."""

    def bad(why: str) -> AssayError:
        return AssayError("SAFETENSORS_INVALID", f"{path}: {why}; it is no safetensors file or damaged, write it again")

    size = path.stat().st_size
    with path.open("rb") as stream:
        prefix = stream.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= min(HEADER_BYTES_MAX, size - 8):
            raise bad("its header length does not fit")
        try:
            entries = json.loads(stream.read(length))
        except ValueError:
            raise bad("its header is not JSON") from None
    slots: dict[str, TensorSlot] = {}
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if name == "__metadata__":
            continue
        try:
            begin, end = (int(v) for v in entry["data_offsets"])
            slot = TensorSlot(str(entry["dtype"]), tuple(int(v) for v in entry["shape"]), 8 + length + begin, 8 + length + end)
        except (KeyError, TypeError, ValueError):
            raise bad(f"the entry of {name!r} is malformed") from None
        if not 0 <= begin <= end or slot.end > size:
            raise bad(f"{name!r} lies outside the file")
        item = ITEM_BYTES.get(slot.dtype)
        if item is not None and slot.end - slot.begin != item * int(np.prod(slot.shape, dtype=np.int64)):
            raise bad(f"{name!r} has {slot.end - slot.begin} bytes, its shape {list(slot.shape)} needs another number")
        slots[name] = slot
    return slots


_NUMPY = {"BF16": "<u2", "F16": "<f2", "F32": "<f4", "I64": "<i8", "I32": "<i4"}


def map_tensor(path: Path, slot: TensorSlot) -> npt.NDArray[Any]:
    """A read-only view of a tensor in its file; BF16 as uint16 bit patterns."""
    if slot.dtype not in _NUMPY:
        raise AssayError("DTYPE_UNSUPPORTED", f"{path}: a tensor is stored as {slot.dtype}; {sorted(_NUMPY)} can be read")
    return np.memmap(path, dtype=_NUMPY[slot.dtype], mode="r", offset=slot.begin, shape=slot.shape)
