"""Checks of the development panel in deploy/panel and of the tool that builds it.

The first classes need nothing but the standard library. PanelTokenization needs the package `tokenizers` and the
model file: set ASSAY_SMOLLM2_GGUF to the path of SmolLM2-135M-Instruct.Q4_1.gguf.

  python -m unittest discover -s client/python/tests -p test_panel.py
"""
from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import random
import sys
import tempfile
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PANEL = ROOT / "deploy" / "panel"
TOOL = ROOT / "client" / "python" / "tools" / "make_panel.py"
MODEL_VARIABLE = "ASSAY_SMOLLM2_GGUF"

LENGTH = 128
SENTINELS = 8
SEED = 20261130
FRACTION = 0.25
VOCABULARY = 49152
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

MANIFEST_KEYS = """schema model model_identity context_length scored_positions_per_context contexts_requested
    allow_shortfall contexts total_scored_positions hidden_size vocab_size corpus corpus_note windowing document_scan
    prior_suite_exclusion source_reuse_disclosure contamination_scan partitions strata source_clusters
    cluster_partition documents context_index suite_token_sha256""".split()
ROW_KEYS = """index stratum source_cluster source_window_index source_char_start source_char_end file tokens
    token_sha256 calibration_shingle_hits partition sentinel""".split()
DOCUMENT_KEYS = "stratum file bytes sha256 lexical_tokens lexical_shingles".split()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load_tool():
    spec = importlib.util.spec_from_file_location("make_panel", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


make_panel = load_tool()


def load_suite():
    raw = (PANEL / "suite" / "suite-manifest.json").read_bytes()
    return raw, json.loads(raw)


def document_text(row: dict, documents: dict) -> str:
    path = PANEL / "corpus" / row["stratum"] / documents[row["source_cluster"]]["file"]
    return path.read_bytes().decode("utf-8")


class PanelSuite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.raw, cls.manifest = load_suite()
        cls.rows = cls.manifest["context_index"]
        cls.documents = dict(cls.manifest["documents"])

    def test_manifest_layout(self):
        self.assertEqual(self.raw, json.dumps(self.manifest, indent=2).encode("ascii"))
        self.assertEqual(list(self.manifest), MANIFEST_KEYS)
        self.assertEqual(self.manifest["schema"], "qwen38-distribution-fidelity/6")
        for row in self.rows:
            self.assertEqual(list(row), ROW_KEYS)
        for meta in self.documents.values():
            self.assertEqual(list(meta), DOCUMENT_KEYS)

    def test_manifest_names_no_absolute_path(self):
        def strings(value):
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict):
                for key, inner in value.items():
                    yield key
                    yield from strings(inner)
            elif isinstance(value, list):
                for inner in value:
                    yield from strings(inner)

        for text in strings(self.manifest):
            self.assertFalse(text.startswith(("/", "~", "\\")) or text[1:3] in (":\\", ":/"), text)

    def test_identity_and_counts(self):
        m = self.manifest
        self.assertEqual(m["model_identity"]["tokenizer_sha256"], MODEL_SHA256)
        self.assertEqual(m["model_identity"]["config_sha256"], MODEL_SHA256)
        self.assertEqual((m["hidden_size"], m["vocab_size"]), (576, VOCABULARY))
        self.assertEqual((m["context_length"], m["scored_positions_per_context"]), (LENGTH, LENGTH - 1))
        self.assertEqual(m["contexts"], len(self.rows))
        self.assertEqual(m["contexts_requested"], len(self.rows))
        self.assertEqual(m["total_scored_positions"], len(self.rows) * (LENGTH - 1))
        self.assertEqual([row["index"] for row in self.rows], list(range(len(self.rows))))

    def test_token_files(self):
        folder = PANEL / "suite" / "tokens"
        names = {f"tokens/{path.name}" for path in folder.iterdir()}
        self.assertEqual(names, {row["file"] for row in self.rows})
        for row in self.rows:
            self.assertEqual(row["file"], f"tokens/context-{row['index']:04d}.json")
            data = (PANEL / "suite" / row["file"]).read_bytes()
            ids = json.loads(data)
            self.assertEqual(data, ("[" + ", ".join(str(i) for i in ids) + "]").encode("ascii"))
            self.assertEqual(sha256(data), row["token_sha256"])
            self.assertEqual((len(ids), row["tokens"]), (LENGTH, LENGTH))
            self.assertTrue(all(type(i) is int and 0 <= i < VOCABULARY for i in ids))
        digests = [row["token_sha256"] for row in self.rows]
        self.assertEqual(len(set(digests)), len(digests))
        self.assertEqual(sha256("".join(digests).encode("ascii")), self.manifest["suite_token_sha256"])

    def test_documents_match_corpus(self):
        found = {}
        for path in (PANEL / "corpus").glob("*/*"):
            self.assertEqual(path.suffix, ".txt")
            self.assertNotIn(path.stem, found)
            found[path.stem] = path
        self.assertEqual(set(found), set(self.documents))
        self.assertEqual([name for name, _ in self.manifest["documents"]], sorted(found))
        for name, meta in self.documents.items():
            data = found[name].read_bytes()
            words = make_panel.lexical_words(data.decode("utf-8"))
            self.assertEqual((meta["stratum"], meta["file"]), (found[name].parent.name, found[name].name))
            self.assertEqual((meta["bytes"], meta["sha256"]), (len(data), sha256(data)))
            self.assertEqual((meta["lexical_tokens"], meta["lexical_shingles"]), (len(words), len(words) - 11))

    def test_strata_and_clusters(self):
        counts = {}
        for row in self.rows:
            counts[row["stratum"]] = counts.get(row["stratum"], 0) + 1
            self.assertEqual(row["stratum"], self.documents[row["source_cluster"]]["stratum"])
        self.assertGreaterEqual(len(counts), 6)
        self.assertEqual(list(self.manifest["strata"].items()), sorted(counts.items()))
        clusters = {row["source_cluster"] for row in self.rows}
        self.assertGreaterEqual(len(clusters), 16)
        self.assertEqual(self.manifest["source_clusters"], len(clusters))
        self.assertEqual(len(clusters), len(self.rows), "every document gives exactly one context")

    def test_spans_lie_in_their_documents(self):
        consumed = 0
        for row in self.rows:
            self.assertEqual((row["source_window_index"], row["source_char_start"]), (0, 0))
            self.assertLessEqual(row["source_char_end"], len(document_text(row, self.documents)))
            consumed += row["source_char_end"]
        self.assertEqual(self.manifest["windowing"]["candidate_source_characters_consumed"], consumed)

    def test_partitions(self):
        split = self.manifest["cluster_partition"]
        analysis, qualification = set(split["analysis"]), set(split["qualification"])
        self.assertEqual(split["analysis"], sorted(analysis))
        self.assertEqual(split["qualification"], sorted(qualification))
        self.assertEqual(split["overlap"], [])
        self.assertFalse(analysis & qualification)
        self.assertEqual(analysis | qualification, set(self.documents))
        for row in self.rows:
            self.assertIn(row["source_cluster"], split[row["partition"]])
            if row["sentinel"]:
                self.assertEqual(row["partition"], "analysis")
        by_partition = [row["partition"] for row in self.rows]
        sentinels = sum(row["sentinel"] for row in self.rows)
        self.assertEqual(
            self.manifest["partitions"],
            {"analysis": by_partition.count("analysis"), "qualification": by_partition.count("qualification"),
             "sentinels": sentinels})
        self.assertEqual(sentinels, SENTINELS)
        self.assertGreaterEqual(len(analysis), 16, "analysis alone must carry a bootstrap")

    def test_split_order_and_sentinels_follow_the_seed(self):
        build = sorted(self.rows, key=lambda r: (r["stratum"], r["source_window_index"], r["source_cluster"] + ".txt"))
        generator = random.Random(SEED)
        qualification = []
        for stratum, contexts in self.manifest["strata"].items():
            names = sorted(row["source_cluster"] for row in build if row["stratum"] == stratum)
            generator.shuffle(names)
            qualification += names[: -(-contexts * 25 // 100)]  # one context per cluster: the quota rounded up
        self.assertEqual(sorted(qualification), self.manifest["cluster_partition"]["qualification"])
        generator.shuffle(build)
        self.assertEqual([row["index"] for row in build], list(range(len(build))))
        analysis = [row["index"] for row in build if row["partition"] == "analysis"]
        drawn = sorted(generator.sample(analysis, SENTINELS))
        self.assertEqual(drawn, [row["index"] for row in self.rows if row["sentinel"]])


class CharacterTokenizer:
    """Stands in for a real tokenizer: one token per character."""

    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return types.SimpleNamespace(ids=[ord(c) for c in text], offsets=[(i, i + 1) for i in range(len(text))])


class SparseTokenizer:
    """One token per ten characters, so that the first probe is too short."""

    def encode(self, text, add_special_tokens):
        count = len(text) // 10
        ids = [sum(map(ord, text[10 * i : 10 * i + 10])) for i in range(count)]
        return types.SimpleNamespace(ids=ids, offsets=[(10 * i, 10 * i + 10) for i in range(count)])


class PanelTool(unittest.TestCase):
    def document(self, name, text, stratum="s"):
        return make_panel.Document(name, stratum, name + ".txt", text, {})

    def select(self, texts, quota, length=4, tokenizer=None):
        counters = make_panel.Counters()
        corpus = {"s": [self.document(name, text) for name, text in sorted(texts.items())]}
        chosen = make_panel.select_contexts(corpus, {"s": quota}, length, tokenizer or CharacterTokenizer(), counters)
        return [(c.document.name, c.window, c.start, c.end) for c in chosen], counters

    def test_digests(self):
        self.assertEqual(make_panel.token_file_bytes([1, 2, 3]), b"[1, 2, 3]")
        self.assertEqual(sha256(make_panel.token_file_bytes([1, 2, 3])),
                         "a36b1f2c3f84522dd1005145646617d7054c0851e97c72a039c0bdfac9fa07f3")
        self.assertEqual(sha256(make_panel.token_file_bytes([0] * 2048)),
                         "dd202c247abb39750c01079c22650e8bc916b4b64d3b99f64713d44fa7e84aa3")

    def test_lexical_words(self):
        text = ("\u00dcn\u00efcode\u2014Test_1 \u00bd na\u00efve e\u0301x  \u65e5\u672c\u8a9e\u30ab\u30ca 12\u00b2 "
                "\ufb01x \u0130stanbul \u00df \u1fb3")
        self.assertEqual(
            make_panel.lexical_words(text),
            ["\u00fcn\u00efcode", "test_1", "1", "2", "na\u00efve", "\u00e9x", "\u65e5", "\u672c", "\u8a9e", "\u30ab",
             "\u30ca", "122", "fix", "i\u0307stanbul", "ss", "\u03b1\u03b9"])

    def test_round_robin_windows_are_adjacent(self):
        rows, counters = self.select({"a": "abcdefghijkl", "b": "ABCDEFGH"}, 4)
        self.assertEqual(rows, [("a", 0, 0, 4), ("b", 0, 0, 4), ("a", 1, 4, 8), ("b", 1, 4, 8)])
        self.assertEqual((counters.windows, counters.characters, counters.tails), (4, 16, 0))

    def test_short_document_is_dropped_and_shortfall_refused(self):
        rows, counters = self.select({"a": "abcdefgh", "b": "ABC"}, 2)
        self.assertEqual(rows, [("a", 0, 0, 4), ("a", 1, 4, 8)])
        self.assertEqual(counters.tails, 1)
        with self.assertRaisesRegex(make_panel.PanelError, "stratum s: 2 contexts of 4 tokens, 3 needed"):
            self.select({"a": "abcdefgh", "b": "ABC"}, 3)

    def test_duplicate_window_is_rejected_and_leaves_a_gap(self):
        rows, counters = self.select({"a": "abcdabcdwxyz"}, 2)
        self.assertEqual(rows, [("a", 0, 0, 4), ("a", 2, 8, 12)])
        self.assertEqual((counters.windows, counters.duplicates), (3, 1))

    def test_probe_grows(self):
        rows, counters = self.select({"a": "".join(map(chr, range(48, 128)))}, 2, tokenizer=SparseTokenizer())
        self.assertEqual(rows, [("a", 0, 0, 40), ("a", 1, 40, 80)])
        self.assertEqual(counters.retries, 2)  # 16 -> 32 -> 64 characters; the second window starts from 104

    def test_quota_remainder_goes_to_the_first_strata(self):
        self.assertEqual(make_panel.stratum_quotas(["a", "b", "c"], 8), {"a": 3, "b": 3, "c": 2})

    def test_split_keeps_one_cluster_of_a_stratum_in_analysis(self):
        contexts = [make_panel.Context(self.document("only", "x"), i, 0, 1, [i], str(i)) for i in range(5)]
        split = make_panel.split_contexts(contexts, {"s": 5}, 0.9, 2, SEED)
        self.assertEqual(split.qualification, set())
        self.assertEqual(len(split.sentinels), 2)

    def test_corpus_refusals(self):
        def corpus(files):
            holder = tempfile.TemporaryDirectory()
            self.addCleanup(holder.cleanup)
            root = Path(holder.name)
            for name, data in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(data)
            return root

        for files, message in (
            ({"a/x.txt": b"1", "b/x.txt": b"2"}, "document name x occurs in a and in b"),
            ({"a/x.txt": b"\xff"}, "not UTF-8"),
            ({"a/x.md": b"1"}, "only .txt files"),
            ({}, "no stratum folders"),
        ):
            with self.assertRaisesRegex(make_panel.PanelError, message):
                make_panel.read_corpus(corpus(files))

    def test_output_folder_with_foreign_files_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {"suite-manifest.json": b"{}", "tokens/context-0000.json": b"[1]"}
            make_panel.write_suite(Path(folder), files)
            make_panel.check_suite(Path(folder), files)
            (Path(folder) / "tokens" / "context-0001.json").write_bytes(b"[2]")
            with self.assertRaisesRegex(make_panel.PanelError, "not part of this suite: tokens/context-0001.json"):
                make_panel.write_suite(Path(folder), files)
            with self.assertRaisesRegex(make_panel.AssayError, "differs in 1 files"):
                make_panel.check_suite(Path(folder), files)


def missing_requirement() -> str | None:
    for package in ("tokenizers",):
        if importlib.util.find_spec(package) is None:
            return f"the package {package} is not installed"
    path = os.environ.get(MODEL_VARIABLE)
    if not path:
        return f"{MODEL_VARIABLE} does not name SmolLM2-135M-Instruct.Q4_1.gguf"
    if not Path(path).is_file():
        return f"{MODEL_VARIABLE} names a file that does not exist"
    return None


SKIP_REASON = missing_requirement()


@unittest.skipIf(SKIP_REASON is not None, SKIP_REASON)
class PanelTokenization(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, cls.manifest = load_suite()
        cls.documents = dict(cls.manifest["documents"])
        cls.gguf = Path(os.environ[MODEL_VARIABLE])
        cls.model = make_panel.load_model(cls.gguf)

    def test_model_is_the_pinned_file(self):
        self.assertEqual(self.model.sha256, MODEL_SHA256)

    def test_tokens_are_the_text(self):
        for row in self.manifest["context_index"]:
            with self.subTest(cluster=row["source_cluster"]):
                text = document_text(row, self.documents)
                ids = json.loads((PANEL / "suite" / row["file"]).read_bytes())
                decoded = self.model.tokenizer.decode(ids, skip_special_tokens=False)
                self.assertEqual(decoded, text[row["source_char_start"] : row["source_char_end"]])
                # Cutting the probe must not have changed a merge: the whole document begins with the same ids.
                whole = self.model.tokenizer.encode(text, add_special_tokens=False).ids
                self.assertEqual(whole[:LENGTH], ids)

    def test_digits_stand_alone_and_no_bos_is_added(self):
        encode = lambda text: self.model.tokenizer.encode(text, add_special_tokens=False)
        self.assertEqual([e - s for s, e in encode("2026").offsets], [1, 1, 1, 1])
        self.assertEqual(len(encode("<|im_start|>").ids), 1)
        self.assertEqual(encode("").ids, [])

    def test_rebuild_gives_the_same_bytes(self):
        arguments = ["--gguf", self.gguf, "--corpus", PANEL / "corpus", "--out", PANEL / "suite", "--check",
                     "--length", LENGTH, "--contexts", len(self.documents), "--sentinels", SENTINELS, "--seed", SEED,
                     "--fraction", FRACTION]
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            # The manifest names the model by its base name, so a renamed copy cannot give the same manifest.
            if self.gguf.name != self.manifest["model"]:
                self.skipTest(f"the model file is not called {self.manifest['model']}")
            status = make_panel.main([str(argument) for argument in arguments])
        self.assertEqual((status, errors.getvalue()), (0, ""))


if __name__ == "__main__":
    unittest.main()
