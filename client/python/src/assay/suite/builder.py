"""From options to a suite, and the folder it is written to."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from ..errors import AssayError
from .chat import ChatRenderer, find_template
from .documents import Document, cluster_meta, text_properties
from .inputs import read_input
from .manifest import Built, build_manifest, suite_files
from .partition import ANALYSIS, arrange, hold_out
from .tokenizer_file import load_tokenizer
from .windows import Selection, bos_rule, select

CLUSTERS_FOR_INTERVALS = 8  # below, Assay states no confidence interval
TAIL_SHARE = 0.25  # dropped tokens that are worth a word
NAMED = 10  # documents listed one by one in a note


@dataclass(frozen=True)
class Options:
    """What `assay-suite build` was asked for."""

    input: Path
    tokenizer: Path
    context_length: int
    bos: str
    special: str = "parse"
    chat_template: Path | None = None
    template_date: date | None = None
    form: str | None = None
    split: str = "auto"
    contexts: int | None = None
    allow_shortfall: bool = False
    hold_out: dict[str, float] = field(default_factory=dict)
    sentinels: int = 8
    seed: int = 20261130
    bos_token: str | None = None
    config: Path | None = None
    note: str = ""


@dataclass
class Result:
    manifest: dict[str, Any]
    files: dict[str, bytes]
    built: Built
    warnings: list[str]


def build_suite(options: Options) -> Result:
    """AssayError with a reason of docs/guides/panel.md when the inputs do not give the suite."""
    vocabulary = load_tokenizer(options.tokenizer, options.bos_token, options.config)
    facts = vocabulary.facts
    bos = bos_rule(options.bos, facts)
    parse = options.special == "parse"
    template = find_template(options.chat_template, facts)
    needed = options.context_length - bos.adds

    def fits(text: str) -> bool:
        return len(text) * 4 >= needed and len(vocabulary.encode(text, parse).ids) >= needed

    renderer = ChatRenderer(template, facts, options.template_date, parse)
    corpus = read_input(options.input, options.form, options.split, fits, renderer)
    strata: dict[str, list[Document]] = {}
    for document in corpus.documents:
        strata.setdefault(document.stratum, []).append(document)
    if options.contexts is not None and options.contexts < len(strata):
        raise AssayError(
            "INPUT_INVALID",
            f"--contexts {options.contexts}: each of the {len(strata)} strata needs one: {', '.join(strata)}",
        )
    quotas = None if options.contexts is None else stratum_quotas(list(strata), options.contexts)
    selection = select(strata, quotas, vocabulary, parse, options.context_length, bos)
    _check_yield(options, selection, quotas)

    members: dict[str, list[Document]] = {}
    for document in corpus.documents:
        members.setdefault(document.cluster, []).append(document)
    digests = {name: cluster_meta(documents)["sha256"] for name, documents in members.items()}
    partition = hold_out(selection.contexts, digests, options.hold_out)
    order, sentinels = arrange(selection.contexts, partition, options.sentinels, options.seed)
    built = Built(
        name=options.input.resolve().name,
        note=options.note or "Built by assay-suite from the user's own input.",
        length=options.context_length,
        requested=options.contexts,
        allow_shortfall=options.allow_shortfall,
        special=options.special,
        seed=options.seed,
        shares=options.hold_out,
        facts=facts,
        bos=bos,
        template=template if corpus.record.get("chats") else None,
        corpus=corpus,
        accounts=selection.accounts,
        order=order,
        partition=partition,
        sentinels=sentinels,
    )
    manifest = build_manifest(built)
    return Result(manifest, suite_files(manifest, order), built, _warnings(options, built, renderer.spelled))


def stratum_quotas(strata: list[str], contexts: int) -> dict[str, int]:
    share, extra = divmod(contexts, len(strata))
    return {stratum: share + (place < extra) for place, stratum in enumerate(strata)}


def _check_yield(options: Options, selection: Selection, quotas: dict[str, int] | None) -> None:
    """PANEL_TOO_SHORT names the stratum that gives nothing, or fewer contexts than asked."""
    length = options.context_length
    got = Counter(context.document.stratum for context in selection.contexts)
    if not got:
        longest = max(selection.accounts, key=lambda account: account.tokens)
        raise AssayError(
            "PANEL_TOO_SHORT",
            f"{options.input}: no document gives a context of {length} tokens (the longest, {longest.document.where}, "
            f"has {longest.tokens}); take longer texts or a smaller --context-length",
        )
    for stratum in dict.fromkeys(account.document.stratum for account in selection.accounts):
        wanted = 1 if quotas is None else quotas[stratum]
        if got[stratum] >= wanted or options.allow_shortfall:
            continue
        tokens = [account.tokens for account in selection.accounts if account.document.stratum == stratum]
        raise AssayError(
            "PANEL_TOO_SHORT",
            f"{options.input}: stratum {stratum!r} gives {got[stratum]} of {wanted} contexts of {length} tokens "
            f"({len(tokens)} documents, the longest of {max(tokens)} tokens); add text, take a smaller --context-length"
            f"{'' if quotas is None else ' or fewer --contexts'}, or accept it with --allow-shortfall",
        )


def _warnings(options: Options, built: Built, spelled: list[str]) -> list[str]:
    """Everything that a reader of the numbers should know, in the order of the steps."""
    facts, bos, corpus = built.facts, built.bos, built.corpus
    out = [*facts.warnings, *corpus.notes, *text_properties(corpus.documents)[1]]
    if spelled:
        out.append(f"messages of {len(spelled)} chats spell special tokens, which become those tokens: {spelled[0]}")
    if facts.model_context_length and options.context_length > facts.model_context_length:
        out.append(
            f"contexts of {options.context_length} tokens are longer than the model's {facts.model_context_length}"
        )
    start = Counter(context.bos for context in built.order)
    if start["double"]:
        out.append(
            f"double BOS in {start['double']} contexts: their text begins with BOS and --bos always adds another"
        )
    if start["there"] and bos.adds:
        out.append(f"{start['there']} contexts begin with BOS already, so none was added there")
    short = [account for account in built.accounts if not account.contexts and account.tail == account.tokens]
    if short:
        names = ", ".join(f"{account.document.where} ({account.tokens})" for account in short[:NAMED])
        more = f" and {len(short) - NAMED} more (all are in the manifest)" if len(short) > NAMED else ""
        out.append(f"{len(short)} documents are shorter than a context and give nothing; tokens: {names}{more}")
    tail, read = sum(a.tail for a in built.accounts), sum(a.tokens - a.unread for a in built.accounts)
    if tail > read * TAIL_SHARE:
        out.append(
            f"{tail} of {read} tokens lie behind the last whole context of their document and are dropped; a smaller "
            "--context-length uses more of them"
        )
    for account in built.accounts:
        if account.duplicates:
            out.append(
                f"{account.document.where}: {account.duplicates} windows repeat tokens of the suite and were left out"
            )
    unknown = sum(account.unknown for account in built.accounts)
    if unknown:
        out.append(f"{unknown} unknown tokens: this tokenizer cannot write all of the text")
    inside = sum(context.cut_inside for context in built.order)
    if inside:
        out.append(
            f"{inside} contexts end inside a character of several tokens; all its tokens are in the suite or counted"
        )
    clusters = Counter(built.partition.values())
    for label in [ANALYSIS, *built.shares]:
        if clusters[label] < CLUSTERS_FOR_INTERVALS:
            out.append(
                f"partition {label} has {clusters[label]} source clusters, fewer than {CLUSTERS_FOR_INTERVALS}: scores "
                "over it get no confidence interval; add documents from other sources"
            )
    return out


def present_files(out: Path) -> dict[str, bytes]:
    if not out.is_dir():
        return {}
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def check_suite(out: Path, files: dict[str, bytes]) -> None:
    """CHECK_FAILED unless the folder holds exactly these files."""
    present = present_files(out)
    different = sorted(name for name in present.keys() | files.keys() if present.get(name) != files.get(name))
    if different:
        raise AssayError("CHECK_FAILED", f"{out}: differs in {len(different)} files: {', '.join(different[:5])}")


def write_suite(out: Path, files: dict[str, bytes]) -> bool:
    """Writes the folder as a whole. False: it held this suite already. OUT_EXISTS when it holds anything else."""
    if out.exists():
        present = present_files(out)
        if present == files:
            return False
        if not out.is_dir() or present or any(out.iterdir()):
            raise AssayError(
                "OUT_EXISTS",
                f"{out}: holds something else already, and nothing is overwritten; name another folder or remove "
                "this one",
            )
    new = out.with_name(out.name + ".new")
    if new.exists():
        shutil.rmtree(new)  # left by an interrupted run
    (new / "tokens").mkdir(parents=True)
    for name, data in files.items():
        (new / name).write_bytes(data)
    os.replace(new, out)  # an empty folder may stand there
    return True
