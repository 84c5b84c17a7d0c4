#!/usr/bin/env python3
"""check_pages.py OUT: the pages of a result say what its files say.

Parses every page with an HTML parser and compares its tables and the numbers of its figures with summary.json,
report.json and the position arrays, from which the worst positions and the curve are worked out anew. Also: nothing is
requested from anywhere, every figure has a table, every page is below 3 MiB. Prints `N passed, N failed`.
"""
from __future__ import annotations

import array
import base64
import hashlib
import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

PAGE_BYTES_MAX = 3 << 20
passed, failures = 0, []


def check(ok: bool, what: str) -> None:
    global passed
    if ok:
        passed += 1
    else:
        failures.append(what)


class Page(HTMLParser):
    """Tables by caption (rows of (text, data-v)), elements, texts of scripts and styles."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tables, self.elements, self.scripts, self.styles, self.figures = {}, [], [], [], []
        self.data, self.links, self.text = None, [], []
        self._table = self._cell = self._raw = self._caption = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag == "figure":
            self.figures.append({"plot": None, "tables": 0})
        if tag == "div" and attrs.get("class") == "plot":
            self.figures[-1]["plot"] = attrs["data-plot"]
        if tag == "table":
            self._table = []
            if self.figures:
                self.figures[-1]["tables"] += 1
        if tag == "caption":
            self._caption = ""
        if tag == "tr" and self._table is not None:
            self._table.append([])
        if tag in ("td", "th") and self._table is not None:
            self._cell = ["", attrs.get("data-v")]
        if tag in ("script", "style"):
            self._raw = (tag, attrs, [])

    def handle_endtag(self, tag):
        if tag == "caption":
            self.tables[self._caption] = self._table
            self._caption = None
        if tag in ("td", "th") and self._cell is not None:
            self._table[-1].append(tuple(self._cell))
            self._cell = None
        if tag == "table":
            self._table = None
        if tag in ("script", "style") and self._raw:
            name, attrs, parts = self._raw
            body = "".join(parts)
            if attrs.get("type") == "application/json":
                self.data = json.loads(body)
            else:
                (self.scripts if name == "script" else self.styles).append(body)
            self._raw = None

    def handle_data(self, data):
        if self._raw:
            self._raw[2].append(data)
            return
        if self._caption is not None:
            self._caption += data
        elif self._cell is not None:
            self._cell[0] += data
        self.text.append(data)


def six(value) -> str:
    return "-" if value is None else f"{value:.6g}"


def visible(text: str) -> str:
    hidden = re.compile("[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
    return hidden.sub(lambda m: f"\\u{{{ord(m[0]):04X}}}", text)


def mean_text(mean) -> str:
    return f"infinite at {mean['infinite_count']}" if mean["value"] is None else six(mean["value"])


def interval(bootstrap) -> str:
    if bootstrap["refused"] is not None:
        return f"none ({bootstrap['clusters']} clusters)"
    return f"[{six(bootstrap['ci95_low'])}, {six(bootstrap['ci95_high'])}]"


def check_frame(name: str, raw: bytes, page: Page) -> None:
    check(len(raw) < PAGE_BYTES_MAX, f"{name}: {len(raw)} bytes")
    for tag, attrs in page.elements:
        for key, value in attrs.items():
            if key in ("src", "srcset", "data", "action", "style") or key.startswith("on"):
                check(False, f"{name}: <{tag} {key}={value}>")
            if key == "href" and not re.fullmatch(r"#[a-z]+|data:,|\.\./index\.html|[A-Za-z0-9._-]+/report\.html", value):
                check(False, f"{name}: link to {value}")
    policy = [a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    check(len(policy) == 1 and policy[0].startswith("default-src 'none';"), f"{name}: its policy")
    for body in page.scripts + page.styles:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        check(f"'sha256-{digest}'" in policy[0], f"{name}: a script or style that its policy does not name")
    check(len(page.scripts) == 3 and len(page.styles) == 1, f"{name}: number of scripts and styles")
    check(policy[0].count("sha256-") == 4 and "unsafe" not in policy[0], f"{name}: its policy allows more than its own")
    for figure in page.figures:
        check(figure["tables"] >= 1, f"{name}: figure {figure['plot']} has no table")
    check(any(t == "html" and a.get("lang") == "en" for t, a in page.elements), f"{name}: its language")


def check_index(page: Page, summary: dict) -> None:
    by_label = {c["label"]: c for c in summary["candidates"]}
    scored = [c for c in summary["candidates"] if c["failed"] is None]
    heads = [h for h in ("own", "shared") if any(h in c["heads"] for c in scored)]
    check(list(page.data["heads"]) == heads, "index: heads")
    if len(heads) == 1:  # captions are the same for two
        rows = page.tables["Candidates"][1:]
        check([r[0][0] for r in rows] == [c["label"] for c in scored], "index: labels")
        for row in rows:
            h = by_label[row[0][0]]["heads"][heads[0]]
            want = [mean_text(h["mean_kl_ref_cand"]) + interval(h["context_bootstrap"]), six(h["p999_kl_ref_cand"]),
                    f"{100 * h['same_top1']['fraction']:.2f}",
                    six(h["ln_perplexity_ratio"]["ratio"]), f"{100 * h['rms_delta_p']:.3f}"]
            check([cell[0] for cell in row[1:6]] == want, f"index: row of {row[0][0]}: {row[1:6]} is not {want}")
            check(float(row[1][1]) == h["mean_kl_ref_cand"]["value"], f"index: what {row[0][0]} is sorted by")
    for head in heads:
        figures = page.data["heads"][head]
        points = {p["label"]: p for p in figures["points"]}
        for c in scored:
            check(points[c["label"]]["mean"] == c["heads"][head]["mean_kl_ref_cand"]["value"], f"index: point of {c['label']}")
        pairs = [p for p in summary["pairs"] if p["head"] == head]
        if len(scored) > 1:
            check(len(figures["pairs"]) == len(pairs), "index: number of pairs")
        for shown, pair in zip(figures.get("pairs", []), pairs):
            c = pair["comparison"] or {}
            check((shown["a"], shown["b"]) == (pair["a"], pair["b"]), "index: order of pairs")
            check(shown["difference"] == c.get("difference_a_minus_b"), f"index: {pair['a']} minus {pair['b']}")
            if c.get("distinguishable") is False:
                check(shown["verdict"] == "not distinguishable", f"index: verdict of {pair['a']} and {pair['b']}")
            if c.get("distinguishable"):
                check(shown["verdict"].startswith("closer" if c["difference_a_minus_b"] < 0 else "farther"),
                      f"index: verdict of {pair['a']} and {pair['b']}")
    for c in summary["candidates"]:
        if c["failed"] is not None:
            rows = page.tables["Candidates that failed"]
            check(any(r[0][0] == c["label"] and visible(c["failed"]["message"]) == r[2][0] for r in rows), f"index: {c['label']} failed")


def read(path: Path, kind: str) -> array.array:
    values = array.array(kind)
    values.frombytes(path.read_bytes())
    return values


def check_head(label: str, page: Page, folder: Path, report: dict, head: str) -> None:
    entry, figures, name = report["heads"][head], page.data["heads"][head], f"{label} {head}"
    kl = read(folder / "positions" / head / "kl_ref_cand.f64", "d")
    top = [read(folder / "positions" / head / f"top1_{who}.i32", "i") for who in ("ref", "cand")]
    nll = [read(folder / "positions" / head / f"nll_{who}.f64", "d") for who in ("ref", "cand")]
    start = report["coverage"].get("score_from", 0)
    where = [(c["index"], start + i) for c in entry["contexts"] for i in range(c["positions"])]
    # The published buckets, and how many positions are above a threshold.
    counts = [0] * 562
    for bucket, count in figures["distribution"]["counts"]:
        counts[bucket] = count
    check(counts == entry["statistics"]["kl_ref_cand"]["tail"]["counts"], f"{name}: buckets")
    check(sum(counts) == len(kl) == figures["distribution"]["total"], f"{name}: positions")
    for row in figures["distribution"]["exceedance"]:
        check(row["positions"] == sum(v > row["threshold"] for v in kl), f"{name}: above {row['threshold']}")
    # Position curve.
    seen = 0
    for first, last, n, mean, largest, same in figures["curve"]:
        inside = [i for i, (_, p) in enumerate(where) if first <= p <= last]
        values = [kl[i] for i in inside]
        seen += len(inside)
        finite = all(math.isfinite(v) for v in values)
        check(n == len(values) and mean == (math.fsum(values) / n if finite else None), f"{name}: curve at {first}")
        check(largest == (max(values) if math.isfinite(max(values)) else None), f"{name}: largest at {first}")
        check(same == sum(top[0][i] == top[1][i] for i in inside), f"{name}: same top at {first}")
    check(seen == len(kl), f"{name}: the curve holds every position once")
    # Contexts and strata.
    check([row[0] for row in figures["contexts"]] == [c["index"] for c in entry["contexts"]], f"{name}: contexts")
    for row, c in zip(figures["contexts"], entry["contexts"]):
        check(row[2] == c["mean_kl_ref_cand"]["value"] and row[3] == c["max_kl_ref_cand"]
              and figures["strata_names"][row[1]] == c["stratum"], f"{name}: context {row[0]}")
    for stratum in figures["strata"]:
        group = entry["strata"][stratum["name"]]
        check(stratum["mean"] == group["mean_kl_ref_cand"]["value"], f"{name}: stratum {stratum['name']}")
        documents = {c["source_cluster"] for c in entry["contexts"] if c["stratum"] == stratum["name"]}
        check((stratum["low"] is None) == (len(documents) < 8), f"{name}: interval of {stratum['name']}")
    check(figures["worst_contexts"] == entry["worst_contexts"], f"{name}: worst contexts")
    if len(report["heads"]) > 1:  # captions are the same for two
        return
    # The fifty worst positions.
    table = page.tables["Worst positions"]
    order = sorted(range(len(kl)), key=lambda i: -kl[i])[:50]
    column = {cell[0]: i for i, cell in enumerate(table[0])}
    check(len(table) - 1 == len(order), f"{name}: number of worst positions")
    for row, i in zip(table[1:], order):
        want = (str(where[i][0]), str(where[i][1]), six(kl[i]) if math.isfinite(kl[i]) else "infinite")
        check(tuple(c[0] for c in row[:3]) == want, f"{name}: worst position {row[:3]} is not {want}")
        for who, ids, values in (("reference", top[0], nll[0]), ("candidate", top[1], nll[1])):
            check(re.search(rf"(^|\s){ids[i]}$", row[column[f"Top 1, {who}"]][0]) is not None, f"{name}: top 1 of the {who} at {want}")
            check(math.isclose(float(row[column[f"p, {who}"]][0]), math.exp(-values[i]), rel_tol=1e-3), f"{name}: p of the {who} at {want}")


def check_candidate(out: Path, pages: Path, candidate: dict) -> None:
    label = candidate["label"]
    raw = (pages / label / "report.html").read_bytes()
    page, report = Page(raw.decode()), json.loads((out / label / "report.json").read_bytes())
    check_frame(label, raw, page)
    check([f["plot"] for f in page.figures] == ["distribution", "strata", "contexts", "curve"] * len(report["heads"]),
          f"{label}: figures")
    for head in report["heads"]:
        check_head(label, page, out / label, report, head)
    text = " ".join(page.text)
    digests = [candidate["report_sha256"], report["suite"]["suite_token_sha256"], report["suite"]["manifest_sha256"]]
    digests += [report[who]["capture"]["content_sha256"] for who in ("reference", "candidate")]
    for digest in digests + ([candidate["receipt_id"]] if candidate["sealed"] else ["UNSEALED"]):
        check(digest in text, f"{label}: {digest} is not on the page")
    for disclosure in report["disclosures"]:
        check(visible(disclosure["text"]) in text, f"{label}: a disclosure is not on the page")


def main() -> None:
    out = Path(sys.argv[1])
    pages = Path(sys.argv[2]) if len(sys.argv) > 2 else out
    summary = json.loads((out / "summary.json").read_text())
    raw = (pages / "index.html").read_bytes()
    index = Page(raw.decode())
    check_frame("index", raw, index)
    check_index(index, summary)
    for candidate in summary["candidates"]:
        if candidate["failed"] is None:
            check_candidate(out, pages, candidate)
    for failure in failures[:20]:
        print("FAIL", failure)
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
