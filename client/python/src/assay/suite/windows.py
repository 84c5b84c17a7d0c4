"""Cuts tokenized documents into contexts of equal length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .._files import sha256_bytes
from ..errors import AssayError
from ..suites import token_file_bytes
from .documents import Document
from .vocabulary import Encoding, Facts, Vocabulary

BOS_RULES = ("auto", "always", "never")


@dataclass(frozen=True)
class Context:
    document: Document
    window: int  # number within the document, from 0; a window left out as a duplicate leaves a gap
    start: int  # code points (token ids for a document of ids)
    end: int
    ids: list[int]
    digest: str
    bos: str = ""  # added, there (and none added), double (added before one that was there), or nothing
    cut_inside: bool = False  # its last token ends inside a character


class Bos(NamedTuple):
    """What --bos came to."""

    asked: str
    adds: bool
    id: int | None
    why: str


@dataclass
class Account:
    """What became of one document: every token is in a context, or counted here."""

    document: Document
    tokens: int = 0
    special: int = 0  # tokens that are control tokens of the vocabulary
    unknown: int = 0
    contexts: int = 0
    duplicates: int = 0  # windows whose tokens the suite has already
    tail: int = 0  # tokens behind the last whole window
    unread: int = 0  # tokens left over when the number of contexts asked for was reached


def bos_rule(asked: str, facts: Facts) -> Bos:
    """BOS_UNKNOWN when a BOS is to be added and the tokenizer names none."""
    adds = asked == "always" or (asked == "auto" and facts.adds_bos)
    if adds and facts.bos_id is None:
        raise AssayError("BOS_UNKNOWN", f"{facts.file} names no BOS token: give --bos-token TOKEN or --bos never")
    why = {"auto": f"as the tokenizer does ({facts.adds_bos_from})", "always": "asked", "never": "asked"}[asked]
    return Bos(asked, adds, facts.bos_id, why)


def encode(document: Document, vocabulary: Vocabulary, parse_special: bool) -> Encoding:
    """TOKEN_OUT_OF_RANGE and TEXT_INVALID name the document."""
    if document.ids is not None:
        limit = vocabulary.facts.vocab_size
        for place, number in enumerate(document.ids):
            if number >= limit:
                raise AssayError(
                    "TOKEN_OUT_OF_RANGE",
                    f"{document.where}: id {number} at place {place} is not below the vocabulary of {limit}; were the "
                    "ids made with this tokenizer?",
                )
        return Encoding(document.ids, range(1, len(document.ids) + 1), frozenset())
    try:
        return vocabulary.encode(document.text, parse_special)
    except AssayError as error:
        raise AssayError(error.reason, f"{document.where}: {error.args[0]}") from None


class Cutter:
    """Adjacent windows of one document's tokens, in order. Each is `length` ids, BOS included where one is added."""

    def __init__(self, document: Document, vocabulary: Vocabulary, parse_special: bool, length: int, bos: Bos) -> None:
        facts = vocabulary.facts
        self.document, self.length, self.bos = document, length, bos
        self.encoding = encode(document, vocabulary, parse_special)
        self.at = self.window = self.end = 0
        ids = self.encoding.ids
        self.account = Account(document, tokens=len(ids))
        self.account.special = sum(number in facts.special_ids for number in ids)
        self.account.unknown = sum(number == facts.unknown_id for number in ids)

    def remaining(self) -> int:
        return len(self.encoding.ids) - self.at

    def next(self) -> Context | None:
        """The next window, or None when what is left is too short for one (it becomes the account's tail)."""
        ids = self.encoding.ids
        there = self.remaining() > 0 and ids[self.at] == self.bos.id
        add = self.bos.adds and not (there and self.bos.asked == "auto")
        take = self.length - add
        if self.remaining() < take:
            self.account.tail = self.remaining()
            self.at = len(ids)
            return None
        window = list(ids[self.at : self.at + take])
        if add:
            assert self.bos.id is not None
            window = [self.bos.id, *window]
        last = self.at + take - 1
        start, self.end = self.end, self.encoding.ends[last]
        context = Context(
            self.document,
            self.window,
            start,
            self.end,
            window,
            sha256_bytes(token_file_bytes(window)),
            bos=("double" if there else "added") if add else ("there" if there else ""),
            cut_inside=last in self.encoding.inside,
        )
        self.at += take
        self.window += 1
        return context


@dataclass
class Selection:
    contexts: list[Context] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)


def select(
    strata: dict[str, list[Document]],
    quotas: dict[str, int] | None,
    vocabulary: Vocabulary,
    parse_special: bool,
    length: int,
    bos: Bos,
) -> Selection:
    """Round-robin over the documents of a stratum, one window per document and round, until its quota is met (None:
    until nothing is left). A window whose tokens occur in the suite already is left out."""
    out = Selection()
    seen: set[str] = set()
    for stratum, documents in strata.items():
        cutters = [Cutter(document, vocabulary, parse_special, length, bos) for document in documents]
        out.accounts.extend(cutter.account for cutter in cutters)
        wanted = None if quotas is None else quotas[stratum]
        found: list[Context] = []
        alive = cutters
        while alive and (wanted is None or len(found) < wanted):
            for cutter in list(alive):
                if wanted is not None and len(found) == wanted:
                    break
                context = cutter.next()
                if context is None:
                    alive.remove(cutter)
                elif context.digest in seen:
                    cutter.account.duplicates += 1
                else:
                    seen.add(context.digest)
                    found.append(context)
                    cutter.account.contexts += 1
        for cutter in alive:
            cutter.account.unread = cutter.remaining()
        out.contexts.extend(found)
    return out
