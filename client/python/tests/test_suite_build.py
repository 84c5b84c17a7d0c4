"""assay-suite build: inputs, windows, BOS, hold-outs, refusals, and that the programs take what it writes.

Most tests use a tokenizer whose tokens are the bytes of the text, so every expected id is worked out by hand.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import random
import tempfile
import unittest
from pathlib import Path

from fixtures import LLAMA, ROOT, need_programs, run_assay
from tiny_tokenizers import BOS, MARK, bytes_of, write_gguf

MISSING = [name for name in ("tokenizers", "gguf", "jinja2") if importlib.util.find_spec(name) is None]
SMOLLM2 = os.environ.get("ASSAY_SMOLLM2_GGUF", "")
TEMPLATE = "{% for m in messages %}<|x|>{{ m['role'] }}:{{ m['content'] }}{% endfor %}"


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class BuildTestCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="assay-py-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.gguf = write_gguf(self.folder / "m.gguf", template=TEMPLATE)
        self.count = 0

    def files(self, **contents: str | bytes) -> Path:
        """A folder of texts; `prose__a` is prose/a.txt."""
        self.count += 1
        root = self.folder / f"texts{self.count}"
        for name, content in contents.items():
            stratum, _, document = name.partition("__")
            path = root / stratum / f"{document}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return root

    def write(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode("utf-8"))
        return path

    def rows(self, *rows: object) -> Path:
        self.count += 1
        return self.write(f"rows{self.count}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def run_tool(self, *arguments: object) -> tuple[int, str, str]:
        from assay.suite.cli import main

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main([str(argument) for argument in arguments])
            except SystemExit as stop:  # argparse
                status = int(stop.code or 0)
        return status, out.getvalue(), err.getvalue()

    def build(self, source: Path, *options: object, length: int = 4, bos: str = "auto", expect: int = 0):  # type: ignore[no-untyped-def]
        """Builds and reads back: (contexts as (cluster, window, ids) in text order, manifest, everything printed)."""
        self.count += 1
        self.out = self.folder / f"out{self.count}"
        status, printed, said = self.run_tool(
            "build",
            source,
            "--tokenizer",
            self.gguf,
            "--context-length",
            length,
            "--bos",
            bos,
            "--out",
            self.out,
            *options,
        )
        self.assertEqual(status, expect, said)
        if status:
            self.assertFalse(self.out.exists())
            return said
        from assay import load_suite

        suite = load_suite(self.out)
        rows = {row["index"]: row for row in suite.manifest["context_index"]}
        contexts = sorted(
            (rows[c.index]["source_cluster"], rows[c.index]["source_window_index"], list(c.tokens)) for c in suite
        )
        return contexts, suite.manifest, printed + said

    def refused(
        self, source: Path, *options: object, texts: tuple[str, ...], length: int = 4, bos: str = "auto"
    ) -> None:
        said = self.build(source, *options, length=length, bos=bos, expect=3)
        for text in texts:
            self.assertIn(text, said)


class WhatIsNoFile(BuildTestCase):
    def test_a_pipe_is_not_waited_for_and_a_dangling_link_is_named(self) -> None:
        pipe, link = self.folder / "pipe.txt", self.folder / "link.txt"
        os.mkfifo(pipe)
        link.symlink_to(self.folder / "gone.txt")
        self.refused(pipe, texts=("[INPUT_INVALID]", "is a pipe"))
        self.refused(link, texts=("[FILE_MISSING]", "is a link to", "gone.txt"))
        for bad in (pipe, link):
            texts = self.files(s__a="abcdefgh")
            bad.rename(texts / "s" / bad.name)
            self.refused(texts, texts=(bad.name,))


class Windows(BuildTestCase):
    def test_tokens_are_cut_in_order_and_tails_counted(self) -> None:
        contexts, manifest, said = self.build(self.files(s__a="abcdefghij", s__b="ABCD", s__c="xyz"))
        self.assertEqual(contexts, [("a", 0, bytes_of("abcd")), ("a", 1, bytes_of("efgh")), ("b", 0, bytes_of("ABCD"))])
        build = manifest["build"]
        self.assertEqual((build["tokens"], build["tail_tokens_dropped"], build["tokens_not_read"]), (17, 5, 0))
        self.assertEqual(build["documents_without_context"], [["s/c.txt", 3]])
        self.assertIn("1 documents are shorter than a context", said)
        self.assertIn("s/c.txt (3)", said)
        self.assertIn("5 of 17 tokens lie behind the last whole context", said)
        self.assertIn("partition analysis has 2 source clusters, fewer than 8", said)
        spans = {
            (row["source_cluster"], row["source_char_start"], row["source_char_end"])
            for row in manifest["context_index"]
        }
        self.assertEqual(spans, {("a", 0, 4), ("a", 4, 8), ("b", 0, 4)})
        table = next(line.split() for line in said.splitlines() if line.startswith("s "))
        self.assertEqual(table, ["s", "3", "2", "3", "9", "5"])  # documents, clusters, contexts, positions, tail tokens

    def test_what_is_in_texts_stays_as_it_is(self) -> None:
        source = self.files(
            s__bom=b"\xef\xbb\xbfabcd", s__crlf="a\r\nb", s__empty="", s__nfd="e\u0301x", s__nfc="\u00e9xy", s__one="q"
        )
        contexts, manifest, said = self.build(source)
        self.assertEqual(
            contexts,
            [
                ("bom", 0, bytes_of("abcd")),
                ("crlf", 0, [97, 13, 10, 98]),
                ("nfc", 0, [0xC3, 0xA9, 120, 121]),
                ("nfd", 0, [101, 0xCC, 0x81, 120]),
            ],
        )
        record = manifest["build"]["input"]
        self.assertEqual(record["byte_order_marks_removed"], 1)
        self.assertEqual(record["documents_with_carriage_returns"], 1)
        self.assertEqual(record["documents_not_in_nfc"], 1)
        self.assertIn("s/empty.txt (0), s/one.txt (1)", said)
        raw = dict(manifest["documents"])["bom"]
        self.assertEqual((raw["bytes"], raw["sha256"]), (7, hashlib.sha256(b"\xef\xbb\xbfabcd").hexdigest()))

    def test_a_window_may_end_inside_an_emoji_and_says_so(self) -> None:
        contexts, manifest, said = self.build(self.files(s__a="ab😀cdef"))
        self.assertEqual([ids for _, _, ids in contexts], [[97, 98, 0xF0, 0x9F], [0x98, 0x80, 99, 100]])
        self.assertEqual(manifest["build"]["windows_cut_inside_a_character"], 1)
        self.assertIn("1 contexts end inside a character", said)

    def test_repeated_windows_are_left_out_and_named(self) -> None:
        contexts, manifest, said = self.build(self.files(s__a="abcdabcdwxyz", t__b="wxyzefgh"))
        self.assertEqual([(name, window) for name, window, _ in contexts], [("a", 0), ("a", 2), ("b", 1)])
        self.assertEqual(manifest["build"]["duplicate_windows_left_out"], 2)
        self.assertIn("t/b.txt: 1 windows repeat", said)

    def test_a_number_of_contexts_is_shared_among_strata_and_documents(self) -> None:
        source = self.files(s__a="abcdefgh" * 2 + "!", s__b="ABCDEFGH", t__c="12345678")
        contexts, manifest, said = self.build(source, "--contexts", 3)
        self.assertEqual([(name, window) for name, window, _ in contexts], [("a", 0), ("b", 0), ("c", 0)])
        self.assertEqual(manifest["build"]["tokens_not_read"], 13 + 4 + 4)
        self.assertEqual(manifest["contexts_requested"], 3)
        self.refused(source, "--contexts", 8, texts=("PANEL_TOO_SHORT", "stratum 't' gives 2 of 4 contexts"))
        self.refused(source, "--contexts", 1, texts=("each of the 2 strata needs one: s, t",))
        contexts, manifest, _ = self.build(source, "--contexts", 8, "--allow-shortfall")
        self.assertEqual((len(contexts), manifest["allow_shortfall"]), (6, True))

    def test_a_stratum_that_gives_nothing_is_refused_by_name(self) -> None:
        source = self.files(s__a="abcd", short__b="xy")
        self.refused(source, texts=("PANEL_TOO_SHORT", "stratum 'short'", "longest of 2 tokens", "--allow-shortfall"))
        self.assertEqual(len(self.build(source, "--allow-shortfall")[0]), 1)
        self.refused(source, length=64, texts=("no document gives a context of 64 tokens", "s/a.txt, has 4"))


class Bos(BuildTestCase):
    def test_rules(self) -> None:
        source = self.files(s__a="abcdefg")
        plain = [bytes_of("abcd")]
        with_bos = [[BOS, *bytes_of("abc")], [BOS, *bytes_of("def")]]
        for adds, rule, expected in (
            (False, "auto", plain),
            (True, "auto", with_bos),
            (False, "always", with_bos),
            (True, "never", plain),
        ):
            write_gguf(self.gguf, add_bos=adds)
            contexts, manifest, _ = self.build(source, bos=rule)
            self.assertEqual([ids for _, _, ids in contexts], expected, (adds, rule))
            self.assertEqual(manifest["build"]["bos"]["contexts_with_added"], 2 * (expected is with_bos))

    def test_double_bos(self) -> None:
        write_gguf(self.gguf, add_bos=True)
        source = self.files(s__a="<s>abcdef")
        contexts, manifest, said = self.build(source, bos="auto")
        self.assertEqual([ids for _, _, ids in contexts], [[BOS, *bytes_of("abc")], [BOS, *bytes_of("def")]])
        bos = manifest["build"]["bos"]
        self.assertEqual((bos["contexts_that_had_one"], bos["contexts_with_double"]), (1, 0))
        self.assertIn("1 contexts begin with BOS already", said)
        contexts, manifest, said = self.build(source, bos="always")
        self.assertEqual([ids for _, _, ids in contexts], [[BOS, BOS, *bytes_of("ab")], [BOS, *bytes_of("cde")]])
        bos = manifest["build"]["bos"]
        self.assertEqual((bos["contexts_with_added"], bos["contexts_with_double"]), (2, 1))
        self.assertIn("double BOS in 1 contexts", said)

    def test_a_tokenizer_without_bos(self) -> None:
        write_gguf(self.gguf, bos=None)
        source = self.files(s__a="abcdefgh")
        self.refused(source, bos="always", texts=("BOS_UNKNOWN", "--bos-token TOKEN"))
        contexts, _, _ = self.build(source, "--bos-token", "<|x|>", bos="always")
        self.assertEqual(contexts[0][2], [MARK, *bytes_of("abc")])

    def test_special_tokens_in_text(self) -> None:
        source = self.files(s__a="a<|x|>bcd")
        contexts, manifest, _ = self.build(source)
        self.assertEqual((contexts[0][2], manifest["build"]["special_tokens_found"]), ([97, MARK, 98, 99], 1))
        contexts, manifest, _ = self.build(source, "--special", "literal")
        self.assertEqual((contexts[0][2], manifest["build"]["special_tokens_found"]), (bytes_of("a<|x"), 0))


class Inputs(BuildTestCase):
    def test_json_lines(self) -> None:
        source = self.rows(
            {"text": "abcdef", "stratum": "one", "source": "book"},
            {"text": "ghijkl", "stratum": "one", "source": "book", "id": 7},
            {"text": "12345", "stratum": "two"},
            {"ids": [1, 2, 3, 4, 5], "stratum": "two", "source": "ready"},
        )
        contexts, manifest, said = self.build(source)
        self.assertEqual(
            contexts,
            [
                ("book", 0, bytes_of("abcd")),
                ("book", 0, bytes_of("ghij")),
                ("ready", 0, [1, 2, 3, 4]),
                ("row-0003", 0, bytes_of("1234")),
            ],
        )
        self.assertEqual((manifest["strata"], manifest["source_clusters"]), ({"one": 2, "two": 2}, 3))
        self.assertEqual(
            [part[0] for part in dict(manifest["documents"])["book"]["parts"]], [f"{source.name}:1", f"{source.name}:2"]
        )
        self.assertIn("field 'id' of 1 rows", said)

    def test_bad_rows_are_named_by_line(self) -> None:
        good = {"text": "abcdefgh", "source": "a", "stratum": "s"}
        for bad, texts in (
            ({"text": "a", "ids": [1]}, ("needs one of text, messages and ids, has text and ids",)),
            ({"stratum": "s"}, ("has none",)),
            ({"text": 3}, ("text must be a string",)),
            ({"text": "\ud800"}, ("TEXT_INVALID", "surrogate")),
            ({"text": "abcd", "source": "a", "stratum": "t"}, ("source 'a' is in stratum 't' here and in 's'",)),
            ({"ids": [1, -2]}, ("whole numbers from 0",)),
            ({"ids": [1, 2, 3, 260]}, ("TOKEN_OUT_OF_RANGE", "id 260 at place 3", "vocabulary of 260")),
            ({"text": "abcd", "source": " "}, ("source must be",)),
        ):
            source = self.rows(good, bad)
            self.refused(source, texts=(f"{source.name}:2", *texts))
        source = self.write("bad.jsonl", '{"text": "abcd"}\n\n{"text": \n')
        self.refused(source, texts=("JSON_INVALID", "bad.jsonl:3"))

    def test_messages(self) -> None:
        chat = {"messages": [{"role": "u", "content": "hi"}, {"role": "a", "content": "yo"}]}
        contexts, manifest, _ = self.build(self.rows(chat), length=10)
        self.assertEqual(contexts[0][2], [MARK, *bytes_of("u:hi"), MARK, *bytes_of("a:yo")])
        self.assertEqual(manifest["build"]["chat_template"]["sha256"], hashlib.sha256(TEMPLATE.encode()).hexdigest())
        given = self.write("t.jinja", "{{ bos_token }}{% generation %}{{ messages | tojson }}{% endgeneration %}")
        contexts, manifest, said = self.build(self.rows(chat), "--chat-template", given, length=10, bos="always")
        self.assertEqual(contexts[0][2][:4], [BOS, BOS, ord("["), ord("{")])
        self.assertEqual(manifest["build"]["chat_template"]["origin"], "t.jinja")
        self.assertIn("double BOS in 1", said)
        spelled = {"messages": [{"role": "u", "content": "say <|x|> now"}]}
        self.assertIn("messages of 1 chats spell special tokens", self.build(self.rows(spelled))[2])

    def test_templates_that_cannot_be_used(self) -> None:
        source = self.rows({"messages": [{"role": "u", "content": "hi"}]})
        self.refused(source, "--special", "literal", texts=("TEMPLATE_INVALID", "--special parse"))
        self.refused(self.rows({"messages": "hi"}), texts=("messages must be a list",))
        for text, told in (
            ("{{ raise_exception('no system role') }}", "no system role"),
            ("{{ ''.__class__.__mro__ }}", "SecurityError"),
            ("{{ strftime_now('%d') }}", "--template-date"),
            ("{% if %}", "TemplateSyntaxError"),
        ):
            self.refused(source, "--chat-template", self.write("t.jinja", text), texts=("TEMPLATE_INVALID", told))
        dated = self.write("t.jinja", "{{ strftime_now('%Y-%m-%d') }}")
        contexts, _, _ = self.build(source, "--chat-template", dated, "--template-date", "2026-11-30", length=10)
        self.assertEqual(contexts[0][2], bytes_of("2026-11-30"))
        write_gguf(self.gguf)
        self.refused(source, texts=("has no chat template", "--chat-template FILE"))

    def test_token_ids(self) -> None:
        for content in ("[1, 2, 3, 4, 5]", "[[1, 2, 3, 4, 5]]", '{"contexts": [{"ids": [1, 2, 3, 4, 5]}]}'):
            contexts, _, _ = self.build(self.write("ids.json", content), bos="never")
            self.assertEqual(contexts, [("row-0001", 0, [1, 2, 3, 4])])
        self.refused(self.write("ids.json", '{"a": 1}'), texts=("INPUT_INVALID", "[[1, 2, ...]"))

    def test_folders_that_are_none(self) -> None:
        source = self.files(s__a="abcd")
        (source / "stray.txt").write_text("x")
        self.refused(source, texts=("INPUT_INVALID", "stray.txt", "move it into one"))
        (source / "stray.txt").rename(source / ".stray")
        self.assertIn("1 hidden files left out", self.build(source)[2])
        (source / "s" / "b.md").write_text("x")
        self.refused(source, texts=("only .txt files", "b.md"))
        self.refused(self.files(s__a="abcd", t__a="efgh"), texts=("in stratum s already", "rename one"))
        self.refused(self.files(s__a=b"ab\ncd\xff"), texts=("TEXT_INVALID", "a.txt:2", "0xFF", "iconv"))
        self.refused(self.files(s__a=b"\xff\xfea\x00"), texts=("it looks like UTF-16",))
        self.refused(self.folder / "nowhere", texts=("FILE_MISSING", "nowhere"))
        self.folder.joinpath("empty").mkdir()
        self.refused(self.folder / "empty", texts=("is empty",))

    def test_names_that_are_not_utf8(self) -> None:
        source = self.files(s__a="abcd")
        (source / "s" / os.fsdecode(b"\xff.txt")).write_text("abcd")
        self.refused(source, texts=("INPUT_INVALID", "the name is not UTF-8"))


class LongText(BuildTestCase):
    MARKDOWN = "front\n# One\nabc\n```\n# no heading\n```\n## Sub\nx\n# Two\ndef\n"

    def sections(self, text: str, rule: str, size: int = 1):  # type: ignore[no-untyped-def]
        from assay.suite.split_text import split_text

        sections, record = split_text(text, rule, lambda part: len(part) >= size)
        self.assertEqual("".join(section.text for section in sections), text)  # nothing lost, nothing moved
        for section in sections:
            self.assertEqual(text[section.start : section.start + len(section.text)], section.text)
            self.assertEqual(section.line, text[: section.start].count("\n") + 1)
        return [section.title for section in sections], [section.text for section in sections], record["rule"]

    def test_headings(self) -> None:
        titles, _, rule = self.sections(self.MARKDOWN, "auto")
        self.assertEqual((titles, rule), (["", "One", "Two"], "before every heading of level 1 or higher up"))
        titles, _, rule = self.sections("# Book\n## A\nx\n## B\ny\n", "headings")
        self.assertEqual((titles, rule[-20:]), (["Book", "A", "B"], "level 2 or higher up"))
        wiki = " = Robert = \n\n text \n\n = = Career = = \n\n more \n\n = Other = \n\n end\n"
        self.assertEqual(self.sections(wiki, "auto")[0], ["Robert", "Other"])

    def test_blocks(self) -> None:
        _, parts, _ = self.sections("ab\n\ncd\nef\n\n\ngh\n\nij", "blocks", size=6)
        self.assertEqual(parts, ["ab\n\ncd\nef\n\n\n", "gh\n\nij"])
        self.assertEqual(self.sections("a\n\nb\n", "none")[1], ["a\n\nb\n"])

    def test_the_rule_is_recorded(self) -> None:
        contexts, manifest, said = self.build(self.write("book.txt", self.MARKDOWN))
        self.assertEqual(contexts[0], ("section-0001", 0, bytes_of("fron")))
        split = manifest["build"]["input"]["split"]
        self.assertEqual(split, {"asked": "auto", "rule": "before every heading of level 1 or higher up"})
        self.assertEqual(dict(manifest["documents"])["section-0003"]["title"], "Two")
        self.assertIn("one text was cut into 3 sections", said)
        self.assertEqual(manifest["strata"], {"book": len(contexts)})
        self.refused(
            self.write("flat.txt", "no heading here\n"), "--split", "headings", texts=("fewer than two headings",)
        )


class Partitions(BuildTestCase):
    def corpus(self, documents: int) -> Path:
        """Two strata of documents of one context each."""
        return self.files(**{f"{s}__{s}{n:02d}": f"{s}{n:02d}!" for s in "st" for n in range(documents)})

    def test_hold_out_by_cluster(self) -> None:
        source = self.corpus(16)
        _, manifest, said = self.build(source, "--hold-out", "test=0.25", "--hold-out", "tune=0.125")
        clusters = manifest["cluster_partition"]
        self.assertEqual([len(clusters[key]) for key in ("analysis", "test", "tune", "overlap")], [20, 8, 4, 0])
        for row in manifest["context_index"]:
            self.assertIn(row["source_cluster"], clusters[row["partition"]])
            self.assertFalse(row["sentinel"] and row["partition"] != "analysis")
        self.assertEqual(manifest["partitions"]["sentinels"], 8)
        # The rule, worked out anew: clusters of each stratum in the order of a digest of their content.
        digest = {name: meta["sha256"] for name, meta in manifest["documents"]}
        for stratum in "st":
            mine = [name for name, meta in manifest["documents"] if meta["stratum"] == stratum]
            mine.sort(key=lambda name: hashlib.sha256(f"hold-out {digest[name]}".encode()).hexdigest())
            self.assertEqual(set(mine[:4]), set(clusters["test"]) & set(mine))
            self.assertEqual(set(mine[4:6]), set(clusters["tune"]) & set(mine))
        self.assertIn("partition tune has 4 source clusters", said)

    def test_order_and_sentinels_are_drawn_as_the_published_suites_do(self) -> None:
        source = self.corpus(6)
        _, manifest, _ = self.build(source, "--seed", 5, "--sentinels", 3)
        rows = manifest["context_index"]
        generator = random.Random(5)
        ordered = sorted(rows, key=lambda row: (row["stratum"], row["source_window_index"], row["source_cluster"]))
        generator.shuffle(ordered)
        self.assertEqual([row["index"] for row in ordered], list(range(len(rows))))
        drawn = generator.sample(range(len(rows)), 3)
        self.assertEqual(sorted(drawn), [row["index"] for row in rows if row["sentinel"]])

    def test_too_few_clusters(self) -> None:
        self.refused(
            self.files(s__a="abcdefgh"), "--hold-out", "test=0.5", texts=("--hold-out test", "too few clusters")
        )


class Output(BuildTestCase):
    def test_same_inputs_same_bytes_and_nothing_overwritten(self) -> None:
        source = self.files(s__a="abcdefgh", s__b="ijklmnop")
        self.build(source)
        first = {p.relative_to(self.out): p.read_bytes() for p in self.out.rglob("*") if p.is_file()}
        again = ("build", source, "--tokenizer", self.gguf, "--context-length", 4, "--bos", "auto", "--out", self.out)
        status, printed, _ = self.run_tool(*again)
        self.assertEqual((status, "unchanged" in printed), (0, True))
        self.assertEqual(self.run_tool(*again, "--check")[0], 0)
        status, _, said = self.run_tool(*again, "--seed", 3)
        self.assertEqual((status, "OUT_EXISTS" in said), (3, True))
        self.assertEqual({p.relative_to(self.out): p.read_bytes() for p in self.out.rglob("*") if p.is_file()}, first)
        (self.out / "tokens" / "context-0000.json").write_text("[1]")
        status, _, said = self.run_tool(*again, "--check")
        self.assertEqual((status, "CHECK_FAILED" in said, "context-0000.json" in said), (3, True, True))
        self.build(source)
        self.assertEqual({p.relative_to(self.out): p.read_bytes() for p in self.out.rglob("*") if p.is_file()}, first)

    def test_layout_is_the_published_one(self) -> None:
        self.build(self.files(s__a="abcdefgh"))
        raw = (self.out / "suite-manifest.json").read_bytes()
        manifest = json.loads(raw)
        self.assertEqual(raw, json.dumps(manifest, indent=2).encode("ascii"))
        digests = []
        for row in manifest["context_index"]:
            data = (self.out / row["file"]).read_bytes()
            self.assertEqual(hashlib.sha256(data).hexdigest(), row["token_sha256"])
            digests.append(row["token_sha256"])
        self.assertEqual(manifest["suite_token_sha256"], hashlib.sha256("".join(digests).encode()).hexdigest())
        self.assertNotIn(str(self.folder), raw.decode())  # no path of this machine

    def test_json(self) -> None:
        out = self.folder / "o"
        source = self.files(s__a="abcdefgh")
        status, printed, _ = self.run_tool(
            "build", source, "--tokenizer", self.gguf, "--context-length", 4, "--bos", "never", "--out", out, "--json"
        )
        self.assertEqual((status, json.loads(printed)["contexts"]), (0, 2))

    def test_usage(self) -> None:
        good = ["build", "x", "--tokenizer", "t", "--context-length", "4", "--bos", "auto", "--out", "o"]
        for change, told in (
            (good[:5] + ["1"] + good[6:], "--context-length"),
            (good[:6] + good[8:], "--bos"),
            (good + ["--hold-out", "test"], "FRACTION"),
            (good + ["--hold-out", "analysis=0.5"], "none of analysis"),
            (good + ["--hold-out", "a=0.5", "--hold-out", "b=0.5"], "must leave something"),
            (good + ["--contexts", "0"], "--contexts"),
            ([good[0], str(self.folder), *good[2:-1], str(self.folder / "out")], "inside INPUT"),
            (good + ["--template-date", "today"], "YYYY-MM-DD"),
        ):
            status, _, said = self.run_tool(*change)
            self.assertEqual(status, 2, change)
            self.assertIn(told, said)

    def test_the_programs_take_it(self) -> None:
        """inspect verifies every digest; score runs a model of 320 ids over it, from end to end."""
        need_programs()
        source = self.files(**{f"s__d{n}": f"document {n} says that {n} and {n} are {2 * n}" for n in range(10)})
        self.build(source, "--hold-out", "test=0.2", length=12, bos="always")
        done = run_assay("suite", "inspect", self.out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run_assay(
            *(
                "score",
                "--reference",
                LLAMA,
                "--candidate",
                f"int8={LLAMA}@rtn:bits=8,group=channel",
                "--suite",
                self.out,
            ),
            *("--out", self.folder / "result", "--data", self.folder / "data", "--threads", 1, "--quiet"),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "result" / "int8" / "report.json").is_file())


@unittest.skipUnless(Path(SMOLLM2).is_file(), "ASSAY_SMOLLM2_GGUF does not name SmolLM2-135M-Instruct.Q4_1.gguf")
class KnownSuites(BuildTestCase):
    """Tokens that independent programs made."""

    def setUp(self) -> None:
        super().setUp()
        self.gguf = Path(SMOLLM2)

    def test_the_development_panel_has_the_same_contexts(self) -> None:
        published = json.loads((ROOT / "deploy" / "panel" / "suite" / "suite-manifest.json").read_bytes())
        _, manifest, _ = self.build(ROOT / "deploy" / "panel" / "corpus", "--contexts", 56, length=128, bos="auto")
        columns = ("source_cluster", "source_char_start", "source_char_end", "token_sha256")
        key = lambda row: [row[column] for column in columns]  # noqa: E731
        self.assertEqual(sorted(map(key, manifest["context_index"])), sorted(map(key, published["context_index"])))

    def test_the_fixture_suite_has_the_same_tokens(self) -> None:
        data = ROOT / "tests" / "data" / "smollm2"
        known = json.loads((data / "suite" / "suite-manifest.json").read_bytes())["context_index"]
        contexts, _, _ = self.build(data / "corpus", "--contexts", 8, length=64, bos="auto")
        tokens = {row["source_cluster"]: json.loads((data / "suite" / row["file"]).read_bytes()) for row in known}
        self.assertEqual({name: ids for name, _, ids in contexts}, tokens)

    def test_windows_are_the_chunks_that_llama_perplexity_scores(self) -> None:
        data = ROOT / "tests" / "data" / "llamacpp"
        stream = json.loads((data / "panel-tokens.json").read_text("utf-8"))["ids"]["llama_plain"]
        contexts, _, _ = self.build(
            data / "panel.txt", "--split", "none", "--special", "literal", length=64, bos="never"
        )
        self.assertEqual([ids for _, _, ids in contexts], [stream[at : at + 64] for at in range(0, 64 * 38, 64)])


if __name__ == "__main__":
    unittest.main()
