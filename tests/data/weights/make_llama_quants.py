#!/usr/bin/env python3
"""A tiny llama GGUF whose every matrix has another quantized type, and the SHA-256 of what gguf-py decodes.

  make_llama_quants.py OUT        writes OUT/llama-quants.gguf and OUT/llama-quants.json

Digests are over the little-endian float32 matrix in Hugging Face row order. Codes are random; scales are small and finite. Needs
numpy and gguf.
"""
import hashlib
import json
import sys

import numpy as np
from gguf import GGUFWriter, GGML_QUANT_SIZES, GGMLQuantizationType as Q, dequantize

H, HEADS, D, FFN, VOCAB = 256, 2, 16, 256, 32
MATRICES = [  # gguf name, Hugging Face name, type, rows, columns, permuted
    ("token_embd.weight", "model.embed_tokens.weight", Q.Q5_K, VOCAB, H, False),
    ("output.weight", "lm_head.weight", Q.IQ4_XS, VOCAB, H, False),
    ("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", Q.Q4_K, HEADS * D, H, True),
    ("blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", Q.Q6_K, HEADS * D, H, True),
    ("blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight", Q.NVFP4, HEADS * D, H, False),
    ("blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight", Q.IQ4_NL, H, HEADS * D, False),
    ("blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight", Q.Q3_K, FFN, H, False),
    ("blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight", Q.MXFP4, FFN, H, False),
    ("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight", Q.Q2_K, H, FFN, False),
]
HALVES = {Q.Q2_K: (80, 82), Q.Q3_K: (108,), Q.Q4_K: (0, 2), Q.Q5_K: (0, 2), Q.Q6_K: (208,), Q.IQ4_NL: (0,), Q.IQ4_XS: (0,)}


def blocks(kind, rows, cols, rng):
    length, size = GGML_QUANT_SIZES[kind]
    b = rng.integers(0, 256, (rows * cols // length, size), dtype=np.uint8)
    for at in HALVES.get(kind, ()):
        b[:, at:at + 2] = (rng.random(len(b)) * 0.01 + 1e-3).astype(np.float16).view(np.uint8).reshape(-1, 2)
    if kind == Q.MXFP4:
        b[:, 0] = rng.integers(115, 125, len(b))
    if kind == Q.NVFP4:
        b[:, :4] = rng.integers(1, 120, (len(b), 4))
    return b.reshape(rows, -1)


def main(out):
    rng = np.random.default_rng(9)
    w = GGUFWriter(f"{out}/llama-quants.gguf", "llama")
    w.add_block_count(1), w.add_embedding_length(H), w.add_feed_forward_length(FFN), w.add_context_length(64)
    w.add_head_count(HEADS), w.add_head_count_kv(HEADS), w.add_key_length(D), w.add_value_length(D)
    w.add_rope_dimension_count(D), w.add_layer_norm_rms_eps(1e-5)
    expected = {}
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        w.add_tensor(name, rng.random(H, dtype=np.float32) + 0.5)
    scale = np.array([0.0371], np.float32)
    w.add_tensor("blk.0.attn_v.scale", scale)
    w.add_tensor("blk.0.attn_v.input_scale", scale)
    for name, hf, kind, rows, cols, permuted in MATRICES:
        b = blocks(kind, rows, cols, rng)
        w.add_tensor(name, b, raw_dtype=kind)
        y = dequantize(b, kind).astype(np.float32).reshape(rows, cols)
        if permuted:  # file row 2j+p of a head is row p*(D/2)+j
            y = y.reshape(-1, D // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)
        if kind == Q.NVFP4:
            y = y * scale
        expected[hf] = {"type": kind.name, "sha256": hashlib.sha256(np.ascontiguousarray(y, "<f4").tobytes()).hexdigest()}
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    with open(f"{out}/llama-quants.json", "w", encoding="utf-8") as f:
        json.dump(expected, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
