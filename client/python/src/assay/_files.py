"""Files written whole or not at all, and their digests."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .errors import AssayError

BLOCK_BYTES = 1 << 20


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
    except FileNotFoundError:
        raise AssayError("FILE_MISSING", f"{path}: there is no such file") from None
    return digest.hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """The file holds all of `data` on disk, or what it held before; a crash leaves at most NAME.tmp behind."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file. FILE_MISSING and JSON_INVALID name it; `what` says what it should be."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise AssayError("FILE_MISSING", f"{path}: there is no such file, so {path.parent} is no {what}") from None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise AssayError("JSON_INVALID", f"{path}: not JSON ({error}); fetch or write it again") from None
    if not isinstance(value, dict):
        raise AssayError("JSON_INVALID", f"{path}: holds no JSON object; give the folder of a {what}")
    return value


def canonical_sha256(value: object) -> str:
    """The digest that published manifests take of a JSON value: sorted keys, no blanks, ASCII."""
    return sha256_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii"))


def pretty_json(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode("ascii")
