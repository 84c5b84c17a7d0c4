"""Reads INPUT: a folder of texts, JSON lines, token ids, or one long text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._files import sha256_bytes
from ..errors import AssayError
from .documents import Corpus, Document, decode_utf8, ids_document, text_document, without_mark
from .split_text import split_text

FORMS = ("folder", "jsonl", "ids", "text")
ROW_FIELDS = ("text", "messages", "ids", "stratum", "source")
Render = Callable[[list[Any], str], str]  # messages, where -> text


def detect_form(path: Path) -> str:
    if path.is_dir():
        return "folder"
    check_readable(path)
    if not path.exists():
        raise AssayError(
            "FILE_MISSING",
            f"{path}: there is no such file or folder; INPUT is a folder STRATUM/*.txt, a .jsonl, a "
            ".json of token ids, or a text file",
        )
    return {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "ids"}.get(path.suffix.lower(), "text")


def check_readable(path: Path) -> None:
    """Refuses what is no regular file: a link that leads nowhere, a pipe that would be waited for without end, a device."""
    if path.is_symlink() and not path.exists():
        raise AssayError(
            "FILE_MISSING", f"{path}: is a link to {path.readlink()}, where nothing is; mend the link or give the file itself"
        )
    if path.exists() and not path.is_file() and not path.is_dir():
        kind = "a pipe" if path.is_fifo() else "a socket" if path.is_socket() else "a device"
        raise AssayError(
            "INPUT_INVALID",
            f"{path}: is {kind}; the input is read several times and named by its digest, so write it to a file first",
        )


def read_input(path: Path, form: str | None, split: str, fits: Callable[[str], bool], render: Render) -> Corpus:
    """All documents of INPUT. `fits` says whether a text is long enough for a context; `render` applies the chat
    template. Errors name file and line: FILE_MISSING, TEXT_INVALID, JSON_INVALID, INPUT_INVALID."""
    check_readable(path)
    form = form or detect_form(path)
    if path.is_dir() != (form == "folder") or not path.exists():
        raise AssayError("INPUT_INVALID", f"{path}: is no {'folder' if form == 'folder' else 'file'} (form {form})")
    corpus = {
        "folder": lambda: read_folder(path),
        "jsonl": lambda: _read_rows(path, _json_lines(path), "jsonl", render),
        "ids": lambda: _read_rows(path, _id_rows(path), "ids", render),
        "text": lambda: _read_text(path, split, fits),
    }[form]()
    if not corpus.documents:
        raise AssayError(
            "INPUT_INVALID", f"{path}: is empty, so there is nothing to cut; give a folder or file with text"
        )
    return corpus


def check_name(path: Path) -> None:
    """Names of strata and documents stand in the manifest, which is UTF-8."""
    try:
        f"{path.parent.name}/{path.name}".encode()
    except UnicodeEncodeError:
        raise AssayError("INPUT_INVALID", f"{str(path)!a}: the name is not UTF-8; rename it") from None


def read_folder(root: Path) -> Corpus:
    """STRATUM/DOCUMENT.txt, both in order of their names. Hidden files are left out and counted."""
    documents: list[Document] = []
    owner: dict[str, str] = {}
    hidden = marks = 0
    for entry in sorted(root.iterdir(), key=lambda p: p.name):
        if entry.name.startswith("."):
            hidden += 1
        elif not entry.is_dir():
            raise AssayError(
                "INPUT_INVALID",
                f"{entry}: only folders may stand here, one for each stratum, with .txt files inside; move it into one "
                "(a single text file can be INPUT itself)",
            )
        else:
            for path in sorted(entry.iterdir(), key=lambda p: p.name):
                if path.name.startswith("."):
                    hidden += 1
                    continue
                check_name(path)
                check_readable(path)
                if path.suffix != ".txt" or not path.is_file():
                    raise AssayError("INPUT_INVALID", f"{path}: only .txt files may stand in a stratum folder")
                if path.stem in owner:
                    raise AssayError(
                        "INPUT_INVALID",
                        f"{path}: a document of this name is in stratum {owner[path.stem]} already, and names stand "
                        "for sources; rename one",
                    )
                owner[path.stem] = entry.name
                raw = path.read_bytes()
                where = f"{entry.name}/{path.name}"
                full = decode_utf8(raw, str(path))
                text = without_mark(full)
                marks += text != full
                documents.append(text_document(path.stem, entry.name, where, text, raw))
    notes = [f"{hidden} hidden files left out"] if hidden else []
    return Corpus(documents, "folder", {"hidden_files_left_out": hidden, "byte_order_marks_removed": marks}, notes)


def _json_lines(path: Path) -> list[tuple[str, Any]]:
    raw = path.read_bytes()
    rows = []
    for number, line in enumerate(without_mark(decode_utf8(raw, str(path))).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            rows.append((where, json.loads(line)))
        except ValueError as error:
            raise AssayError("JSON_INVALID", f"{where}: not JSON ({error}); each line is one object") from None
    return rows


def _id_rows(path: Path) -> list[tuple[str, Any]]:
    try:
        value = json.loads(without_mark(decode_utf8(path.read_bytes(), str(path))))
    except ValueError as error:
        raise AssayError("JSON_INVALID", f"{path}: not JSON ({error})") from None
    if isinstance(value, dict):
        value = value.get("contexts", value.get("rows"))
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        value = [value]
    if not isinstance(value, list):
        raise AssayError(
            "INPUT_INVALID",
            f'{path}: token ids are [[1, 2, ...], ...] or [{{"ids": [1, 2, ...], "stratum": ..., "source": ...}}, '
            "...]; texts belong into a .jsonl file",
        )
    return [
        (f"{path}: row {number}", {"ids": row} if isinstance(row, list) else row) for number, row in enumerate(value)
    ]


def _read_rows(path: Path, rows: list[tuple[str, Any]], form: str, render: Render) -> Corpus:
    documents: list[Document] = []
    stratum_of: dict[str, tuple[str, str]] = {}
    ignored: dict[str, int] = {}
    chats = 0
    digits = max(4, len(str(len(rows))))
    for number, (where, row) in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise AssayError("INPUT_INVALID", f"{where}: is no object with text, messages or ids")
        present = [key for key in ("text", "messages", "ids") if key in row]
        if len(present) != 1:
            got = "none" if not present else " and ".join(present)
            raise AssayError("INPUT_INVALID", f"{where}: needs one of text, messages and ids, has {got}")
        stratum = _label(row, "stratum", path.stem, where)
        source = _label(row, "source", f"row-{number:0{digits}d}", where)
        for key in row:
            if key not in ROW_FIELDS:
                ignored[key] = ignored.get(key, 0) + 1
        before = stratum_of.setdefault(source, (stratum, where))
        if before[0] != stratum:
            raise AssayError(
                "INPUT_INVALID",
                f"{where}: source {source!r} is in stratum {stratum!r} here and in {before[0]!r} at {before[1]}; a "
                "source belongs to one stratum: give the parts different sources",
            )
        short = where.replace(str(path), path.name)
        if "ids" in row:
            documents.append(ids_document(source, stratum, short, _ids(row["ids"], where)))
            continue
        chats += "messages" in row
        text = render(row["messages"], where) if "messages" in row else row["text"]
        documents.append(text_document(source, stratum, short, _clean(text, where)))
    documents.sort(key=lambda d: (d.stratum, d.cluster))  # stable: parts of a source keep their order
    notes = [f"field {key!r} of {count} rows has no meaning here and was left out" for key, count in ignored.items()]
    record = {"sha256": sha256_bytes(path.read_bytes()), "rows": len(rows), "chats": chats, "fields_left_out": ignored}
    return Corpus(documents, form, record, notes)


def _label(row: dict[str, Any], key: str, default: str, where: str) -> str:
    value = row.get(key, default)
    if not isinstance(value, str) or not value.strip():
        raise AssayError("INPUT_INVALID", f"{where}: {key} must be a text that is not empty")
    return value


def _clean(text: Any, where: str) -> str:
    if not isinstance(text, str):
        raise AssayError("INPUT_INVALID", f"{where}: text must be a string")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise AssayError("TEXT_INVALID", f"{where}: half of a surrogate pair is no text; remove the row") from None
    return text


def _ids(value: Any, where: str) -> list[int]:
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise AssayError("INPUT_INVALID", f"{where}: ids must be a list of whole numbers from 0")
    return value


def _read_text(path: Path, split: str, fits: Callable[[str], bool]) -> Corpus:
    raw = path.read_bytes()
    full = decode_utf8(raw, str(path))
    text = without_mark(full)
    sections, rule = split_text(text, split, fits)
    digits = max(4, len(str(len(sections))))
    documents = []
    for number, section in enumerate(sections, 1):
        extra: dict[str, Any] = {"line": section.line, "char_start": section.start}
        if section.title:
            extra["title"] = section.title
        where = f"{path.name}:{section.line}"
        documents.append(text_document(f"section-{number:0{digits}d}", path.stem, where, section.text, **extra))
    notes = []
    if len(sections) > 1:
        notes.append(
            f"one text was cut into {len(sections)} sections ({rule['rule']}), which count as sources: sections of one "
            "work resemble each other, so intervals may be too narrow"
        )
    record = {"sha256": sha256_bytes(raw), "split": rule, "byte_order_marks_removed": int(text != full)}
    return Corpus(documents, "text", record, notes)
