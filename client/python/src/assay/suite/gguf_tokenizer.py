"""The tokenizer inside a GGUF file, set up from its metadata.

Byte-level BPE (`tokenizer.ggml.model` gpt2) whose pre-tokenizer is known, and SentencePiece BPE (llama). Others are
refused by name. Control tokens (type 3) are parsed on request; user-defined ones (type 4) always, as llama.cpp does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._files import canonical_sha256, sha256_file
from ..errors import AssayError
from .gguf_metadata import Metadata
from .library_tokenizer import LibraryVocabulary, with_bos_token
from .packages import need
from .pretokenizers import KNOWN
from .sentencepiece import SentencePieceVocabulary
from .vocabulary import Facts, Vocabulary

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4  # tokenizer.ggml.token_type


def load_gguf(path: Path, bos_token: str | None) -> Vocabulary:
    """TOKENIZER_INVALID, TOKENIZER_UNSUPPORTED and BOS_UNKNOWN name the file."""
    metadata = Metadata(path)
    model = str(metadata.need("tokenizer.ggml.model"))
    if model == "gpt2":
        return _byte_level(metadata, bos_token)
    if model == "llama":
        return _sentence_piece(metadata, bos_token)
    raise AssayError(
        "TOKENIZER_UNSUPPORTED",
        f"{path}: tokenizer model {model!r} is not built from GGUF metadata, only gpt2 (byte-level BPE) and llama "
        "(SentencePiece BPE) are; give the model's tokenizer.json instead, or token ids",
    )


def _byte_level(metadata: Metadata, bos_token: str | None) -> Vocabulary:
    path = metadata.path
    name = metadata.get("tokenizer.ggml.pre")
    if name not in KNOWN:
        stated = "no tokenizer.ggml.pre" if name is None else f"pre-tokenizer {str(name)!r}"
        raise AssayError(
            "TOKENIZER_UNSUPPORTED",
            f"{path}: {stated}: how its text is cut is not known here, and a guess would give plausible but wrong "
            f"tokens; give the model's tokenizer.json instead. Known: {', '.join(sorted(KNOWN))}",
        )
    pre = KNOWN[name]
    tokenizers = need("tokenizers", "a GGUF tokenizer")
    pieces, types = metadata.need("tokenizer.ggml.tokens"), metadata.need("tokenizer.ggml.token_type")
    ids = {piece: number for number, piece in enumerate(pieces)}
    merges = metadata.need("tokenizer.ggml.merges")
    split = tokenizers.pre_tokenizers
    try:
        model = tokenizers.models.BPE(
            vocab=ids, merges=[tuple(rule.split(" ", 1)) for rule in merges], ignore_merges=pre.ignore_merges
        )
    except Exception as error:  # the library raises bare Exception
        raise AssayError("TOKENIZER_INVALID", f"{path}: its merges do not fit its tokens ({error})") from None
    tokenizer = tokenizers.Tokenizer(model)
    cuts = [split.Split(tokenizers.Regex(expression), "isolated") for expression in pre.expressions]
    tokenizer.pre_tokenizer = split.Sequence([*cuts, split.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    added = tokenizers.AddedToken
    control = [piece for piece, kind in zip(pieces, types) if kind in (CONTROL, UNKNOWN)]
    tokenizer.add_special_tokens([added(piece, special=True, normalized=False) for piece in control])
    user = [piece for piece, kind in zip(pieces, types) if kind == USER_DEFINED]
    tokenizer.add_tokens([added(piece, special=False, normalized=False) for piece in user])
    details = {
        "model": "gpt2",
        "pre": name,
        "expressions": list(pre.expressions),
        "ignore_merges": pre.ignore_merges,
        "vocabulary_sha256": canonical_sha256([name, pieces, types, merges]),
    }
    facts = _facts(metadata, details, default_bos=pre.adds_bos)
    return LibraryVocabulary(tokenizer, with_bos_token(facts, ids, bos_token), _bytes_without_token(ids))


def _bytes_without_token(ids: dict[str, int]) -> frozenset[int]:
    """Bytes that merging would drop without a word; their characters are those of GPT-2's byte alphabet."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [value for value in range(256) if value not in set(plain)]
    symbols = {value: chr(value) for value in plain} | {value: chr(256 + n) for n, value in enumerate(shifted)}
    return frozenset(value for value, symbol in symbols.items() if symbol not in ids)


def _sentence_piece(metadata: Metadata, bos_token: str | None) -> Vocabulary:
    path = metadata.path
    architecture = str(metadata.need("general.architecture"))
    if architecture == "phi3":
        raise AssayError(
            "TOKENIZER_UNSUPPORTED",
            f"{path}: special tokens of phi3 swallow the blanks behind them, which its metadata does not say; give the "
            "model's tokenizer.json instead",
        )
    pieces, types = metadata.need("tokenizer.ggml.tokens"), metadata.need("tokenizer.ggml.token_type")
    scores = metadata.need("tokenizer.ggml.scores")
    if metadata.get("tokenizer.ggml.remove_extra_whitespaces"):
        raise AssayError(
            "TOKENIZER_UNSUPPORTED",
            f"{path}: remove_extra_whitespaces is set, which is not done here; give the model's tokenizer.json instead",
        )
    prefix = metadata.get("tokenizer.ggml.add_space_prefix")
    prefix = True if prefix is None else bool(prefix)
    details = {
        "model": "llama",
        "pre": metadata.get("tokenizer.ggml.pre"),
        "add_space_prefix": prefix,
        "vocabulary_sha256": canonical_sha256([prefix, pieces, types, [float(score) for score in scores]]),
    }
    control = [piece for piece, kind in zip(pieces, types) if kind in (CONTROL, UNKNOWN)]
    user = [piece for piece, kind in zip(pieces, types) if kind == USER_DEFINED]
    ids = {piece: number for number, piece in enumerate(pieces)}
    facts = with_bos_token(_facts(metadata, details, default_bos=True), ids, bos_token)
    return SentencePieceVocabulary(facts, ids, [float(score) for score in scores], control, user, prefix)


def _facts(metadata: Metadata, details: dict[str, Any], default_bos: bool) -> Facts:
    path = metadata.path
    pieces, types = metadata.need("tokenizer.ggml.tokens"), metadata.need("tokenizer.ggml.token_type")
    architecture = str(metadata.need("general.architecture"))

    def token(key: str) -> tuple[int | None, str | None]:
        number = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if number is None or not 0 <= int(number) < len(pieces):
            return None, None
        return int(number), str(pieces[int(number)])

    def size(key: str) -> int | None:
        value = metadata.get(f"{architecture}.{key}")
        return None if value is None else int(value)

    said = metadata.get("tokenizer.ggml.add_bos_token")
    digest = sha256_file(path)
    bos_id, bos_text = token("bos")
    return Facts(
        kind="gguf",
        file=path.name,
        sha256=digest,
        vocab_size=len(pieces),
        bos_id=bos_id,
        bos_text=bos_text,
        adds_bos=default_bos if said is None else bool(said),
        adds_bos_from="default of this tokenizer in llama.cpp" if said is None else "tokenizer.ggml.add_bos_token",
        eos_text=token("eos")[1],
        hidden_size=size("embedding_length"),
        model_context_length=size("context_length"),
        config_sha256=digest,
        chat_template=metadata.get("tokenizer.chat_template"),
        special_ids=frozenset(number for number, kind in enumerate(types) if kind == CONTROL),
        special_texts=tuple(piece for piece, kind in zip(pieces, types) if kind == CONTROL),
        unknown_id=token("unknown")[0],
        details=details,
    )
