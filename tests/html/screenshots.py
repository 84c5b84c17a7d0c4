#!/usr/bin/env python3
"""screenshots.py OUT LABEL DIR: pictures of a result's pages for the documentation (tests/html/screenshots.sh)."""
from __future__ import annotations

import sys
from pathlib import Path

import chromium


def element(browser, selector: str, margin: int = 12) -> dict:
    return browser.run(f"""(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();
      return {{x: Math.max(0, r.left + scrollX - {margin}), y: Math.max(0, r.top + scrollY - {margin}),
               width: r.width + {2 * margin}, height: r.height + {2 * margin}}}; }})()""")


def main() -> None:
    out, label, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    path = chromium.find()
    if not path:
        sys.exit("no chromium is installed: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    browser = chromium.Chromium(path)
    try:
        browser.size(1160, 1250)
        browser.open(str(out / "index.html"))
        browser.screenshot(str(folder / "index.png"))
        browser.open(str(out / label / "report.html"))
        browser.screenshot(str(folder / "candidate.png"))
        browser.run("document.querySelector('.plot[data-plot=contexts] .chips button').click()")
        browser.scheme("dark")
        strip = element(browser, "figure:has([data-plot=contexts])")
        curve = element(browser, "figure:has([data-plot=curve])")
        browser.screenshot(str(folder / "contexts-dark.png"),
                           {**strip, "height": curve["y"] + curve["height"] - strip["y"]})
        browser.scheme("light")
        heading = element(browser, "main section h3")
        browser.screenshot(str(folder / "worst-positions.png"), {**heading, "x": 0, "width": 1160, "height": 520})
        browser.size(390, 800, mobile=True)
        browser.run("scrollTo(0, 0)")
        browser.settle()
        browser.screenshot(str(folder / "narrow.png"))
        for complaint in browser.complaints():
            sys.exit(complaint)
    finally:
        browser.close()


main()
