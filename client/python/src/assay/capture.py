"""Captures written by any engine: the final hidden states of a model over a suite, in the published form."""

from __future__ import annotations

import fcntl
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from ._files import pretty_json, read_json, sha256_bytes, sha256_file, write_atomic
from ._hidden import TENSOR, DTypeRule, hidden_file_bytes, hidden_file_name, prepare, read_header
from ._manifest import IDENTITY_BYTES_MAX, MANIFEST_NAME, Description, Record, digest_model, model_name, resolve_cut
from .errors import AssayError
from .suites import Context, Suite, load_suite

if TYPE_CHECKING:
    from typing_extensions import Required, Unpack

CHECKPOINT_SECONDS = 2.0  # a crash costs the contexts of so many seconds

W = TypeVar("W", bound="BaseWriter")


class WriterOptions(TypedDict, total=False):
    """The keyword parameters that all writers take; `BaseWriter` says what they mean."""

    cut: Required[str]
    model: Required[str]
    engine: Required[str]
    engine_version: str
    kernels: Mapping[str, Any] | None
    stack: Mapping[str, Any] | None
    quantization: str | None
    model_files: str | Path | None
    filter: str
    dtype: DTypeRule


class BaseWriter(ABC):
    """What every writer does, wherever the files go: `CaptureWriter` (a folder) and `assay.remote.CoordinatorWriter`.

    Parameters shared by both:
        suite: a suite folder, or what `load_suite` returned.
        cut: where the states were taken; never guessed. "after_final_norm": what the model's lm_head takes.
        model: a name for people; of a local path only the last part is kept.
        engine, engine_version: who computed the states.
        kernels: what else decides the bits: compute dtype, attention kind, flags, library versions (JSON values).
        stack: where it ran: device, driver, container (JSON values). A difference is disclosed in reports, never refused.
        quantization: how the weights are quantized, for people.
        model_files: the model's folder or file; all of it is read and digested into the manifest.
        filter: "all", "sentinel" or a partition's name.
        dtype: what is stored. "keep": bfloat16 as it is, float32 as it is, float16 widened to float32 (exact).
            "bf16": rounded to bfloat16, to nearest, ties to even; the manifest says so ("hidden_rounding": "bf16-rne").
            "f32": widened to float32 (exact).
    """

    def __init__(
        self,
        suite: Suite | str | Path,
        *,
        cut: str,
        model: str,
        engine: str,
        engine_version: str = "",
        kernels: Mapping[str, Any] | None = None,
        stack: Mapping[str, Any] | None = None,
        quantization: str | None = None,
        model_files: str | Path | None = None,
        filter: str = "all",
        dtype: DTypeRule = "keep",
    ) -> None:
        if dtype not in ("keep", "bf16", "f32"):
            raise AssayError("DTYPE_UNSUPPORTED", f"dtype={dtype!r}: say 'keep', 'bf16' or 'f32'")
        if not engine or not model:
            raise AssayError("FIELD_MISSING", "name the engine and the model: a report says who captured what")
        self._description = Description(
            suite=suite if isinstance(suite, Suite) else load_suite(suite),
            filter=filter or "all",
            cut=resolve_cut(cut),
            model=model_name(model),
            engine=engine,
            engine_version=engine_version,
            dtype=dtype,
            kernels=dict(kernels or {}),
            stack=dict(stack or {}),
            quantization=quantization,
            model_digests=digest_model(model_files) if model_files is not None else {},
        )
        for what, value in (("kernels and stack", self._description.engine_identity()),):
            try:
                size = len(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError) as error:
                raise AssayError("FIELD_INVALID", f"{what} must be JSON values ({error}); convert them to text") from None
            if size > IDENTITY_BYTES_MAX:
                raise AssayError("FIELD_INVALID", f"{what} take {size} bytes as JSON, {IDENTITY_BYTES_MAX} is the most")
        self._contexts = {c.index: c for c in self.suite.select(self._description.filter)}
        self._records: dict[int, Record] = {}
        self._stored_dtype: str | None = None
        self._width: int | None = None
        self._started = time.monotonic()
        self._checkpointed = self._started
        self._closed = False
        self.kept = 0
        """Contexts that an earlier, broken off run had stored and that were kept."""
        self.rounded = 0
        """Contexts of this run in which rounding to bfloat16 changed a value."""

    @property
    def suite(self) -> Suite:
        return self._description.suite

    def missing(self) -> list[Context]:
        """The contexts of the filter that are not stored yet, in suite order: what the engine still has to compute."""
        return [c for index, c in self._contexts.items() if index not in self._records]

    def add(self, context_id: int, hidden_states: Any) -> None:
        """Stores the states of one context, whole or not at all. Contexts may come in any order.

        `context_id`: Context.index. `hidden_states`: numpy array or torch tensor, float16, bfloat16 or float32, [T, H] with
        one row for each token in order (the last scores nothing and is left out) or [T - 1, H].

        CONTEXT_UNKNOWN, SHAPE_MISMATCH, DTYPE_UNSUPPORTED and NON_FINITE_HIDDEN name context and position. Adding a context
        again is allowed when the bytes are the same, CONTEXT_DIFFERS otherwise.
        """
        if self._closed:
            raise AssayError("CAPTURE_CLOSED", "the writer is closed; open it anew to continue the capture")
        if context_id not in self._contexts:
            raise AssayError(
                "CONTEXT_UNKNOWN",
                f"context {context_id} is not one of filter {self._description.filter!r} of {self.suite.dir}; give the index "
                "of a context from writer.missing()",
            )
        rows = prepare(hidden_states, context_id, self.suite.context_length, self._description.dtype)
        width = int(rows.data.shape[1])
        self._same("hidden size", context_id, width, self._width)
        self._same("stored dtype", context_id, rows.dtype, self._stored_dtype)
        data = hidden_file_bytes(rows)
        record = Record(context_id, sha256_bytes(data), int(rows.data.shape[0]), width, len(data))
        earlier = self._records.get(context_id)
        if earlier is not None and earlier.sha256 != record.sha256:
            raise AssayError(
                "CONTEXT_DIFFERS",
                f"context {context_id} is stored already with other bytes: the engine does not repeat itself, or it is another "
                "model now; loop over writer.missing(), or choose another folder",
            )
        if earlier is None:
            self._put(record, data)
            self._records[context_id] = record
        self._width, self._stored_dtype = width, rows.dtype
        self.rounded += rows.rounded
        if time.monotonic() - self._checkpointed >= CHECKPOINT_SECONDS:
            self._checkpoint()
            self._checkpointed = time.monotonic()

    def close(self) -> str:
        """Finishes the capture and gives its content digest. CAPTURE_INCOMPLETE names contexts that are missing; what was
        added stays, and opening the writer again continues."""
        missing = [c.index for c in self.missing()]
        if missing:
            self.suspend()
            shown = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
            raise AssayError(
                "CAPTURE_INCOMPLETE",
                f"{len(missing)} of {len(self._contexts)} contexts are missing ({shown}); open the writer again and add them",
            )
        if not self._closed:
            self._finish()
            self._closed = True
            self._release()
        return self._description.content_sha256(list(self._records.values()))

    def suspend(self) -> None:
        """Ends this writer without finishing the capture; opening it again continues."""
        if not self._closed:
            self._checkpoint()
            self._closed = True
            self._release()

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.suspend()

    def _same(self, what: str, context: int, value: object, first: object) -> None:
        if first is not None and value != first:
            raise AssayError(
                "SHAPE_MISMATCH" if what == "hidden size" else "DTYPE_UNSUPPORTED",
                f"context {context}: {what} {value}, the contexts before it have {first}; one capture has one of each",
            )

    @abstractmethod
    def _put(self, record: Record, data: bytes) -> None:
        """Stores one file, durably."""

    @abstractmethod
    def _checkpoint(self) -> None:
        """Remembers what is stored."""

    @abstractmethod
    def _finish(self) -> None:
        """All contexts are stored: makes it a capture."""

    @abstractmethod
    def _release(self) -> None:
        """Gives locks and connections back."""


class CaptureWriter(BaseWriter):
    """Writes a capture folder that `assay replay` and `assay score` take: capture-manifest.json and one file per context.

        suite = assay.load_suite("suite")
        with assay.CaptureWriter("capture", suite, cut="after_final_norm", model="my-model", engine="my-engine") as writer:
            for context in writer.missing():
                writer.add(context.index, run(context.tokens))  # [T, H]: what the model's lm_head takes

    Leaving the `with` block finishes the capture when all contexts are there. After a crash the same lines continue it:
    contexts whose file has the recorded digest are kept. CAPTURE_OUT_OCCUPIED when the folder holds something else;
    OUT_BUSY when another process writes to it. The other parameters are those of `BaseWriter`.
    """

    def __init__(self, out: str | Path, suite: Suite | str | Path, **options: Unpack[WriterOptions]) -> None:
        super().__init__(suite, **options)
        self.dir = Path(out)
        self.dir.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.dir, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._adopt()
        except BlockingIOError:
            os.close(self._lock)
            raise AssayError("OUT_BUSY", f"{self.dir}: another process writes there; wait for it") from None
        except BaseException:
            os.close(self._lock)
            raise

    def _adopt(self) -> None:
        path = self.dir / MANIFEST_NAME
        if not path.exists():
            for other in sorted(self.dir.iterdir()):
                raise AssayError(
                    "CAPTURE_OUT_OCCUPIED",
                    f"{other} is in the way: without {MANIFEST_NAME} the folder is no capture to continue; choose an empty one",
                )
            self._checkpoint()
            return
        earlier = read_json(path, "capture")
        fresh = self._description.manifest([], False, 0.0)
        if earlier.get("capture_contract_sha256") != fresh["capture_contract_sha256"]:
            raise AssayError(
                "CAPTURE_OUT_OCCUPIED",
                f"{path} is of another capture (its suite, filter, cut, engine, dtype rule or model files differ); choose "
                "another folder or delete this one",
            )
        for row in earlier.get("captures", []):
            self._keep(Record(int(row["index"]), str(row["sha256"]), int(row["shape"][0]), int(row["shape"][1])))
        self.kept = len(self._records)

    def _keep(self, record: Record) -> None:
        """Keeps a file of an earlier run if it is there and whole; otherwise the context counts as missing."""
        path = self.dir / hidden_file_name(record.index)
        if record.index not in self._contexts or not path.is_file() or sha256_file(path) != record.sha256:
            return
        slot = read_header(path).get(TENSOR)
        if slot is None or slot.shape != (self.suite.context_length - 1, record.width):
            return
        self._width, self._stored_dtype = record.width, slot.dtype
        self._records[record.index] = record

    def _put(self, record: Record, data: bytes) -> None:
        write_atomic(self.dir / hidden_file_name(record.index), data)

    def _write_manifest(self, complete: bool) -> None:
        elapsed = round(time.monotonic() - self._started, 3)
        manifest = self._description.manifest(list(self._records.values()), complete, elapsed)
        write_atomic(self.dir / MANIFEST_NAME, pretty_json(manifest))

    def _checkpoint(self) -> None:
        self._write_manifest(complete=False)

    def _finish(self) -> None:
        self._write_manifest(complete=True)

    def _release(self) -> None:
        os.close(self._lock)
