#!/usr/bin/env python3
"""Published reports against the peer's own programs. Opt-in: needs a clone of the peer.

    tests/e2e/published_peer.py PEER_CLONE [--python PYTHON]

PEER_CLONE holds tools/fidelity.py and tools/kld_aggregate.py; PYTHON (default: this one) runs them and needs torch and
safetensors for the first. ASSAY_BIN_DIR names the folder of the built programs (default build/release/bin).

1. Ten shards of five candidates (tests/data/ladder/make_ladder.py): the peer aggregates, `assay report aggregate --like`
   must write the same bytes, and `assay receipt recompute` must agree.
2. Reports that Assay exports from its own replays of tests/data/metric/qf: `fidelity.py paired` must accept a pair of
   them, and `assay report pair` must write the same bytes.
"""
import argparse
import filecmp
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("ASSAY_BIN_DIR", os.path.join(ROOT, "build", "release", "bin"))
QF = os.path.join(ROOT, "tests", "data", "metric", "qf")
passed = failed = 0


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL {name}: {why}")


def assay(*words, cwd=None):
    done = subprocess.run([os.path.join(BIN, "assay"), *words], cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def ladder(options, work):
    maker = os.path.join(ROOT, "tests", "data", "ladder", "make_ladder.py")
    subprocess.run([options.python, maker, options.peer, "--keep", work], check=True)
    for candidate in range(5):
        # The peer writes its receipt anew: the maker left one without sentences.
        reports = ["reports/shard-%04d/%d.json" % (shard, candidate) for shard in range(10)]
        words = [options.python, os.path.join(options.peer, "tools", "kld_aggregate.py"), "aggregate", "--out",
                 "peer.json", "--suite", "suite", "--shard-size", "7", "--shards", "0-9", "--allow-legacy-no-tail"]
        subprocess.run(words + reports, cwd=work, check=True, stdout=subprocess.DEVNULL)
        code, text = assay("report", "aggregate", *reversed(reports), "--suite", "suite", "--like", "peer.json", "--out",
                           "ours.json", cwd=work)
        check(f"aggregate {candidate}", code == 0 and filecmp.cmp(f"{work}/peer.json", f"{work}/ours.json", False), text)
        inputs = [word for shard in range(10) for word in ("--inputs", "reports/shard-%04d" % shard)]
        code, text = assay("receipt", "recompute", "peer.json", "--suite", "suite", *inputs, cwd=work)
        check(f"recompute {candidate}", code == 0 and "the same bytes" in text, text)


def export(options, work):
    for name in ("a", "b"):
        words = ["replay", "--suite", f"{QF}/suite", "--reference", f"{QF}/captures/reference", "--candidate",
                 f"{name}={QF}/captures/cand-{name}", "--head", f"{QF}/head/weight.safetensors", "--policy",
                 "torch-bf16", "--vocab-chunk", "24832", "--out", f"{work}/{name}"]
        code, text = assay(*words)
        check(f"replay {name}", code == 0, text)
        code, text = assay("report", "export", f"{work}/{name}/{name}", "--schema", "qwen38-fidelity-report/2",
                           "--reference-head", f"{QF}/head/weight.safetensors", "--out", f"{work}/{name}.json")
        check(f"export {name}", code == 0, text)
    done = subprocess.run([options.python, os.path.join(options.peer, "tools", "fidelity.py"), "paired", "--a", "a.json",
                           "--b", "b.json", "--a-label", "a.json", "--b-label", "b.json", "--out", "peer-paired.json"],
                          cwd=work, capture_output=True, text=True)
    check("fidelity.py paired", done.returncode == 0, done.stdout + done.stderr)
    if done.returncode != 0:
        return
    code, text = assay("report", "pair", "a.json", "b.json", "--out", "paired.json", cwd=work)
    check("report pair", code == 0, text)
    peer, ours = (json.load(open(f"{work}/{name}")) for name in ("peer-paired.json", "paired.json"))
    for key in peer:
        # CPython before 3.12 adds the resamples' values in another way.
        if key != "bootstrap_difference" or sys.version_info >= (3, 12):
            check(f"paired {key}", peer[key] == ours.get(key), f"{peer[key]} against {ours.get(key)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    options.peer = os.path.abspath(options.peer)
    with tempfile.TemporaryDirectory() as work:
        ladder(options, os.path.join(work, "ladder"))
    with tempfile.TemporaryDirectory() as work:
        export(options, work)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
