"""What the builder needs of a tokenizer, whatever file it was read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Encoding(NamedTuple):
    """Tokens of one text. `ends[i]` is the code-point offset behind the last character that token i has a part of."""

    ids: Sequence[int]
    ends: Sequence[int]
    inside: frozenset[int]
    """Tokens i behind which a cut would fall inside a character (several tokens hold its bytes)."""


@dataclass(frozen=True)
class Facts:
    """What a tokenizer file says about itself. None where it says nothing."""

    kind: str  # "gguf" or "tokenizer.json"
    file: str  # base name
    sha256: str  # of the file
    vocab_size: int  # ids are below it
    bos_id: int | None
    bos_text: str | None
    adds_bos: bool
    """Whether texts begin with BOS where nobody asks otherwise."""
    adds_bos_from: str
    """Where that was read."""
    eos_text: str | None = None
    hidden_size: int | None = None
    model_context_length: int | None = None
    config_sha256: str | None = None
    chat_template: str | None = None
    special_ids: frozenset[int] = frozenset()
    """Control tokens: with --special literal their text is ordinary text."""
    special_texts: tuple[str, ...] = ()
    unknown_id: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """Model, pre-tokenizer and expressions, digest of the vocabulary: goes into the manifest."""
    warnings: tuple[str, ...] = ()


class Vocabulary(ABC):
    facts: Facts

    @abstractmethod
    def encode(self, text: str, parse_special: bool) -> Encoding:
        """Tokens of a whole text; nothing is added before or behind. `parse_special`: text that spells a control token
        is that token."""
