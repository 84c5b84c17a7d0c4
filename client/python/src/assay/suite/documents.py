"""Documents: the texts (or token ids) that contexts are cut from, and what is recorded of them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Any

from .._files import sha256_bytes
from ..errors import AssayError
from ..suites import token_file_bytes

BYTE_ORDER_MARK = "\ufeff"


@dataclass
class Document:
    """One text or list of ids. A context never spans two documents; several documents may be one cluster."""

    cluster: str  # the source: what intervals are resampled over
    stratum: str
    where: str  # file, or file:line, for messages and the manifest
    text: str = ""
    ids: list[int] | None = None  # given instead of text
    bytes: int = 0  # of the source as it was read
    sha256: str = ""
    extra: dict[str, Any] = field(default_factory=dict)  # line, title


@dataclass
class Corpus:
    documents: list[Document]  # grouped by cluster, in the order in which they are cut
    form: str  # folder, jsonl, ids, text
    record: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def text_document(
    cluster: str, stratum: str, where: str, text: str, raw: bytes | None = None, **extra: Any
) -> Document:
    data = text.encode("utf-8") if raw is None else raw
    return Document(cluster, stratum, where, text, None, len(data), sha256_bytes(data), extra)


def ids_document(cluster: str, stratum: str, where: str, ids: list[int], **extra: Any) -> Document:
    data = token_file_bytes(ids)
    return Document(cluster, stratum, where, "", ids, len(data), sha256_bytes(data), extra)


def decode_utf8(raw: bytes, where: str) -> str:
    """TEXT_INVALID names file and line of the first byte that is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        hint = "it looks like UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "another encoding, or damaged"
        raise AssayError(
            "TEXT_INVALID",
            f"{where}:{line}: byte {error.start} (0x{raw[error.start]:02X}) is not UTF-8 ({hint}); convert the file: "
            "iconv -f ENCODING -t UTF-8",
        ) from None


def without_mark(text: str) -> str:
    """A byte order mark at the very start is an encoding's signature, not text."""
    return text.removeprefix(BYTE_ORDER_MARK)


def text_properties(documents: list[Document]) -> tuple[dict[str, int], list[str]]:
    """What is easily overlooked in texts: counted and said, never changed."""
    texts = [document.text for document in documents if document.ids is None]
    crlf = sum("\r" in text for text in texts)
    not_nfc = sum(not unicodedata.is_normalized("NFC", text) for text in texts)
    notes = []
    if crlf:
        notes.append(f"{crlf} documents have carriage returns (CRLF line ends?): kept as they are, and scored")
    if not_nfc:
        notes.append(f"{not_nfc} documents are not in Unicode form NFC (accents apart from letters): kept as they are")
    return {"documents_with_carriage_returns": crlf, "documents_not_in_nfc": not_nfc}, notes


def cluster_meta(documents: list[Document]) -> dict[str, Any]:
    """What the manifest says of one cluster. The digest of several documents is that of their digests in order."""
    first = documents[0]
    digest = first.sha256
    if len(documents) > 1:
        digest = sha256_bytes("".join(document.sha256 for document in documents).encode("ascii"))
    meta: dict[str, Any] = {
        "stratum": first.stratum,
        "file": first.where,
        "bytes": sum(document.bytes for document in documents),
        "sha256": digest,
    }
    if len(documents) > 1:
        meta["parts"] = [[document.where, document.bytes, document.sha256] for document in documents]
    return meta | first.extra
