"""Reading suites: the frozen token panels that captures are made over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._files import read_json, sha256_bytes
from .errors import AssayError

MANIFEST_NAME = "suite-manifest.json"
SCHEMA_PREFIX = "qwen38-distribution-fidelity/"


@dataclass(frozen=True)
class Context:
    """One context of a suite: what the engine is fed, once, from an empty cache."""

    index: int
    """Its number in the suite, the `context_id` of `CaptureWriter.add`."""
    tokens: tuple[int, ...] = field(repr=False)
    """All token ids, a beginning-of-sequence token included where the suite has one: add none."""
    stratum: str
    source_cluster: str
    """The document it was cut from: what intervals are computed over."""
    partition: str
    sentinel: bool
    token_sha256: str
    file: str

    @property
    def scored_positions(self) -> int:
        """Position r predicts token r + 1, so the last token scores nothing."""
        return len(self.tokens) - 1


@dataclass(frozen=True)
class Suite:
    """A suite whose every token file has the digest that its manifest states. Iterating gives its contexts in order."""

    dir: Path
    contexts: tuple[Context, ...] = field(repr=False)
    context_length: int
    suite_token_sha256: str
    manifest_sha256: str
    manifest: dict[str, Any] = field(repr=False)

    def __iter__(self) -> Iterator[Context]:
        return iter(self.contexts)

    def __len__(self) -> int:
        return len(self.contexts)

    def select(self, filter: str = "all") -> tuple[Context, ...]:
        """The contexts of a filter: "all", "sentinel" or a partition's name. FILTER_EMPTY when there is none."""
        if filter in ("", "all"):
            return self.contexts
        chosen = tuple(c for c in self.contexts if (c.sentinel if filter == "sentinel" else c.partition == filter))
        if not chosen:
            raise AssayError(
                "FILTER_EMPTY",
                f"filter {filter!r} selects no context of {self.dir}; use all, sentinel or one of the partitions "
                f"{sorted({c.partition for c in self.contexts})}",
            )
        return chosen


def token_file_bytes(tokens: Sequence[int]) -> bytes:
    """The bytes of a token file, which token_sha256 is taken over: `[1, 2, 3]` without a newline."""
    return json.dumps(list(tokens)).encode("ascii")


def load_suite(directory: str | Path) -> Suite:
    """Reads a suite folder (suite-manifest.json and its token files) and checks every digest in it.

    FILE_MISSING, JSON_INVALID, SUITE_INVALID, SHAPE_MISMATCH, DIGEST_MISMATCH and TOKEN_OUT_OF_RANGE name the file.
    """
    folder = Path(directory)
    path = folder / MANIFEST_NAME
    manifest = read_json(path, "suite (give the folder that holds suite-manifest.json and the token files)")
    try:
        return _parse(folder, path, manifest)
    except (KeyError, TypeError, ValueError) as error:
        raise AssayError(
            "SUITE_INVALID", f"{path}: a field is missing or of the wrong type ({error}); fetch it again"
        ) from None


def _parse(folder: Path, path: Path, manifest: dict[str, Any]) -> Suite:
    if not str(manifest["schema"]).startswith(SCHEMA_PREFIX):
        raise AssayError("SUITE_INVALID", f"{path}: schema {manifest['schema']!r} is no {SCHEMA_PREFIX}1 to 6")
    length = int(manifest["context_length"])
    # Published shard views come without their link to the parent's token folder.
    base = folder.parent if "shard" in manifest and not (folder / "tokens").is_dir() else folder
    contexts = tuple(_read_context(base, row, length, manifest.get("vocab_size")) for row in manifest["context_index"])
    if not contexts or len({c.index for c in contexts}) != len(contexts):
        raise AssayError("SUITE_INVALID", f"{path}: no context, or an index twice; fetch the suite again")
    joined = hashlib.sha256("".join(c.token_sha256 for c in contexts).encode("ascii")).hexdigest()
    if joined != manifest["suite_token_sha256"]:
        raise AssayError(
            "DIGEST_MISMATCH",
            f"{path}: suite_token_sha256 is not the digest of its rows; the manifest was changed, fetch it again",
        )
    return Suite(folder, contexts, length, joined, sha256_bytes(path.read_bytes()), manifest)


def _read_context(base: Path, row: dict[str, Any], length: int, vocab: int | None) -> Context:
    name = str(row["file"])
    if name.startswith("/") or ".." in Path(name).parts:
        raise AssayError("PATH_UNSAFE", f"{base}: the manifest names {name!r}, a path that leaves the suite")
    path = base / name
    try:
        tokens = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise AssayError("FILE_MISSING", f"{path}: the manifest names it, but it is not there; fetch it") from None
    except ValueError:
        raise AssayError("JSON_INVALID", f"{path}: no JSON list of token ids; fetch this file again") from None
    if not isinstance(tokens, list) or not all(type(t) is int for t in tokens):
        raise AssayError("JSON_INVALID", f"{path}: no JSON list of token ids; fetch this file again")
    if sha256_bytes(token_file_bytes(tokens)) != row["token_sha256"]:
        raise AssayError("DIGEST_MISMATCH", f"{path}: its ids do not have the digest that the manifest states")
    if len(tokens) != length:
        raise AssayError("SHAPE_MISMATCH", f"{path}: {len(tokens)} token ids instead of {length}")
    for position, token in enumerate(tokens):
        if token < 0 or (vocab is not None and token >= vocab):
            raise AssayError("TOKEN_OUT_OF_RANGE", f"{path}: position {position}: id {token} is not below {vocab}")
    return Context(
        index=int(row["index"]),
        tokens=tuple(tokens),
        stratum=str(row["stratum"]),
        source_cluster=str(row["source_cluster"]),
        partition=str(row.get("partition", "analysis")),
        sentinel=bool(row.get("sentinel", False)),
        token_sha256=str(row["token_sha256"]),
        file=name,
    )
