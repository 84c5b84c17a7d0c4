"""Cuts one long text into the sections that stand in for source documents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import AssayError

RULES = ("auto", "headings", "blocks", "none")
_MARKDOWN = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_WIKI = re.compile(r"[ \t]*(=(?: ?=)*) (\S.*?) (=(?: ?=)*)[ \t]*")  # WikiText writes level 2 as "= = Title = ="
_FENCE = re.compile(r" {0,3}(```|~~~)")


@dataclass(frozen=True)
class Section:
    text: str
    start: int  # code points before it
    line: int  # from 1
    title: str = ""


def split_text(text: str, rule: str, fits: Callable[[str], bool]) -> tuple[list[Section], dict[str, Any]]:
    """Sections that together are the text, and the rule that cut it, for the manifest. INPUT_INVALID when --split
    headings finds fewer than two."""
    if rule == "none":
        return [Section(text, 0, 1)] if text else [], {"asked": rule, "rule": "the whole text is one document"}
    if rule in ("auto", "headings"):
        found = _headings(text)
        if found is not None:
            sections, level = found
            return sections, {"asked": rule, "rule": f"before every heading of level {level} or higher up"}
        if rule == "headings":
            raise AssayError(
                "INPUT_INVALID",
                "fewer than two headings (Markdown '# Title', or '= Title =') are in the text; use --split blocks",
            )
    return _blocks(text, fits), {
        "asked": rule,
        "rule": "at blank lines; blocks are joined in order until they hold one context",
    }


def _lines(text: str) -> list[tuple[int, str]]:
    at, out = 0, []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        out.append((at, line))
        at += len(line)
    return out


def _headings(text: str) -> tuple[list[Section], int] | None:
    """Cut at the highest level that, with those above it, gives two headings or more."""
    found: list[tuple[int, int, int, str]] = []  # level, start, line, title
    fenced = ""
    for number, (start, line) in enumerate(_lines(text), 1):
        line = line.rstrip("\r\n")
        fence = _FENCE.match(line)
        if fence and fenced in ("", fence[1]):
            fenced = "" if fenced else fence[1]
        if fenced or fence:
            continue
        if match := _MARKDOWN.fullmatch(line):
            found.append((len(match[1]), start, number, match[2].strip("# \t")))
        elif (match := _WIKI.fullmatch(line)) and match[1].count("=") == match[3].count("="):
            found.append((match[1].count("="), start, number, match[2]))
    for level in sorted({entry[0] for entry in found}):
        cuts = [entry for entry in found if entry[0] <= level]
        if len(cuts) < 2:
            continue
        starts = [(start, line, title) for _, start, line, title in cuts]
        if text[: starts[0][0]].strip():
            starts.insert(0, (0, 1, ""))
        else:
            starts[0] = (0, 1, starts[0][2])
        stops = [start for start, _, _ in starts[1:]] + [len(text)]
        return [Section(text[a:b], a, line, title) for (a, line, title), b in zip(starts, stops)], level
    return None


def _blocks(text: str, fits: Callable[[str], bool]) -> list[Section]:
    sections: list[Section] = []
    start, first_line = 0, 1
    blank = False
    for number, (at, line) in enumerate(_lines(text), 1):
        if blank and line.strip() and fits(text[start:at]):
            sections.append(Section(text[start:at], start, first_line))
            start, first_line = at, number
        blank = not line.strip()
    if text[start:].strip():
        sections.append(Section(text[start:], start, first_line))
    return sections
