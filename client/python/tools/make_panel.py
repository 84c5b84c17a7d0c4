#!/usr/bin/env python3
"""Build a measurement suite (manifest and token files) from a folder of texts.

The corpus is laid out as <corpus>/<stratum>/<document>.txt, UTF-8. Every document is one source cluster, the unit
that the bootstrap resamples and that the analysis/qualification split keeps together. The tokenizer is read from the
GGUF itself, so the suite belongs to exactly that file; the manifest names it by digest and by base name only.

The result has the published form `qwen38-distribution-fidelity/6` and follows its rules to the letter: windows by
probing, split and order from one seed. It depends on the corpus, the GGUF and the options alone: the same inputs give
the same bytes. It exists for deploy/panel; a panel of your own is made by `assay-suite build` (docs/guides/panel.md).

  make_panel.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --corpus deploy/panel/corpus --out deploy/panel/suite

Needs the PyPI package `tokenizers`, and the package beside it (client/python/src), installed or not.
"""
from __future__ import annotations

import argparse
import json
import random
import sys
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from assay._files import sha256_bytes  # noqa: E402
from assay.errors import AssayError  # noqa: E402
from assay.suite.builder import check_suite, present_files  # noqa: E402
from assay.suite.builder import stratum_quotas  # noqa: E402
from assay.suite.manifest import suite_digest  # noqa: E402
from assay.suite.tokenizer_file import load_tokenizer  # noqa: E402
from assay.suites import token_file_bytes  # noqa: E402

SCHEMA = "qwen38-distribution-fidelity/6"
SHINGLE_WORDS = 12
DEFAULT_NOTE = "Short original texts written for this panel. No calibration text and no prior suite exist."
NORMALIZATION = "NFKC, casefold, words of alphanumerics and underscore, one token per Han or Kana character"

# Code points that count as one word each: Han, Kana, half-width Kana.
SINGLE_CHARACTER_WORDS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0x20000, 0x323AF),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0xFF66, 0xFF9D),
)


class PanelError(AssayError):
    """The inputs do not allow the suite that was asked for."""

    def __init__(self, message: str) -> None:
        super().__init__("INPUT_INVALID", message)


# ---------------------------------------------------------------- model


@dataclass
class Model:
    name: str
    sha256: str
    hidden_size: int
    vocab_size: int
    tokenizer: object


def load_model(path: Path) -> Model:
    """Sizes and tokenizer of a GGUF. Control tokens are parsed where they stand in the text; no BOS is added."""
    vocabulary = load_tokenizer(path)
    facts = vocabulary.facts
    return Model(facts.file, facts.sha256, facts.hidden_size, facts.vocab_size, vocabulary.tokenizer)


# ---------------------------------------------------------------- corpus


def lexical_words(text: str) -> list[str]:
    """The words that contamination scans count (12 in a row make one shingle)."""
    words: list[str] = []
    current: list[str] = []

    def flush() -> None:
        if current:
            words.append("".join(current))
            current.clear()

    for character in unicodedata.normalize("NFKC", text).casefold():
        point = ord(character)
        if any(low <= point <= high for low, high in SINGLE_CHARACTER_WORDS):
            flush()
            words.append(character)
        elif character.isalnum() or character == "_":
            current.append(character)
        elif current and unicodedata.category(character)[0] == "M":
            current.append(character)
        else:
            flush()
    flush()
    return words


@dataclass
class Document:
    name: str
    stratum: str
    file: str
    text: str
    meta: dict


def read_corpus(root: Path) -> dict[str, list[Document]]:
    """Strata in sorted order, each with its documents sorted by file name."""
    if not root.is_dir():
        raise PanelError(f"corpus folder not found: {root}")
    corpus: dict[str, list[Document]] = {}
    owner: dict[str, str] = {}
    for folder in sorted((p for p in root.iterdir() if p.is_dir()), key=lambda p: p.name):
        documents = []
        for path in sorted(folder.iterdir(), key=lambda p: p.name):
            if path.suffix != ".txt" or not path.is_file():
                raise PanelError(f"{folder.name}/{path.name}: only .txt files may stand in a stratum folder")
            if path.stem in owner:
                raise PanelError(f"document name {path.stem} occurs in {owner[path.stem]} and in {folder.name}")
            owner[path.stem] = folder.name
            raw = path.read_bytes()
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise PanelError(f"{folder.name}/{path.name}: not UTF-8 ({error})") from None
            words = len(lexical_words(text))
            meta = {
                "stratum": folder.name,
                "file": path.name,
                "bytes": len(raw),
                "sha256": sha256_bytes(raw),
                "lexical_tokens": words,
                "lexical_shingles": max(0, words - SHINGLE_WORDS + 1),
            }
            documents.append(Document(path.stem, folder.name, path.name, text, meta))
        corpus[folder.name] = documents
    if not corpus:
        raise PanelError(f"no stratum folders in {root}")
    return corpus


# ---------------------------------------------------------------- windows


@dataclass
class Context:
    document: Document
    window: int
    start: int
    end: int
    ids: list[int]
    digest: str


@dataclass
class Counters:
    windows: int = 0
    characters: int = 0
    retries: int = 0
    tails: int = 0
    duplicates: int = 0


class WindowCursor:
    """Cuts one document into adjacent windows of `length` tokens."""

    def __init__(self, document: Document, length: int, tokenizer, counters: Counters):
        self.document = document
        self.length = length
        self.tokenizer = tokenizer
        self.counters = counters
        self.position = 0
        self.window = 0
        self.probe = 4 * length

    @property
    def exhausted(self) -> bool:
        return self.position >= len(self.document.text)

    def next(self) -> Context | None:
        """The next window, or None when the rest of the document is too short for one."""
        text, start = self.document.text, self.position
        remaining = len(text) - start
        encoding = self._encode(start)
        while len(encoding.ids) < self.length and self.probe < remaining:
            self.probe = min(2 * self.probe, remaining)
            self.counters.retries += 1
            encoding = self._encode(start)
        if len(encoding.ids) < self.length:
            self.counters.tails += 1
            return None
        consumed = encoding.offsets[self.length - 1][1]
        ids = list(encoding.ids[: self.length])
        context = Context(self.document, self.window, start, start + consumed, ids, sha256_bytes(token_file_bytes(ids)))
        self.counters.windows += 1
        self.counters.characters += consumed
        self.position = context.end
        self.window += 1
        self.probe = consumed + max(64, consumed // 16)
        return context

    def _encode(self, start: int):
        return self.tokenizer.encode(self.document.text[start : start + self.probe], add_special_tokens=False)


def select_contexts(corpus, quotas, length, tokenizer, counters: Counters) -> list[Context]:
    """Round-robin over the documents of a stratum, one window per document and round, until its quota is met."""
    chosen: list[Context] = []
    seen: set[str] = set()
    for stratum, documents in corpus.items():
        cursors = [WindowCursor(document, length, tokenizer, counters) for document in documents]
        found = 0
        while cursors and found < quotas[stratum]:
            alive = []
            for place, cursor in enumerate(cursors):
                if found == quotas[stratum]:
                    alive.extend(cursors[place:])
                    break
                context = cursor.next()
                if context is None:
                    continue
                if context.digest in seen:
                    counters.duplicates += 1
                else:
                    seen.add(context.digest)
                    chosen.append(context)
                    found += 1
                if not cursor.exhausted:
                    alive.append(cursor)
            cursors = alive
        if found < quotas[stratum]:
            raise PanelError(f"stratum {stratum}: {found} contexts of {length} tokens, {quotas[stratum]} needed")
    chosen.sort(key=lambda c: (c.document.stratum, c.window, c.document.file))
    return chosen


# ---------------------------------------------------------------- split


@dataclass
class Split:
    order: list[Context]
    qualification: set[str]
    sentinels: set[int] = field(default_factory=set)


def split_contexts(contexts: list[Context], quotas, fraction: float, sentinels: int, seed: int) -> Split:
    """Seeded: whole clusters go to qualification, then the order is shuffled, then sentinels are drawn.

    All three steps draw from one generator, in this order.
    """
    generator = random.Random(seed)
    qualification: set[str] = set()
    for stratum, quota in quotas.items():
        sizes: dict[str, int] = {}
        for context in contexts:
            if context.document.stratum == stratum:
                sizes[context.document.name] = sizes.get(context.document.name, 0) + 1
        names = sorted(sizes)
        generator.shuffle(names)
        taken = 0
        for name in names[:-1]:  # one cluster of every stratum always stays in analysis
            if taken >= quota * fraction:
                break
            qualification.add(name)
            taken += sizes[name]
    order = list(contexts)
    generator.shuffle(order)
    analysis = [place for place, context in enumerate(order) if context.document.name not in qualification]
    drawn = set(generator.sample(analysis, min(sentinels, len(analysis))))
    return Split(order, qualification, drawn)


# ---------------------------------------------------------------- manifest


def index_rows(split: Split, length: int) -> list[dict]:
    rows = []
    for place, context in enumerate(split.order):
        rows.append(
            {
                "index": place,
                "stratum": context.document.stratum,
                "source_cluster": context.document.name,
                "source_window_index": context.window,
                "source_char_start": context.start,
                "source_char_end": context.end,
                "file": f"tokens/context-{place:04d}.json",
                "tokens": length,
                "token_sha256": context.digest,
                "calibration_shingle_hits": 0,
                "partition": "qualification" if context.document.name in split.qualification else "analysis",
                "sentinel": place in split.sentinels,
            }
        )
    return rows


def build_manifest(options, model: Model, corpus, quotas, split: Split, counters: Counters) -> dict:
    length = options.length
    documents = [document for group in corpus.values() for document in group]
    emitted = {context.document.name: context.document for context in split.order}
    rows = index_rows(split, length)
    partition_of = [row["partition"] for row in rows]

    manifest: dict = {
        "schema": SCHEMA,
        "model": model.name,
        "model_identity": {
            "tokenizer_sha256": model.sha256,
            "config_sha256": model.sha256,
            "trust_remote_code": False,
        },
        "context_length": length,
        "scored_positions_per_context": length - 1,
        "contexts_requested": options.contexts,
        "allow_shortfall": False,
        "contexts": len(rows),
        "total_scored_positions": len(rows) * (length - 1),
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "corpus": options.corpus.resolve().name,
        "corpus_note": options.note,
    }
    manifest["windowing"] = {
        "selection": "sorted documents, round-robin within the stratum, one window per document and round",
        "file_reads": "once per document",
        "tokenizer_offsets": "tokenizers library offsets",
        "cursor_advance": "to the character end of the last token of the window",
        "candidate_windows_adjacent": True,
        "candidate_windows_non_overlapping": True,
        "rejected_candidates_create_disclosed_window_index_gaps": True,
        "initial_probe_characters": 4 * length,
        "next_probe_policy": "consumed + max(64, consumed div 16)",
        "candidate_windows_tokenized": counters.windows,
        "candidate_source_characters_consumed": counters.characters,
        "offset_probe_retries": counters.retries,
        "incomplete_document_tails": counters.tails,
        "context_index_span_fields": ["source_window_index", "source_char_start", "source_char_end"],
    }
    manifest["document_scan"] = {
        "policy": "no calibration text, so nothing to exclude",
        "input_glob": "<stratum>/*.txt",
        "decoding": "strict UTF-8",
        "normalization": NORMALIZATION,
        "shingle_words": SHINGLE_WORDS,
        "stride_words": 1,
        "digest": "blake2b-128",
        "documents_discovered": len(documents),
        "documents_scanned": len(documents),
        "lexical_shingles_scanned": sum(document.meta["lexical_shingles"] for document in documents),
        "documents_excluded_calibration_overlap": 0,
        "documents_excluded_prior_whole_source": 0,
        "documents_excluded_by_both": 0,
        "documents_excluded_any_reason": 0,
        "documents_eligible": len(documents),
        "excluded_documents": [],
    }
    manifest["prior_suite_exclusion"] = {
        "token_hash": {
            "algorithm": "SHA-256",
            "serialization": "JSON array of ids, comma and space between, ASCII",
        },
        "whole_source": None,
        "token_only": None,
        "excluded_token_hashes_total": 0,
        "candidate_contexts_rejected_exact_token_hash": {"whole_source": 0, "token_only": 0},
        "candidate_contexts_rejected_duplicate_current_suite": counters.duplicates,
    }
    manifest["source_reuse_disclosure"] = {
        "token_only_exclusion_enabled": False,
        "policy": "no prior suite",
        "matching_prior_source_documents_present_in_corpus": [],
        "matching_prior_source_documents_emitted": [],
        "contexts_emitted_from_matching_prior_source_documents": 0,
    }
    manifest["contamination_scan"] = {
        "shingle_words": SHINGLE_WORDS,
        "stride_words": 1,
        "digest": "blake2b-128",
        "normalization": NORMALIZATION,
        "calibration_shingles": 0,
        "calibration_sources": [],
        "document_policy": "none",
        "emitted_context_policy": "none",
        "decoded_candidates_rejected": 0,
        "decoded_candidate_hits_rejected": 0,
        "contexts_with_any_hit": 0,
        "total_hits": 0,
    }
    manifest["partitions"] = {
        "analysis": partition_of.count("analysis"),
        "qualification": partition_of.count("qualification"),
        "sentinels": len(split.sentinels),
    }
    manifest["strata"] = dict(quotas)
    manifest["source_clusters"] = len(emitted)
    manifest["cluster_partition"] = {
        "analysis": sorted(emitted.keys() - split.qualification),
        "qualification": sorted(split.qualification),
        "overlap": [],
    }
    manifest["documents"] = [[name, emitted[name].meta] for name in sorted(emitted)]
    manifest["context_index"] = rows
    manifest["suite_token_sha256"] = suite_digest(rows)
    return manifest


def build_suite(options) -> dict[str, bytes]:
    """All files of the suite by relative name."""
    model = load_model(options.gguf)
    corpus = read_corpus(options.corpus)
    quotas = stratum_quotas(list(corpus), options.contexts)
    counters = Counters()
    contexts = select_contexts(corpus, quotas, options.length, model.tokenizer, counters)
    split = split_contexts(contexts, quotas, options.fraction, options.sentinels, options.seed)
    manifest = build_manifest(options, model, corpus, quotas, split, counters)
    files = {"suite-manifest.json": json.dumps(manifest, indent=2).encode("ascii")}
    for row, context in zip(manifest["context_index"], split.order):
        files[row["file"]] = token_file_bytes(context.ids)
    return files


# ---------------------------------------------------------------- command line


def write_suite(out: Path, files: dict[str, bytes]) -> None:
    strays = sorted(present_files(out).keys() - files.keys())
    if strays:
        raise PanelError(f"{out} holds files that are not part of this suite: {', '.join(strays[:5])}")
    (out / "tokens").mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (out / name).write_bytes(data)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True, help="GGUF file that supplies tokenizer and sizes")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of <stratum>/<document>.txt")
    parser.add_argument("--out", type=Path, required=True, help="suite folder to write (or to compare, with --check)")
    parser.add_argument("--length", type=int, default=128, help="tokens per context (default %(default)s)")
    parser.add_argument("--contexts", type=int, default=56,
                        help="contexts in all, shared evenly among the strata (default %(default)s)")
    parser.add_argument("--sentinels", type=int, default=8,
                        help="analysis contexts marked as sentinels (default %(default)s)")
    parser.add_argument("--seed", type=int, default=20261130,
                        help="seed of split, order and sentinels (default %(default)s)")
    parser.add_argument("--fraction", type=float, default=0.25,
                        help="share of every stratum that goes to qualification, in whole clusters "
                             "(default %(default)s)")
    parser.add_argument("--note", default=DEFAULT_NOTE, help="text of the manifest's corpus_note")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; fail unless --out already holds exactly this suite")
    options = parser.parse_args(arguments)
    if options.length < 2:
        parser.error("--length must be at least 2")
    if options.contexts < 1:
        parser.error("--contexts must be at least 1")
    if options.sentinels < 0:
        parser.error("--sentinels must not be negative")
    if not 0 <= options.fraction < 1:
        parser.error("--fraction must lie in [0, 1)")
    if not options.gguf.is_file():
        parser.error(f"--gguf: no such file: {options.gguf}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        files = build_suite(options)
        (check_suite if options.check else write_suite)(options.out, files)
    except AssayError as error:
        print(f"make_panel: {error}", file=sys.stderr)
        return 1
    manifest = json.loads(files["suite-manifest.json"])
    summary = ("contexts", "source_clusters", "total_scored_positions", "partitions", "strata", "suite_token_sha256")
    print(json.dumps({key: manifest[key] for key in summary}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
