"""Rows of tests/bench/run.sh about published shard reports (assay_aggregate_bench, on synthetic reports)."""
import json
import subprocess

_results = {}


def _run(bench, row, **flags):
    words = [bench.program("assay_aggregate_bench"), row]
    for name, value in flags.items():
        words += ["--" + name, str(value)]
    key = " ".join(words)
    if key not in _results:
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        _results[key] = json.loads(done.stdout.splitlines()[-1])
    return _results[key]


def _memory(bench):
    few, many = _run(bench, "memory", shards=5), _run(bench, "memory", shards=50)
    return {"ratio": {"wall": many["peak"] / few["peak"]}, "peak_mib": [few["peak"] >> 20, many["peak"] >> 20]}


def rows():
    return [
        ("aggregate", "welding 50 published reports of 512 rows into 5 receipts / parsing them", "<=", 2.0,
         lambda b: _run(b, "aggregate")),
        ("aggregate-one", "welding 50 published reports of 512 rows into 1 receipt / parsing them", "<=", 2.0,
         lambda b: _run(b, "aggregate", candidates=1, shards=50)),
        ("aggregate-memory", "peak memory of welding 50 shard reports / 5, receipts with their rows", "<=", 1.5, _memory),
    ]
