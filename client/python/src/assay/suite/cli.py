"""The command `assay-suite`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from ..errors import AssayError
from .builder import Options, Result, build_suite, check_suite, write_suite
from .inputs import FORMS
from .partition import ANALYSIS, parse_hold_out
from .split_text import RULES
from .windows import BOS_RULES

REFUSED, INTERRUPTED = 3, 130  # argparse ends with 2 itself

EPILOG = """\
examples:
  assay-suite build texts --tokenizer model.gguf --context-length 2048 --bos auto --out panel
  assay-suite build chats.jsonl --tokenizer hf-folder --context-length 1024 --bos auto --out panel --hold-out test=0.2

INPUT is one of
  a folder   STRATUM/DOCUMENT.txt; each document is a source
  .jsonl     a line is {"text": ...} or {"messages": [...]} or {"ids": [...]}, with "stratum" and "source" if you like
  .json      token ids: [[1, 2, ...], ...] or [{"ids": [...], "stratum": ..., "source": ...}, ...]
  a text     one long text, cut into sections at headings or blank lines
Exit codes: 0 done, 2 bad usage, 3 refused input. docs/guides/panel.md explains every step."""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="assay-suite", description="Make frozen token panels (suites) for assay score.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser(
        "build",
        help="make a suite from your own texts, chats or token ids",
        description="Make a suite from your own texts, chats or token ids. The same inputs give the same bytes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = build.add_argument
    add("input", metavar="INPUT", type=Path, help="folder STRATUM/*.txt, .jsonl, .json of token ids, or a text file")
    add("--tokenizer", metavar="FILE", type=Path, required=True, help="tokenizer.json (or its folder) or a GGUF file")
    add(
        "--context-length",
        metavar="N",
        type=int,
        required=True,
        help="tokens of each context; N - 1 positions are scored",
    )
    add(
        "--bos",
        choices=BOS_RULES,
        required=True,
        help="begin each context with BOS: auto (as the tokenizer does, never twice), always, never",
    )
    add("--out", metavar="DIR", type=Path, required=True, help="folder for the suite; an existing one is never changed")
    add(
        "--special",
        choices=("parse", "literal"),
        default="parse",
        help="text that spells a special token is that token (parse, the default) or ordinary text (literal)",
    )
    add("--chat-template", metavar="FILE", type=Path, help="Jinja template for messages (default: the tokenizer's own)")
    add("--template-date", metavar="YYYY-MM-DD", type=_day, help="the day that a template which writes the date gets")
    add("--input-form", choices=FORMS, dest="form", help="what INPUT is, when its name does not say")
    add(
        "--split",
        choices=RULES,
        default="auto",
        help="where one long text is cut: headings, blocks (at blank lines), none, or auto: headings if there are two",
    )
    add(
        "--contexts", metavar="N", type=int, help="contexts in all, shared evenly among strata (default: all there are)"
    )
    add("--allow-shortfall", action="store_true", help="accept strata that give fewer contexts than asked, or none")
    add(
        "--hold-out",
        metavar="NAME=FRACTION",
        action="append",
        default=[],
        help="set whole sources aside as a partition of this name (may be repeated); the rest is 'analysis'",
    )
    add("--sentinels", metavar="N", type=int, default=8, help="analysis contexts marked for quick checks (default 8)")
    add("--seed", metavar="N", type=int, default=20261130, help="seed of order and sentinels (default %(default)s)")
    add("--bos-token", metavar="TOKEN", help="the BOS token, where the tokenizer does not name one")
    add("--config", metavar="FILE", type=Path, help="config.json of the model (default: the one beside tokenizer.json)")
    add("--note", default="", help="a sentence about the texts, kept in the manifest")
    add("--check", action="store_true", help="write nothing; fail unless --out holds exactly this suite")
    add("--json", action="store_true", help="print one JSON document on standard output")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    top = parser()
    given = top.parse_args(arguments)
    try:
        shares = [parse_hold_out(text) for text in given.hold_out]
    except ValueError as error:
        top.error(f"--hold-out {error}")
    problem = _problem(given, shares)
    if problem:
        top.error(problem)
    values = {key: value for key, value in vars(given).items() if key not in ("command", "out", "check", "json")}
    try:
        result = build_suite(Options(**{**values, "hold_out": dict(shares)}))
        if given.check:
            check_suite(given.out, result.files)
        written = not given.check and write_suite(given.out, result.files)
    except AssayError as error:
        print(f"assay-suite: {error}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"assay-suite: [FILE_IO] {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(json.dumps(_document(result), indent=2) if given.json else "\n".join(_table(result)))
    if not given.json:
        state = "written" if written else "unchanged: it holds this suite already"
        print(f"{given.out}: {state}\nnext: assay suite inspect {given.out}")
    return 0


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day YYYY-MM-DD") from None


def _problem(given: argparse.Namespace, shares: list[tuple[str, float]]) -> str | None:
    if not 2 <= given.context_length <= 1 << 20:
        return "--context-length must lie in 2 to 1048576"
    if given.contexts is not None and not 1 <= given.contexts <= 1 << 20:
        return "--contexts must lie in 1 to 1048576"
    if given.sentinels < 0:
        return "--sentinels must not be negative"
    if len({name for name, _ in shares}) != len(shares):
        return "--hold-out: each name may be given once"
    if sum(share for _, share in shares) >= 1:
        return "--hold-out: the fractions must leave something for analysis"
    if given.input.is_dir() and given.out.resolve().is_relative_to(given.input.resolve()):
        return "--out must not lie inside INPUT, or the next build would read it"
    return None


def _table(result: Result) -> list[str]:
    """Clusters, contexts, scored positions and dropped tokens of each stratum."""
    built, manifest = result.built, result.manifest
    scored = manifest["scored_positions_per_context"]
    rows: list[tuple[str, ...]] = [
        ("STRATUM", "DOCUMENTS", "CLUSTERS", "CONTEXTS", "SCORED POSITIONS", "TAIL TOKENS DROPPED")
    ]
    for stratum in sorted({document.stratum for document in built.corpus.documents}):
        mine = [account for account in built.accounts if account.document.stratum == stratum]
        clusters = {account.document.cluster for account in mine if account.contexts}
        contexts = sum(account.contexts for account in mine)
        tail = sum(account.tail for account in mine)
        rows.append((stratum, *map(str, (len(mine), len(clusters), contexts, contexts * scored, tail))))
    tail = sum(account.tail for account in built.accounts)
    total = (
        len(built.accounts),
        manifest["source_clusters"],
        manifest["contexts"],
        manifest["total_scored_positions"],
        tail,
    )
    rows.append(("all", *map(str, total)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    clusters_of = Counter(built.partition.values())
    for label in [ANALYSIS, *built.shares]:
        lines.append(f"partition {label}: {clusters_of[label]} clusters, {manifest['partitions'][label]} contexts")
    bos, facts = manifest["build"]["bos"], built.facts
    token = f"{facts.bos_text!r} ({bos['id']})" if bos["added"] else "none"
    lines.append(
        f"BOS: {token}, {bos['why']}; special tokens in text: {built.special}, "
        f"{manifest['build']['special_tokens_found']} found"
    )
    unread = manifest["build"]["tokens_not_read"]
    if unread:
        lines.append(f"not used: {unread} tokens, because --contexts was reached")
    lines.append(f"tokens: {manifest['suite_token_sha256']}")
    return lines


def _document(result: Result) -> dict[str, object]:
    keys = (
        "contexts",
        "source_clusters",
        "total_scored_positions",
        "partitions",
        "strata",
        "suite_token_sha256",
        "build",
    )
    return {key: result.manifest[key] for key in keys} | {"warnings": result.warnings}


if __name__ == "__main__":
    sys.exit(main())
