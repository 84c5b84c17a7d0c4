#!/usr/bin/env python3
"""browser_test.py OUT: the pages of a result in headless Chromium.

No message in the console, no request, every figure has a mark for every number it has, the table is summary.json's;
keyboard, pointer, sorting, narrow screens, dark colours and print work. Prints `N passed, N failed`.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

import chromium

passed, failures = 0, []

# What each figure draws: the marks, and how many the data ask for.
MARKS = """
(() => Array.from(document.querySelectorAll('.plot')).map(p => {
  const d = Assay.data.heads[p.dataset.head], n = s => p.querySelectorAll(s).length;
  const finite = (rows, i) => rows.filter(r => r[i] !== null).length;
  const want = {
    distribution: () => [n('rect.bar'), new Set(d.distribution.counts.map(c => c[0] === 0 || c[0] === d.distribution.edges ? 'x' + c[0]
                          : Math.floor((c[0] - 1) / 4))).size],
    strata: () => [n('circle.dot'), finite(d.strata.map(s => [s.mean]), 0)],
    contexts: () => [n('rect.bar'), d.contexts.length],
    curve: () => [n('circle.dot'), finite(d.curve, 3)],
    sizes: () => [n('circle.dot'), d.points.filter(q => q.bytes !== null && q.mean !== null).length],
    pairs: () => [n('circle.dot'), d.pairs.filter(q => q.difference !== null).length],
  }[p.dataset.plot]();
  const box = p.getBoundingClientRect();
  const bad = Array.from(p.querySelectorAll('svg *')).some(e => Array.from(e.attributes).some(a => /NaN|undefined|Infinity/.test(a.value)));
  return {plot: p.dataset.plot, drawn: want[0], asked: want[1], height: box.height, bad, label: !!p.querySelector('[aria-label]'),
          tables: p.parentElement.querySelectorAll('table').length};
}))()
"""


def check(ok: bool, what: str) -> None:
    global passed
    if ok:
        passed += 1
    else:
        failures.append(what)


def check_quiet(browser, name: str, path: Path) -> None:
    for complaint in browser.complaints():
        check(False, f"{name}: {complaint}")
    check(True, name)
    asked = [url for url in browser.requests() if not url.startswith("data:") and url != path.absolute().as_uri()]
    check(not asked, f"{name}: asks for {asked}")


def check_figures(browser, name: str) -> None:
    for figure in browser.run(MARKS):
        where = f"{name}: {figure['plot']}"
        check(figure["drawn"] == figure["asked"], f"{where} has {figure['drawn']} marks instead of {figure['asked']}")
        check(figure["tables"] > 0 and (figure["label"] or not figure["asked"]) and not figure["bad"], f"{where}: table, label or coordinates: {figure}")
        check(figure["height"] > 30 or figure["asked"] == 0, f"{where} is not drawn")


def check_look(browser, name: str) -> None:
    light = browser.run("getComputedStyle(document.body).backgroundColor")
    browser.scheme("dark")
    check(browser.run("getComputedStyle(document.body).backgroundColor") != light, f"{name}: no dark colours")
    browser.scheme("light")
    browser.size(360, 740, mobile=True)
    check(browser.run("document.documentElement.scrollWidth") <= 360, f"{name}: wider than a narrow screen")
    check_figures(browser, name + ", narrow")
    browser.size(1200, 900)
    check(len(browser.call("Page.printToPDF")["data"]) > 10000, f"{name}: no print")
    check(browser.run("document.images.length + document.querySelectorAll('iframe, object, embed, form').length") == 0,
          f"{name}: holds an element that it should not")


def check_candidate(browser, name: str) -> None:
    heads = browser.run("Assay.data.heads")
    for head, figures in heads.items():
        plot = f"document.querySelector('.plot[data-plot=contexts][data-head={head}]')"
        readout = f"{plot}.querySelector('output').textContent"
        browser.run(f"{plot}.querySelector('svg').focus()")
        browser.key("w")
        worst = figures["worst_contexts"]
        check(browser.run(readout).startswith(f"Context {worst[0]},"), f"{name} {head}: W does not go to the worst context")
        if len(worst) > 1:
            browser.key("w")
            check(browser.run(readout).startswith(f"Context {worst[1]},"), f"{name} {head}: W does not go on")
        browser.key("Home")
        check(browser.run(readout).startswith(f"Context {figures['contexts'][0][0]},"), f"{name} {head}: Home")
        browser.key("ArrowRight")
        check(browser.run(readout).startswith(f"Context {figures['contexts'][min(1, len(figures['contexts']) - 1)][0]},"),
              f"{name} {head}: the right arrow key")
        check(browser.run(f"{plot}.querySelector('svg').getAttribute('aria-valuetext')") == browser.run(readout), f"{name}: aria text")
        browser.run(f"{plot}.scrollIntoView({{block: 'center'}})")
        browser.settle()
        box = browser.run(f"(r => [r.left, r.top, r.width, r.height])({plot}.querySelectorAll('rect.bar')[0].getBoundingClientRect())")
        browser.hover(box[0] + box[2] / 2, box[1] + box[3] - 1)
        check(browser.run(readout).startswith(f"Context {figures['contexts'][0][0]},"), f"{name} {head}: pointing at a bar")
        browser.run(f"{plot}.querySelector('.chips button').click()")
        check(browser.run(readout).startswith(f"Context {worst[0]},"), f"{name} {head}: the worst context's button")
        browser.run(f"document.querySelector('.plot[data-plot=strata][data-head={head}] circle').focus()")
        check(browser.run("!document.getElementById('tip').hidden"), f"{name} {head}: a dot that has the focus tells nothing")


def check_index(browser, summary: dict) -> None:
    scored = {c["label"]: c for c in summary["candidates"] if c["failed"] is None}
    table = "document.querySelector('table[data-sort]')"
    rows = f"Array.from({table}.tBodies[0].rows).map(r => [r.cells[0].textContent, r.cells[1].dataset.v])"
    head = browser.run("document.querySelector('main > section[id]').id")
    check({label: float(v) for label, v in browser.run(rows)} ==
          {label: c["heads"][head]["mean_kl_ref_cand"]["value"] for label, c in scored.items()}, "index: the table is not summary.json")
    for wanted, reverse in (("ascending", False), ("descending", True)):
        browser.run(f"{table}.tHead.rows[0].cells[1].querySelector('button').click()")
        values = [float(v) for _, v in browser.run(rows)]
        check(values == sorted(values, reverse=reverse), f"index: sorting, {wanted}")
        check(browser.run(f"{table}.tHead.rows[0].cells[1].getAttribute('aria-sort')") == wanted, "index: aria-sort")
    check(browser.run("Array.from(document.querySelectorAll('main a[href$=\"report.html\"]')).length") >= len(scored), "index: links")


def main() -> None:
    out = Path(sys.argv[1])
    path = chromium.find()
    if not path:
        print("SKIP no chromium is installed; apt-get install chromium, or name one with ASSAY_CHROMIUM")
        sys.exit(77)
    summary = json.loads((out / "summary.json").read_text())
    browser = chromium.Chromium(path)
    try:
        browser.size(1200, 900)
        pages = [("index", out / "index.html")]
        pages += [(c["label"], out / c["label"] / "report.html") for c in summary["candidates"] if c["failed"] is None]
        for name, page in pages:
            browser.open(str(page))
            check_figures(browser, name)
            if name == "index":
                check_index(browser, summary)
            else:
                check_candidate(browser, name)
            check_look(browser, name)
            check_quiet(browser, name, page)
    finally:
        browser.close()
    for failure in failures[:20]:
        print("FAIL", failure)
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
