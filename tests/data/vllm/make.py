"""Writes what lies beside it: files in the layout of vLLM's hidden-state extractor, made of the golden residual streams of
../arch/llama (computed by another program), a suite of their tokens, and the manifests that the Python package's importer
writes of them. Run with client/python and safetensors installed: python make.py"""

import hashlib
import json
import shutil
import struct
import tempfile
from pathlib import Path

import numpy as np
from safetensors import safe_open

from assay.imports.vllm import import_vllm

HERE = Path(__file__).parent
LLAMA = HERE.parent / "arch" / "llama"
LENGTH, LAYER_IDS = 33, [2, 3]  # 3: num_hidden_layers
REQUESTS = {"cmpl-9": ("seq1", 33), "cmpl-4": ("seq2", 36)}  # the second with three generated tokens


def write_suite(contexts: list[list[int]]) -> None:
    (HERE / "suite" / "tokens").mkdir(parents=True)
    rows = []
    for index, ids in enumerate(contexts):
        data = json.dumps(ids).encode()
        name = f"tokens/context-{index:04d}.json"
        (HERE / "suite" / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        row = {"index": index, "stratum": "code", "source_cluster": f"d{index}", "file": name}
        rows.append({**row, "tokens": LENGTH, "token_sha256": digest, "partition": "analysis", "sentinel": index == 0})
    joined = hashlib.sha256("".join(str(r["token_sha256"]) for r in rows).encode()).hexdigest()
    manifest = {"schema": "qwen38-distribution-fidelity/3", "context_length": LENGTH, "context_index": rows}
    (HERE / "suite" / "suite-manifest.json").write_text(json.dumps({**manifest, "suite_token_sha256": joined}))


def main() -> None:
    for name in ("suite", "extracted"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / "extracted").mkdir()
    contexts = []
    with safe_open(LLAMA / "golden.safetensors", "np") as golden:
        for request, (sequence, count) in REQUESTS.items():
            ids = golden.get_tensor(f"{sequence}.input_ids").ravel()[:count].astype(np.int64)
            residual = golden.get_tensor(f"{sequence}.residual")
            states = np.stack([residual[layer][:count] for layer in LAYER_IDS], axis=1)
            bits = np.ascontiguousarray(states, dtype=np.float32).view(np.uint32)
            bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # bfloat16, to nearest even
            entries, data = {}, b""
            for name, dtype, values in (("hidden_states", "BF16", bits), ("token_ids", "I64", ids)):
                end = len(data) + values.nbytes
                entries[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [len(data), end]}
                data += values.tobytes()
            header = json.dumps(entries).encode()
            header += b" " * (-len(header) % 8)
            path = HERE / "extracted" / f"{request}.safetensors"
            path.write_bytes(struct.pack("<Q", len(header)) + header + data)
            contexts.append([int(i) for i in ids[:LENGTH]])
    write_suite(contexts)
    for store in ("bf16", "keep"):
        with tempfile.TemporaryDirectory() as out:
            import_vllm(HERE / "extracted", HERE / "suite", out, cut="before_final_norm", final_norm=LLAMA,
                        layer_ids=[3, 2], engine_version="0.20.2", stack={"gpu": "H200"}, store=store)
            shutil.copy(Path(out) / "capture-manifest.json", HERE / f"manifest-{store}.json")


if __name__ == "__main__":
    main()
