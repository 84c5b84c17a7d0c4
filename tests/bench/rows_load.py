"""The rows load, load-memory, trickle and units: a coordinator with a long queue and many workers that poll."""
import json
import os
import subprocess

SUITE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "deploy", "panel", "suite")


def run(bench, row, *words):
    """What assay_load_bench says of `row`; each command runs once."""
    bench.program("assayd")
    command = [bench.program("assay_load_bench"), row, "--bin", bench.bin, "--suite", SUITE, *words]
    key = " ".join(command)
    if key not in bench.results:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        bench.results[key] = json.loads(done.stdout)
    return bench.results[key]


def queue(bench):
    result = run(bench, "queue", "--runs", "4000" if bench.options.quick else "10000")
    last = result["many"]
    calls = ", ".join(f"{name} p50 {last[key]['p50_ms']:.0f} ms, p99 {last[key]['p99_ms']:.0f} ms"
                      for name, key in (("Synchronize", "synchronize"), ("GetRun", "get_run")))
    return {**result, "note": f"{last['decisions_per_s']:,.0f} units per second of {last['runs']:,} runs; {calls}; "
                              f"{last['drain_s']:.1f} s from SIGTERM to the end"}


def memory(bench):
    result = queue(bench)
    return {**result, "ratio": {"wall": result["bytes_per_run"] / (64 << 10)},
            "note": f"{result['bytes_per_run'] / 1024:.0f} KiB"}


def trickle(bench):
    result = run(bench, "trickle", "--trickle", "10" if bench.options.quick else "40")
    many = result["many"]
    return {**result, "note": f"{many['processor_ms_per_unit']:.2f} ms and {result['few']['processor_ms_per_unit']:.2f} ms; all "
                              f"32 units of a run given out after {many['all_leased']['p50_ms']:.0f} ms; "
                              f"{many['drain_s']:.1f} s from SIGTERM to the end"}


def units(bench):
    words = [bench.program("assay_units_bench")] + (["--many", "100000"] if bench.options.quick else [])
    result = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    few, many = result["us_per_unit"]
    rows_few, rows_many = result["rows_per_unit"]
    return {**result, "note": f"{many:.1f} and {few:.1f} us, {rows_many:.2f} and {rows_few:.2f} rows looked at; "
                              f"{result['units'][1]:,} units"}


def rows():
    """As ROWS of table.py."""
    return [("load", "units given out per second to 256 polling workers, 10,000 runs of 32 units queued / 100 runs", ">=", 0.8,
             queue),
            ("load-memory", "resident memory that a queued run of 32 units adds to the coordinator / 64 KiB", "<=", 1.0, memory),
            ("trickle", "processor time of the coordinator for each unit of runs that come one at a time while 256 workers wait "
             "in long polls / while 32 do", "<=", 1.5, trickle),
            ("units", "the core's processor time for each unit, lease to result, of 1,000,000 queued / of 1,000", "<=", 1.5, units)]
