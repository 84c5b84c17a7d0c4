"""Tokenizers of assay-suite: against llama.cpp's tokens of real vocabularies, and against cases worked out by hand.

ASSAY_SMOLLM2_GGUF names SmolLM2-135M-Instruct.Q4_1.gguf; ASSAY_LLAMA_CPP_MODELS names the folder `models` of
llama.cpp's source, which holds vocabularies with test texts and their tokens. Without them those tests are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import unittest
from pathlib import Path

from fixtures import ROOT
from tiny_tokenizers import BOS, BYTE, CONTROL, MARK, NORMAL, USER, bytes_of, byte_symbols, write_gguf

MISSING = [name for name in ("tokenizers", "gguf") if importlib.util.find_spec(name) is None]
SMOLLM2 = os.environ.get("ASSAY_SMOLLM2_GGUF", "")
VOCABULARIES = os.environ.get("ASSAY_LLAMA_CPP_MODELS", "")
DATA = ROOT / "tests" / "data" / "llamacpp"


def load(path: Path, **options: object):  # type: ignore[no-untyped-def]
    from assay.suite.tokenizer_file import load_tokenizer

    return load_tokenizer(path, **options)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class TokensTestCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="assay-py-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, reason: str, *texts: str, path: Path, **options: object) -> None:
        from assay import AssayError

        with self.assertRaises(AssayError) as caught:
            load(path, **options)
        self.assertEqual(caught.exception.reason, reason)
        for text in texts:
            self.assertIn(text, str(caught.exception))


class GgufTokenizer(TokensTestCase):
    def test_special_tokens_parsed_or_literal(self) -> None:
        vocabulary = load(write_gguf(self.folder / "m.gguf"))
        text = "a<|x|>b<s>[user]"
        self.assertEqual(list(vocabulary.encode(text, True).ids), [97, MARK, 98, BOS, USER])
        self.assertEqual(list(vocabulary.encode(text, False).ids), bytes_of("a<|x|>b<s>") + [USER])

    def test_merges_stop_at_the_pretokenizer(self) -> None:
        """The merge a+b holds within a piece only: GPT-2's expression puts a digit apart from letters."""
        vocabulary = load(write_gguf(self.folder / "m.gguf", merges=("a b", "1 1"), extra=("ab", "11")))
        ab, eleven = 259, 260
        self.assertEqual(list(vocabulary.encode("ab a b", True).ids), [ab, 32, 97, 32, 98])
        self.assertEqual(list(vocabulary.encode("ab11", True).ids), [ab, eleven])
        smollm = load(write_gguf(self.folder / "s.gguf", pre="smollm", merges=("a b", "1 1"), extra=("ab", "11")))
        self.assertEqual(list(smollm.encode("ab11", True).ids), [ab, 49, 49])

    def test_whole_pieces_where_merges_are_ignored(self) -> None:
        """llama-bpe takes a piece that is a token as that token, though no merge leads to it."""
        options = {"merges": ("a b",), "extra": ("ab", "xyz")}
        self.assertEqual(
            list(load(write_gguf(self.folder / "l.gguf", pre="llama-bpe", **options)).encode("xyz", True).ids), [260]
        )
        self.assertEqual(
            list(load(write_gguf(self.folder / "q.gguf", pre="qwen2", **options)).encode("xyz", True).ids),
            bytes_of("xyz"),
        )

    def test_offsets_and_characters_of_several_tokens(self) -> None:
        encoding = load(write_gguf(self.folder / "m.gguf")).encode("aé😀", True)
        self.assertEqual(list(encoding.ids), bytes_of("aé😀"))
        self.assertEqual(list(encoding.ends), [1, 2, 2, 3, 3, 3, 3])
        self.assertEqual(encoding.inside, {1, 3, 4, 5})

    def test_what_the_file_says_of_bos(self) -> None:
        for pre, said, expected in (
            ("gpt-2", None, False),
            ("llama-bpe", None, True),
            ("llama-bpe", False, False),
            ("gpt-2", True, True),
        ):
            facts = load(write_gguf(self.folder / "m.gguf", pre=pre, add_bos=said)).facts
            self.assertEqual((facts.adds_bos, facts.bos_id, facts.bos_text), (expected, BOS, "<s>"), (pre, said))
        facts = load(write_gguf(self.folder / "n.gguf", bos=None), bos_token="<|x|>").facts
        self.assertEqual((facts.bos_id, facts.bos_text), (MARK, "<|x|>"))
        self.assertEqual((facts.vocab_size, facts.hidden_size, facts.model_context_length), (260, 64, 512))
        self.refused("BOS_UNKNOWN", "'<no>'", path=self.folder / "n.gguf", bos_token="<no>")

    def test_refusals_name_what_is_unknown(self) -> None:
        self.refused(
            "TOKENIZER_UNSUPPORTED",
            "'made-up'",
            "tokenizer.json",
            "smollm",
            path=write_gguf(self.folder / "a.gguf", pre="made-up"),
        )
        self.refused(
            "TOKENIZER_UNSUPPORTED", "no tokenizer.ggml.pre", path=write_gguf(self.folder / "b.gguf", pre=None)
        )
        self.refused("TOKENIZER_UNSUPPORTED", "'t5'", path=write_gguf(self.folder / "c.gguf", model="t5"))
        self.refused("TOKENIZER_INVALID", "out of vocabulary", path=write_gguf(self.folder / "d.gguf", merges=("a z",)))
        self.refused("FILE_MISSING", "e.gguf", path=self.folder / "e.gguf")
        whole = (self.folder / "a.gguf").read_bytes()
        (self.folder / "f.gguf").write_bytes(whole[: len(whole) // 2])
        self.refused("TOKENIZER_INVALID", "past the end", path=self.folder / "f.gguf")
        (self.folder / "tokenizer.model").write_bytes(b"\x0a\x05SPM")
        self.refused("TOKENIZER_UNSUPPORTED", "SentencePiece", "save_pretrained", path=self.folder / "tokenizer.model")

    def test_bytes_without_a_token_are_not_lost_silently(self) -> None:
        from assay import AssayError

        tokens = [symbol if value != 1 else "unused" for value, symbol in enumerate(byte_symbols())] + ["<s>", "~~"]
        vocabulary = load(write_gguf(self.folder / "m.gguf", tokens=tokens, types=[NORMAL] * 256 + [CONTROL, NORMAL]))
        self.assertEqual(list(vocabulary.encode("\x02", True).ids), [2])
        with self.assertRaisesRegex(AssayError, "byte 0x01 is no token"):
            vocabulary.encode("a\x01b", True)


class MissingPackages(unittest.TestCase):
    def test_the_package_and_how_to_get_it_are_named(self) -> None:
        from unittest import mock

        from assay import AssayError
        from assay.suite.packages import need

        with mock.patch("importlib.import_module", side_effect=ImportError("no")):
            with self.assertRaisesRegex(
                AssayError, "a chat template needs the Python package `jinja2`: pip install jinja2"
            ):
                need("jinja2", "a chat template")


class SentencePiece(TokensTestCase):
    def make(self, pieces: dict[str, float], prefix: bool = True):  # type: ignore[no-untyped-def]
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256)), *pieces]
        types = [2, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces)
        scores = [0.0] * 259 + list(pieces.values())
        path = write_gguf(
            self.folder / "m.gguf", model="llama", pre="default", bos=1, tokens=tokens, types=types, scores=scores
        )
        vocabulary = load(path)
        vocabulary.prefix = prefix
        number = {piece: 259 + place for place, piece in enumerate(pieces)}
        return vocabulary, number

    def test_best_score_first_then_leftmost(self) -> None:
        vocabulary, number = self.make(
            {"▁": -9.0, "a": -8.0, "b": -8.0, "ab": -2.0, "ba": -1.0, "aa": -3.0, "▁a": -5.0}
        )
        piece = {n: p for p, n in number.items()}
        pieces = lambda text: [piece[i] for i in vocabulary.encode(text, True).ids]  # noqa: E731
        self.assertEqual(pieces("bab"), ["▁", "ba", "b"])  # ba scores better than ab
        self.assertEqual(pieces("aaa"), ["▁", "aa", "a"])  # equal scores: the leftmost; aa scores better than ▁a
        self.assertEqual(pieces("a a"), ["▁a", "▁a"])

    def test_bytes_specials_and_offsets(self) -> None:
        vocabulary, number = self.make({"▁": -9.0, "a": -8.0})
        encoding = vocabulary.encode("a<s>é", True)
        blank, a = number["▁"], number["a"]
        self.assertEqual(
            list(encoding.ids), [blank, a, 1, blank, 3 + 0xC3, 3 + 0xA9]
        )  # a blank after a special token too
        self.assertEqual(list(encoding.ends), [0, 1, 4, 4, 5, 5])
        self.assertEqual(encoding.inside, {4})
        self.assertNotIn(1, vocabulary.encode("a<s>", False).ids)
        self.assertTrue(vocabulary.facts.adds_bos)


class TokenizerJson(TokensTestCase):
    def write(self, *, adds_bos: bool = True, truncate: bool = False, **config: object) -> Path:
        from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

        vocab = {symbol: value for value, symbol in enumerate(byte_symbols())}
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.add_special_tokens([AddedToken("<s>"), AddedToken("<|x|>")])
        if adds_bos:
            tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
        if truncate:
            tokenizer.enable_truncation(3)
        tokenizer.save(str(self.folder / "tokenizer.json"))
        for name, value in config.items():
            (self.folder / f"{name}.json").write_text(json.dumps(value))
        return self.folder / "tokenizer.json"

    def test_tokens_bos_and_sizes(self) -> None:
        path = self.write(truncate=True, config={"vocab_size": 320, "hidden_size": 64, "max_position_embeddings": 99})
        for given in (path, self.folder):
            vocabulary = load(given)
            facts = vocabulary.facts
            self.assertEqual((facts.bos_id, facts.bos_text, facts.adds_bos), (BOS, "<s>", True))
            self.assertEqual((facts.vocab_size, facts.hidden_size, facts.model_context_length), (320, 64, 99))
            self.assertEqual(list(vocabulary.encode("ab<|x|>", True).ids), [97, 98, MARK])
            self.assertEqual(list(vocabulary.encode("ab<|x|>", False).ids), bytes_of("ab<|x|>"))

    def test_without_config_the_tokenizer_says_its_size(self) -> None:
        facts = load(self.write(adds_bos=False)).facts
        self.assertEqual((facts.vocab_size, facts.bos_id, facts.adds_bos, facts.hidden_size), (258, None, False, None))

    def test_disagreement_is_said(self) -> None:
        path = self.write(adds_bos=False, tokenizer_config={"bos_token": {"content": "<s>"}, "add_bos_token": True})
        facts = load(path).facts
        self.assertTrue(facts.adds_bos)
        self.assertIn("add_bos_token true", facts.warnings[0])

    def test_damaged(self) -> None:
        (self.folder / "tokenizer.json").write_text('{"model": 3}')
        self.refused("TOKENIZER_INVALID", "tokenizer.json", path=self.folder)


@unittest.skipUnless(Path(SMOLLM2).is_file(), "ASSAY_SMOLLM2_GGUF does not name SmolLM2-135M-Instruct.Q4_1.gguf")
class AgainstLlamaCpp(TokensTestCase):
    """tests/data/llamacpp/panel-tokens.json: llama.cpp's tokens of a text with code, tables, scripts and <|im_end|>."""

    def test_panel_text(self) -> None:
        expected = json.loads((DATA / "panel-tokens.json").read_text("utf-8"))
        text = (DATA / "panel.txt").read_bytes().decode("utf-8")
        vocabulary = load(Path(SMOLLM2))
        plain = list(vocabulary.encode(text, False).ids)
        special = list(vocabulary.encode(text, True).ids)
        self.assertEqual(plain, expected["ids"]["llama_plain"])
        self.assertEqual(special, expected["ids"]["llama_special"])
        # The differences that the file explains: one literal <|im_end|>, and two \n that llama.cpp reads as escapes.
        (change,) = expected["differences"]["llama_plain -> llama_special"]
        at, left, right = change["at"], change["left"], change["right"]
        self.assertEqual(plain[:at] + right + plain[at + len(left) :], special)
        escaped = list(vocabulary.encode(text.replace("\\n", "\n"), False).ids)
        self.assertEqual(len(escaped), expected["counts"]["llama_default_escape"])
        rebuilt = list(plain)
        for change in reversed(expected["differences"]["llama_plain -> llama_default_escape"]):
            rebuilt[change["at"] : change["at"] + len(change["left"])] = change["right"]
        self.assertEqual(escaped, rebuilt)
        # What llama-perplexity scores: the text without its last line end.
        stream = list(vocabulary.encode(text.removesuffix("\n"), False).ids)
        self.assertEqual(stream, plain[:-1])

    def test_two_line_breaks_before_a_digit_are_one_token(self) -> None:
        """Where transformers' GGUF loader, which drops the digit split of `smollm`, gives two."""
        ids = list(load(Path(SMOLLM2)).encode("a\n\n1", True).ids)
        self.assertEqual(len(ids), 3)

    def test_metadata_equals_the_gguf_package(self) -> None:
        from gguf import GGUFReader

        from assay.suite.gguf_metadata import Metadata

        fields = GGUFReader(SMOLLM2).fields
        values = Metadata(Path(SMOLLM2)).values
        keys = {key for key in fields if not key.startswith("GGUF.")}
        self.assertEqual(set(values), keys)
        for key in keys:
            self.assertEqual(values[key], fields[key].contents(), key)


@unittest.skipUnless(VOCABULARIES, "ASSAY_LLAMA_CPP_MODELS does not name the folder models of llama.cpp's source")
class Vocabularies(TokensTestCase):
    NAMES = "gpt-2 llama-bpe qwen2 qwen35 deepseek-coder falcon mpt starcoder refact command-r llama-spm".split()

    def test_every_text(self) -> None:
        for name in self.NAMES:
            path = Path(VOCABULARIES) / f"ggml-vocab-{name}.gguf"
            vocabulary = load(path)
            texts = path.with_name(path.name + ".inp").read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")
            answers = path.with_name(path.name + ".out").read_text("ascii").split("\n")
            self.assertGreater(len(texts), 40)
            for text, answer in zip(texts, answers):
                with self.subTest(vocabulary=name, text=text):
                    encoding = vocabulary.encode(text, True)
                    self.assertEqual(list(encoding.ids), [int(number) for number in answer.split()])
                    self.assertEqual(encoding.ends[-1] if text else 0, len(text))


if __name__ == "__main__":
    unittest.main()
