"""Tokenizers small enough to work out by hand: the id of a byte is its value, and only ~~ is merged (id 259)."""

from __future__ import annotations

from pathlib import Path

BOS, MARK, USER = 256, 257, 258  # <s> and <|x|> are control tokens, [user] is user-defined
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


def byte_symbols() -> list[str]:
    """GPT-2's printable stand-ins of the 256 bytes, by value (openai/gpt-2, encoder.py)."""
    keep = list(range(ord("!"), ord("~") + 1)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    symbols, extra = [], 0
    for value in range(256):
        symbols.append(chr(value) if value in keep else chr(256 + extra))
        extra += value not in keep
    return symbols


def write_gguf(
    path: Path,
    *,
    pre: str | None = "gpt-2",
    model: str = "gpt2",
    add_bos: bool | None = None,
    bos: int | None = BOS,
    merges: tuple[str, ...] = (),
    template: str | None = None,
    tokens: list[str] | None = None,
    types: list[int] | None = None,
    scores: list[float] | None = None,
    extra: tuple[str, ...] = ("~~",),
) -> Path:
    """Written with the package gguf, which shares no code with the reader under test."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_embedding_length(64)
    writer.add_context_length(512)
    writer.add_tokenizer_model(model)
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    if tokens is None:
        tokens = [*byte_symbols(), "<s>", "<|x|>", "[user]", *extra]
        types = [NORMAL] * 256 + [CONTROL, CONTROL, USER_DEFINED] + [NORMAL] * len(extra)
    writer.add_token_list(tokens)
    writer.add_token_types(types or [NORMAL] * len(tokens))
    if scores is not None:
        writer.add_token_scores(scores)
    if model == "gpt2":
        writer.add_token_merges(list(merges) or ["~ ~"])
    if bos is not None:
        writer.add_bos_token_id(bos)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    if template is not None:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def bytes_of(text: str) -> list[int]:
    return list(text.encode("utf-8"))
