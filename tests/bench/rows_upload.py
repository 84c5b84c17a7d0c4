"""The rows ingest and upload-memory: uploads to a real coordinator."""
import json
import os
import subprocess


def run(bench, row, *words):
    bench.program("assayd")
    done = subprocess.run([bench.program("assay_upload_bench"), row, "--bin", bench.bin, *words],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def memory(bench):
    slow = os.path.join(bench.bin, "libassay_failing_calls.so")
    return run(bench, "memory", "--mib", "8" if bench.options.quick else "16", "--preload", slow, "--slow-us", "20000")


def rows():
    """As ROWS of table.py."""
    return [("ingest", "upload of files of 256 MiB over gRPC with SHA-256 and fsync, bytes per second / the slower of "
             "writing and syncing them on this disk and streaming them over gRPC alone", ">=", 0.8,
             lambda b: run(b, "rate", "--mib", "64" if b.options.quick else "256")),
            ("upload-memory", "what an uploader adds to the coordinator's peak memory, 64 against 4 of them, every write "
             "of the disk slowed by 20 ms / 4 MiB", "<=", 1.0, memory)]
