"""The rows of tests/bench/run.sh: what each runs, which number of its result counts, and what is promised."""
import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

import rows_aggregate
import rows_decode
import rows_load
import rows_many
import rows_pages
import rows_upload
import rows_verify

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LARGE_VOCAB, LARGE_HIDDEN = 248_320, 5_120
GIB = 1 << 30
SUITE = os.path.join(ROOT, "deploy", "panel", "suite")


class Skip(Exception):
    """Why a row cannot be run here."""


class Bench:
    """Runs programs, each command once however many rows read its result."""

    def __init__(self, options):
        self.options = options
        self.bin = os.environ["ASSAY_BIN_DIR"]
        self.results = {}
        self.captures = None

    def program(self, name):
        path = os.path.join(self.bin, name)
        if not os.access(path, os.X_OK):
            raise Skip(f"{path} is not built")
        return path

    def replay(self, row, **flags):
        words = [self.program("assay_replay_bench"), row]
        for name, value in flags.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        key = " ".join(words)
        if key not in self.results:
            done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
            self.results[key] = json.loads(done.stdout.splitlines()[-1])
        return self.results[key]

    def large(self, positions):
        vocab = LARGE_VOCAB // (8 if self.options.quick else 1)
        return {"vocab": vocab, "hidden": LARGE_HIDDEN, "positions": positions, "threads": self.options.threads}

    def small(self, positions=256):
        return {"vocab": 49_152, "hidden": 576, "positions": positions, "threads": self.options.threads}

    def peer(self, candidates, env="env", **flags):
        if not self.options.peer_qf:
            raise Skip("give --peer-qf a clone that holds tools/fidelity.py")
        result = self.replay("peer", candidates=candidates, peer_qf=self.options.peer_qf, python=self.options.python,
                             peer_env=env, repeats=3, **flags)
        if result["peer"] is None:
            raise Skip("the peer cannot be run: --python needs torch, --peer-qf tools/fidelity.py")
        return result

    def model(self):
        path = os.environ.get("ASSAY_SMOLLM2_GGUF", "")
        if not os.path.exists(path):
            raise Skip("ASSAY_SMOLLM2_GGUF names no model (deploy/fetch_model.sh)")
        return path

    def rank_peak(self, words):
        """Largest resident set of any process that `words` starts, in bytes."""
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise RuntimeError(f"{words[:2]} ended with status {status}")
        return usage.ru_maxrss * 1024

    def model_captures(self):
        """Folder with captures of SmolLM2 and of a variant of it, made once, and what making them took."""
        if self.captures is None:
            model, assay = self.model(), self.program("assay")
            self.folder = tempfile.TemporaryDirectory(prefix="assay-bench-")  # removed at the end
            ref, cand = (os.path.join(self.folder.name, n) for n in ("reference", "candidate"))
            capture = [assay, "capture", "--suite", SUITE, "--filter", "sentinel", "--threads", str(self.options.threads)]
            peaks = [self.rank_peak([*capture, "--model", model, "--out", ref]),
                     self.rank_peak([*capture, "--model", model + "@rtn:bits=4,group=32", "--out", cand])]
            self.captures = {"reference": ref, "candidate": cand, "peak": max(peaks)}
        return self.captures

    def replay_peak(self):
        """Peak memory of replaying those captures."""
        made = self.model_captures()
        return self.rank_peak([self.program("assay"), "replay", "--reference", made["reference"], "--candidate",
                               made["candidate"], "--head", self.model(), "--suite", SUITE, "--threads",
                               str(self.options.threads), "--out", os.path.join(self.folder.name, "report")])

    def replay_captures(self):
        self.program("assay-rank")  # reads the head
        made = self.model_captures()
        return self.replay("captures", reference=made["reference"], candidate=made["candidate"], head=self.model(),
                           suite=SUITE, threads=self.options.threads, repeats=31)

    def capture_peer(self):
        words = [self.program("assay_capture_bench"), "--model", self.model(), "--suite",
                 SUITE, "--threads", str(self.options.threads),
                 "--contexts", "8" if self.options.quick else "16", "--peer", self.options.python]
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "ASSAY_SOURCE_DIR": ROOT})
        found = re.search(r"^ratio +([0-9.]+) wall, ([0-9.]+) CPU", done.stdout, re.MULTILINE)
        if not found:
            raise Skip("the peer cannot be run: --python needs torch, transformers, accelerate and gguf")
        return {"ratio": {"wall": float(found[1]), "processor": float(found[2])}, "text": done.stdout}


def products(bench, shape, candidates):
    """Replay over products, of one candidate (index 0) or of three (1)."""
    result = bench.replay("products", candidates=3, repeats=5 if shape["hidden"] == LARGE_HIDDEN else 41, **shape)
    return result["by_candidates"][candidates]


def memory(bytes_used, raw):
    return {"ratio": {"wall": bytes_used / (1.5 * GIB)}, "peak_mib": bytes_used >> 20, **raw}


# The peer gets the instructions that the replay uses.
PLAIN = os.environ.get("ASSAY_REPLAY_ISA") == "avx512_core_bf16"
PEER_ENV = "env ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" if PLAIN else "env"

# name, work, "<=" or ">=" or "within" (of 1), promised, what to run -> {"ratio": {clock: value}}
ROWS = [
    ("large", "replay of one candidate, {large}, bf16 / its two products", "<=", 1.10,
     lambda b: products(b, b.large(128), 0)),
    ("large-three", "replay of three candidates, {large} / its four products", "<=", 1.10,
     lambda b: products(b, b.large(128), 1)),
    ("small", "replay of one candidate, 49,152 x 576 / its two products (aim: 1.25)", "<=", 1.40,
     lambda b: products(b, b.small(), 0)),
    ("small-three", "replay of three candidates, 49,152 x 576 / its four products", "<=", 1.40,
     lambda b: products(b, b.small(), 1)),
    ("captures", "replay of captures of SmolLM2 and its rounding to 4 bits, from disk / its products", "<=", 1.50,
     lambda b: b.replay_captures()),
    ("metric", "both passes over logits in cache / their exp and log calls", "<=", 1.50,
     lambda b: b.replay("metric")),
    ("threads", "speed-up of a replay from a second thread / that of its products, 49,152 x 576", ">=", 0.95,
     lambda b: b.replay("threads", repeats=31, **{**b.small(), "threads": 2})),
    ("ranks", "two ranks of one thread over Gloo / one rank of two threads, 49,152 x 576", "<=", 1.05,
     lambda b: b.replay("ranks", repeats=31, **b.small())),
    ("contexts", "time per context, 1,000 / 10 contexts of 64 positions, 8,192 x 256", "within", 0.10,
     lambda b: b.replay("contexts", vocab=8_192, hidden=256, positions=64, repeats=3, threads=b.options.threads)),
    ("contexts-memory", "peak memory but for the outputs, 1,000 / 10 contexts of 64 positions, 8,192 x 256", "<=", 1.10,
     lambda b: contexts_memory(b)),
    ("long", "memory that a context of 32,768 positions adds to one of 2,048 / its own rows and outputs", "<=", 1.10,
     lambda b: b.replay("long", vocab=24_576, hidden=256, positions=32_768)),
    ("rank-memory", "peak memory of a rank / head slice + a tile and two contexts per operand + 96 MiB", "<=", 1.00,
     lambda b: b.replay("memory", vocab=49_152, hidden=2_048, positions=512)),
    ("peer-large", "peer's replay / ours, {large}, its default policy", ">=", 1.95,
     lambda b: of(b.peer(3, PEER_ENV, **b.large(64)), "default")),
    ("peer-large-fp32", "peer's replay / ours, {large}, its --fp32", ">=", 4.0,
     lambda b: of(b.peer(3, PEER_ENV, **b.large(64)), "fp32")),
    ("peer-large-three", "three replays of the peer / one of ours with three candidates, {large}", ">=", 2.8,
     lambda b: of(b.peer(3, PEER_ENV, **b.large(64)), "all")),
    ("peer-small", "peer's replay / ours, 49,152 x 576, its default policy", ">=", 4.0,
     lambda b: of(b.peer(1, PEER_ENV, **b.small()), "default")),
    ("peer-small-fp32", "peer's replay / ours, 49,152 x 576, its --fp32", ">=", 4.0,
     lambda b: of(b.peer(1, PEER_ENV, **b.small()), "fp32")),
    ("capture-peer", "tokens per second of capture / transformers fp32 in batches of 8, SmolLM2", ">=", 1.0,
     lambda b: b.capture_peer()),
    ("capture-memory", "peak memory of a rank that captures SmolLM2 / 1.5 GiB", "<=", 1.0,
     lambda b: memory(b.model_captures()["peak"], {})),
    ("replay-memory", "peak memory of a rank that replays SmolLM2 / 1.5 GiB", "<=", 1.0,
     lambda b: memory(b.replay_peak(), {})),
] + rows_aggregate.rows() + rows_many.rows() + rows_decode.rows() + rows_load.rows() + rows_pages.rows() + rows_upload.rows() + rows_verify.rows()


def of(result, key):
    return {**result, "ratio": result[key]}


def contexts_memory(bench):
    result = bench.replay("contexts", vocab=8_192, hidden=256, positions=64, repeats=3, threads=bench.options.threads)
    return {**result, "ratio": {"wall": result["memory_ratio"]}}


def holds(operator, measured, promised):
    if operator == "within":
        return abs(measured - 1) <= promised
    return measured <= promised if operator == "<=" else measured >= promised


def processor_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return re.search(r"model name\s*:\s*(.*)", file.read())[1]
    except (OSError, TypeError):
        return platform.processor()


def parse(argv):
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--clock", choices=("wall", "processor", "least"), default="wall")
    parser.add_argument("--peer-qf", metavar="PATH")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    options = parser.parse_args(argv)
    unknown = set(options.names) - {row[0] for row in ROWS}
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; --list names them")
    return options


def measure(bench, row):
    name, _, operator, promised, run = row
    try:
        raw = run(bench)
    except Skip as why:
        return {"name": name, "verdict": "skipped", "why": str(why)}
    except (subprocess.CalledProcessError, RuntimeError, OSError, ValueError, KeyError) as error:
        return {"name": name, "verdict": "failed", "why": str(error)}
    ratios = raw["ratio"]
    measured = ratios.get(bench.options.clock, ratios["wall"])
    verdict = "holds" if holds(operator, measured, promised) else "does not hold"
    return {"name": name, "measured": measured, "verdict": verdict, "raw": raw}


def main(argv):
    options = parse(argv)
    if options.list:
        print("\n".join(row[0] for row in ROWS))
        return 0
    bench = Bench(options)
    large = f"{bench.large(1)['vocab']:,} x {LARGE_HIDDEN:,}" + (" (1/8 of the vocabulary)" if options.quick else "")
    rows = []
    print(f"| row | work | measured | promised | |\n|---|---|---|---|---|")
    for row in ROWS:
        if options.names and row[0] not in options.names:
            continue
        work = row[1].format(large=large)
        promised = f"1 +- {row[3]:.2f}" if row[2] == "within" else f"{row[2]} {row[3]:.2f}"
        result = {**measure(bench, row), "work": work, "promised": promised}
        rows.append(result)
        value = f"{result['measured']:.3f}" if "measured" in result else "-"
        note = f": {result['why']}" if "why" in result else ""
        note += f" ({result['raw']['note']})" if "note" in result.get("raw", {}) else ""
        if "floor" in result.get("raw", {}):
            note += f" (products and bare exp and log calls alone: {result['raw']['floor']:.2f})"
        if "apart" in result.get("raw", {}):
            apart = result["raw"]["apart"].get(options.clock, result["raw"]["apart"]["wall"])
            note += f" (two halves of the vocabulary that never meet: {apart:.2f})"
        print(f"| {row[0]} | {work} | {value} | {promised} | {result['verdict']}{note} |", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            machine = {"processor": processor_name(), "threads": options.threads, "clock": options.clock,
                       "quick": options.quick, "load": os.getloadavg()[0]}
            json.dump({"machine": machine, "rows": rows}, file, indent=2)
            file.write("\n")
    verdicts = [row["verdict"] for row in rows if row["verdict"] != "skipped"]
    return 0 if verdicts and all(verdict == "holds" for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
