"""SentencePiece BPE as llama.cpp applies it (llm_tokenizer_spm in src/llama-vocab.cpp): of all neighbouring symbols
that together are a token, those of the highest score are joined first, at equal scores the leftmost; symbols that are
no token at the end become byte tokens.
"""

from __future__ import annotations

import heapq
import re
from array import array

from ..errors import AssayError
from .vocabulary import Encoding, Facts, Vocabulary

BLANK = "\u2581"
Word = list[tuple[int, int, bool]]  # id, characters that begin in it, whether a cut behind it falls inside a character


class SentencePieceVocabulary(Vocabulary):
    def __init__(
        self, facts: Facts, ids: dict[str, int], scores: list[float], control: list[str], user: list[str], prefix: bool
    ) -> None:
        self.facts = facts
        self.ids = ids
        self.scores = scores
        self.prefix = prefix
        self.always = _alternatives(user)
        self.all_special = _alternatives(user + control)
        self.bytes = [ids.get(f"<0x{value:02X}>") for value in range(256)]
        if None in self.bytes:
            raise AssayError("TOKENIZER_INVALID", f"{facts.file}: not all 256 byte tokens are there")
        # Where no token goes on over a blank, text falls apart before blanks without changing any merge.
        crossing = any(re.search(f"[^{BLANK}]{BLANK}", piece) for piece in ids if piece not in set(control + user))
        self.words = re.compile(r"(?s).+" if crossing else f"{BLANK}+[^{BLANK}]*|[^{BLANK}]+")
        self.cache: dict[str, Word] = {}

    def encode(self, text: str, parse_special: bool) -> Encoding:
        pattern = self.all_special if parse_special else self.always
        ids, ends = array("i"), array("i")
        inside: set[int] = set()
        at, after_special = 0, True
        while at < len(text):
            match = pattern.search(text, at) if pattern else None
            stop = match.start() if match else len(text)
            if stop > at:
                self._fragment(text[at:stop], at, self.prefix and after_special, ids, ends, inside)
                after_special = False
            at = stop
            if match:
                at = match.end()
                ids.append(self.ids[match.group()])
                ends.append(at)
                after_special = True
        return Encoding(ids, ends, frozenset(inside))

    def _fragment(
        self, text: str, base: int, prefix: bool, ids: array[int], ends: array[int], inside: set[int]
    ) -> None:
        end = base - prefix  # the added blank stands for no character of the text
        for word in self.words.findall((" " * prefix + text).replace(" ", BLANK)):
            tokens = self.cache.get(word)
            if tokens is None:
                tokens = self.cache[word] = self._merge(word)
            for number, characters, splits in tokens:
                end += characters
                if splits:
                    inside.add(len(ids))
                ids.append(number)
                ends.append(end)

    def _merge(self, word: str) -> Word:
        pieces: list[str] = list(word)
        following = list(range(1, len(pieces))) + [-1]
        previous = [place - 1 for place in range(len(pieces))]
        queue: list[tuple[float, int, int, int]] = []

        def offer(left: int, right: int) -> None:
            if left < 0 or right < 0:
                return
            number = self.ids.get(pieces[left] + pieces[right])
            if number is not None:
                heapq.heappush(queue, (-self.scores[number], left, right, len(pieces[left]) + len(pieces[right])))

        for place in range(1, len(pieces)):
            offer(place - 1, place)
        while queue:
            _, left, right, size = heapq.heappop(queue)
            if not pieces[left] or not pieces[right] or len(pieces[left]) + len(pieces[right]) != size:
                continue
            pieces[left] += pieces[right]
            pieces[right] = ""
            following[left] = following[right]
            if following[right] >= 0:
                previous[following[right]] = left
            offer(previous[left], left)
            offer(left, following[left])
        out: Word = []
        for piece in filter(None, pieces):
            number = self.ids.get(piece)
            if number is not None:
                out.append((number, len(piece), False))
                continue
            data = piece.encode("utf-8")  # one character: all that joined is a token
            for place, value in enumerate(data):
                out.append((self._byte(value), int(place == 0), place + 1 < len(data)))
        return out

    def _byte(self, value: int) -> int:
        number = self.bytes[value]
        assert number is not None
        return number


def _alternatives(texts: list[str]) -> re.Pattern[str] | None:
    """Leftmost, then longest: llama.cpp takes the longest first, which differs only where special texts overlap."""
    ordered = sorted({text for text in texts if text}, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None
