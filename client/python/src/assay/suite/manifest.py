"""The suite's files: the manifest in the published form, with a block `build` that says how it was made, and tokens."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .._files import sha256_bytes
from ..suites import MANIFEST_NAME, token_file_bytes
from .chat import Template
from .documents import Corpus, Document, cluster_meta, text_properties
from .partition import ANALYSIS
from .vocabulary import Facts
from .windows import Account, Bos, Context

SCHEMA = "qwen38-distribution-fidelity/6"
FORM = "assay-suite/1"  # of the block `build`


@dataclass(frozen=True)
class Built:
    """Everything that a suite's bytes depend on."""

    name: str  # of the input, its base name
    note: str
    length: int
    requested: int | None
    allow_shortfall: bool
    special: str
    seed: int
    shares: dict[str, float]
    facts: Facts
    bos: Bos
    template: Template | None
    corpus: Corpus
    accounts: list[Account]
    order: list[Context]
    partition: dict[str, str]
    sentinels: set[int]


def token_file_name(place: int) -> str:
    return f"tokens/context-{place:04d}.json"


def suite_files(manifest: dict[str, Any], order: list[Context]) -> dict[str, bytes]:
    files = {MANIFEST_NAME: json.dumps(manifest, indent=2).encode("ascii")}
    for row, context in zip(manifest["context_index"], order):
        files[row["file"]] = token_file_bytes(context.ids)
    return files


def suite_digest(rows: list[dict[str, Any]]) -> str:
    return sha256_bytes("".join(row["token_sha256"] for row in rows).encode("ascii"))


def _row(built: Built, place: int, context: Context, parts: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "index": place,
        "stratum": context.document.stratum,
        "source_cluster": context.document.cluster,
        "source_window_index": context.window,
        "source_char_start": context.start,
        "source_char_end": context.end,
        "file": token_file_name(place),
        "tokens": built.length,
        "token_sha256": context.digest,
        "partition": built.partition[context.document.cluster],
        "sentinel": place in built.sentinels,
    }
    if parts > 1:
        row["source_part"] = context.document.where
    return row


def build_manifest(built: Built) -> dict[str, Any]:
    facts, length = built.facts, built.length
    labels = [ANALYSIS, *built.shares]
    members: dict[str, list[Document]] = {}
    for document in built.corpus.documents:
        members.setdefault(document.cluster, []).append(document)
    rows = [_row(built, place, c, len(members[c.document.cluster])) for place, c in enumerate(built.order)]
    in_partition = Counter(row["partition"] for row in rows)

    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "model": facts.file,
        "model_identity": {
            "tokenizer_sha256": facts.sha256,
            "config_sha256": facts.config_sha256,
            "trust_remote_code": False,
        },
        "context_length": length,
        "scored_positions_per_context": length - 1,
        "contexts_requested": len(rows) if built.requested is None else built.requested,
        "allow_shortfall": built.allow_shortfall,
        "contexts": len(rows),
        "total_scored_positions": len(rows) * (length - 1),
    }
    if facts.hidden_size:
        manifest["hidden_size"] = facts.hidden_size
    manifest["vocab_size"] = facts.vocab_size
    manifest["corpus"] = built.name
    manifest["corpus_note"] = built.note
    manifest["build"] = _build_record(built)
    manifest["partitions"] = {label: in_partition[label] for label in labels} | {"sentinels": len(built.sentinels)}
    manifest["strata"] = dict(sorted(Counter(row["stratum"] for row in rows).items()))
    manifest["source_clusters"] = len(built.partition)
    manifest["cluster_partition"] = {
        label: sorted(name for name, own in built.partition.items() if own == label) for label in labels
    } | {"overlap": []}
    manifest["documents"] = [[name, cluster_meta(members[name])] for name in sorted(built.partition)]
    manifest["context_index"] = rows
    manifest["suite_token_sha256"] = suite_digest(rows)
    return manifest


def _build_record(built: Built) -> dict[str, Any]:
    facts, bos = built.facts, built.bos
    at_start = Counter(context.bos for context in built.order)
    properties, _ = text_properties(built.corpus.documents)
    step = built.length - bos.adds
    rule = f"the tokens of each whole document, cut every {step}"
    total = {
        key: sum(getattr(account, key) for account in built.accounts)
        for key in ("tokens", "special", "unknown", "contexts", "duplicates", "tail", "unread")
    }
    return {
        "form": FORM,
        "input": {"form": built.corpus.form, "documents": len(built.corpus.documents)}
        | built.corpus.record
        | properties,
        "tokenizer": {"kind": facts.kind, "file": facts.file, "sha256": facts.sha256} | facts.details,
        "special_tokens_in_text": built.special,
        "special_tokens_found": total["special"],
        "unknown_tokens": total["unknown"],
        "bos": {
            "asked": bos.asked,
            "added": bos.adds,
            "why": bos.why,
            "id": bos.id,
            "token": facts.bos_text,
            "contexts_with_added": at_start["added"] + at_start["double"],
            "contexts_that_had_one": at_start["there"],
            "contexts_with_double": at_start["double"],
        },
        "chat_template": None if built.template is None else built.template.record(),
        "windows": rule + (", each behind one BOS" if bos.adds else ""),
        "windows_cut_inside_a_character": sum(context.cut_inside for context in built.order),
        "tokens": total["tokens"],
        "tail_tokens_dropped": total["tail"],
        "tokens_not_read": total["unread"],
        "duplicate_windows_left_out": total["duplicates"],
        "documents_without_context": [
            [account.document.where, account.tokens] for account in built.accounts if not account.contexts
        ],
        "order": {"rule": "shuffled, then sentinels drawn from analysis, MT19937", "seed": built.seed},
        "hold_out": {
            "rule": "whole clusters of each stratum in the order of SHA-256('hold-out ' + content digest)",
            "fractions": built.shares,
        },
    }
