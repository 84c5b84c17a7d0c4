"""Rows of tests/bench/run.sh about the HTML pages of a result (assay_pages_bench, on synthetic arrays)."""
import json
import subprocess

_results = {}


def _pages(bench, positions):
    words = [bench.program("assay_pages_bench"), "pages", "--positions", str(positions)]
    key = " ".join(words)
    if key not in _results:
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        _results[key] = json.loads(done.stdout.splitlines()[-1])
    return _results[key]


def _seconds(bench):
    result = _pages(bench, 2_047)
    return {**result, "ratio": {"wall": result["seconds"] / 60, "processor": result["processor_seconds"] / 60}}


def _memory(bench):
    few, many = _pages(bench, 255), _pages(bench, 2_047)
    return {"ratio": {"wall": many["peak"] / few["peak"]}, "peak_mib": [few["peak"] >> 20, many["peak"] >> 20]}


def _size(bench):
    result = _pages(bench, 2_047)
    return {**result, "ratio": {"wall": result["largest_page"] / (3 << 20)}}


def rows():
    return [
        ("pages", "seconds for the pages of 10 candidates, 512 x 2,047 positions / 60", "<=", 1.0, _seconds),
        ("pages-reading", "time for those pages / reading the arrays that they are made from once", "<=", 100.0,
         lambda b: _pages(b, 2_047)),
        ("pages-memory", "peak memory of writing pages, 512 contexts of 2,047 / of 255 positions", "<=", 1.05, _memory),
        ("pages-size", "largest of those pages / 3 MiB", "<=", 1.0, _size),
    ]
