"""Tokenizers of the PyPI package `tokenizers`: from a tokenizer.json, or set up from a GGUF's metadata."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._files import read_json, sha256_file
from ..errors import AssayError
from .packages import need
from .vocabulary import Encoding, Facts, Vocabulary


class LibraryVocabulary(Vocabulary):
    def __init__(self, tokenizer: Any, facts: Facts, lost_bytes: frozenset[int] = frozenset()) -> None:
        self.tokenizer = tokenizer
        self.lost_bytes = lost_bytes
        self.facts = facts
        tokenizer.no_truncation()
        tokenizer.no_padding()

    def encode(self, text: str, parse_special: bool) -> Encoding:
        lost = self.lost_bytes and self.lost_bytes.intersection(text.encode("utf-8"))
        if lost:
            raise AssayError(
                "TEXT_INVALID",
                f"byte 0x{min(lost):02X} is no token of {self.facts.file} and would be lost; remove it from the text",
            )
        self.tokenizer.encode_special_tokens = not parse_special
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        ids, offsets = encoded.ids, encoded.offsets
        ends = array("i")
        inside: set[int] = set()
        end = 0
        for place, (start, stop) in enumerate(offsets):
            if place and start < end:
                inside.add(place - 1)
            end = max(end, stop)
            ends.append(end)
        return Encoding(array("i", ids), ends, frozenset(inside))


def load_tokenizer_json(path: Path, bos_token: str | None, config: Path | None) -> LibraryVocabulary:
    """TOKENIZER_INVALID, BOS_UNKNOWN and JSON_INVALID name the file. tokenizer_config.json, chat_template.jinja and
    config.json are read where they stand beside it."""
    tokenizers = need("tokenizers", "a tokenizer.json")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise AssayError(
            "TOKENIZER_INVALID",
            f"{path}: the tokenizers library {tokenizers.__version__} cannot read it ({error}); give the "
            "tokenizer.json that stands beside the model's weights",
        ) from None
    beside = _optional_json(path.with_name("tokenizer_config.json"))
    config_path = config or path.with_name("config.json")
    model_config = _optional_json(config_path) if config is None else read_json(config_path, "model configuration")
    model_config = model_config.get("text_config", model_config)

    bos_id, bos_text = _bos(tokenizer, beside, bos_token, path)
    prefix = tokenizer.encode("", add_special_tokens=True).ids
    adds, source = bool(prefix) and prefix[0] == bos_id, "post-processor of tokenizer.json"
    warnings = []
    said = beside.get("add_bos_token")
    if isinstance(said, bool) and said != adds:
        warnings.append(
            f"tokenizer_config.json says add_bos_token {str(said).lower()}, the post-processor of tokenizer.json "
            f"{'adds' if adds else 'does not add'} BOS; --bos auto follows tokenizer_config.json, as most models do in "
            "transformers"
        )
        adds, source = said and bos_id is not None, "add_bos_token of tokenizer_config.json"
    added = tokenizer.get_added_tokens_decoder()
    vocab_size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    if isinstance(model_config.get("vocab_size"), int):
        vocab_size = max(vocab_size, model_config["vocab_size"])
    facts = Facts(
        kind="tokenizer.json",
        file=path.name,
        sha256=sha256_file(path),
        vocab_size=vocab_size,
        bos_id=bos_id,
        bos_text=bos_text,
        adds_bos=adds,
        adds_bos_from=source,
        eos_text=_text(beside.get("eos_token")),
        hidden_size=_positive(model_config.get("hidden_size")),
        model_context_length=_positive(model_config.get("max_position_embeddings")),
        config_sha256=sha256_file(config_path) if config_path.is_file() else None,
        chat_template=_template(path, beside),
        special_ids=frozenset(number for number, token in added.items() if token.special),
        special_texts=tuple(token.content for token in added.values() if token.special),
        unknown_id=_unknown(tokenizer),
        details={"model": type(tokenizer.model).__name__},
        warnings=tuple(warnings),
    )
    return LibraryVocabulary(tokenizer, facts)


def with_bos_token(facts: Facts, ids: dict[str, int], bos_token: str | None) -> Facts:
    """Facts whose BOS is the token that the user named."""
    if bos_token is None:
        return facts
    if bos_token not in ids:
        raise AssayError("BOS_UNKNOWN", f"{facts.file}: --bos-token {bos_token!r} is no token of it")
    return replace(facts, bos_id=ids[bos_token], bos_text=bos_token)


def _bos(tokenizer: Any, beside: dict[str, Any], asked: str | None, path: Path) -> tuple[int | None, str | None]:
    name = asked or _text(beside.get("bos_token"))
    if name is not None:
        number = tokenizer.token_to_id(name)
        if number is None and asked:
            raise AssayError("BOS_UNKNOWN", f"{path}: --bos-token {asked!r} is no token of it")
        if number is not None:
            return int(number), name
    # Without a name: the special token that the post-processor puts before a text, never one behind it.
    alone = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a", add_special_tokens=True).ids
    if alone and len(full) > len(alone) and full[: len(alone)] != alone:
        return int(full[0]), str(tokenizer.id_to_token(full[0]))
    return None, None


def _unknown(tokenizer: Any) -> int | None:
    name = getattr(tokenizer.model, "unk_token", None)
    number = tokenizer.token_to_id(name) if name else None
    return None if number is None else int(number)


def _template(path: Path, beside: dict[str, Any]) -> str | None:
    stored = path.with_name("chat_template.jinja")
    if stored.is_file():
        return stored.read_text("utf-8")
    template = beside.get("chat_template")
    if isinstance(template, list):  # several by name
        named = {str(entry.get("name")): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json(path, "tokenizer folder") if path.is_file() else {}


def _text(value: Any) -> str | None:
    if isinstance(value, dict):  # an added token spelled out
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _positive(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
