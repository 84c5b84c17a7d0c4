"""The row capture-verify: verifying a capture against plain SHA-256 over its files."""
import json
import subprocess

PROMISED = 0.8


def run(bench):
    words = [bench.program("assay_verify_bench"), "--threads", str(bench.options.threads),
             "--contexts", "4" if bench.options.quick else "16"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def rows():
    """As ROWS of table.py."""
    return [("capture-verify", "verifying a capture, bytes per second / OpenSSL's SHA-256 over its files", ">=", PROMISED, run)]
