"""The key-value part of a GGUF file (versions 2 and 3, little endian), without its tensors.

Read here and not with the package `gguf`, which takes ten seconds and more for a vocabulary of 150,000 tokens.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from ..errors import AssayError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Metadata:
    """Metadata of one GGUF by key: numbers, strings, lists of them. TOKENIZER_INVALID names the file and byte."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            self.values = _Reader(data, path).read()

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def need(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise AssayError(
                "TOKENIZER_INVALID",
                f"{self.path}: no metadata key {key}, so it holds no whole tokenizer; of a split GGUF give the first "
                "part",
            )
        return value


class _Reader:
    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data, self.path, self.at = data, path, 4

    def read(self) -> dict[str, Any]:
        version = int(self._scalar("I"))
        if version not in VERSIONS:
            raise self._bad(f"GGUF version {version} (big endian, or newer than this program) is not read")
        self._scalar("Q")  # tensors
        values: dict[str, Any] = {}
        for _ in range(int(self._scalar("Q"))):
            key = self._string()
            values[key] = self._value(int(self._scalar("I")))
        return values

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._scalar(self._code(kind))
        item, count = int(self._scalar("I")), int(self._scalar("Q"))
        if item == _STRING:
            if count > len(self.data):
                raise self._bad(f"a list of {count} strings")
            return [self._string() for _ in range(count)]
        code = self._code(item)
        size = count * struct.calcsize(code)
        self._room(size)
        values = list(struct.unpack_from(f"<{count}{code}", self.data, self.at))
        self.at += size
        return values

    def _code(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self._bad(f"a value of unknown type {kind}")
        return _SCALARS[kind]

    def _scalar(self, code: str) -> Any:
        size = struct.calcsize(code)
        self._room(size)
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += size
        return value

    def _string(self) -> str:
        size = int(self._scalar("Q"))
        self._room(size)
        raw = self.data[self.at : self.at + size]
        self.at += size
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self._bad("a string that is not UTF-8") from None

    def _room(self, size: int) -> None:
        if size > len(self.data) - self.at:
            raise self._bad("a length that goes past the end of the file")

    def _bad(self, what: str) -> AssayError:
        return AssayError("TOKENIZER_INVALID", f"{self.path}: byte {self.at}: {what}; fetch the file again")
