"""The rows decode-*: every weight format against a copy of the float32 it becomes."""
import json
import subprocess

FORMATS = ["gguf-bf16", "gguf-f16", "gguf-q8_0", "gguf-q4_0", "gguf-q4_1", "gguf-q5_0", "gguf-q5_1", "gguf-q2_k", "gguf-q3_k",
           "gguf-q4_k", "gguf-q5_k", "gguf-q6_k", "gguf-iq4_nl", "gguf-iq4_xs", "gguf-mxfp4", "gguf-nvfp4", "int4",
           "int4-zero-points", "int3", "int8", "fp8-block", "mxfp8", "nvfp4", "mxfp4", "gptq", "gptq-order", "awq"]
PROMISED = 4.0


def run(bench, name):
    done = subprocess.run([bench.program("assay_decode_bench"), name], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def rows():
    """As ROWS of table.py."""
    return [(f"decode-{name}", f"decoding {name}, 4,096 x 4,096, one thread / copying its float32", "<=", PROMISED,
             lambda bench, name=name: run(bench, name)) for name in FORMATS]
