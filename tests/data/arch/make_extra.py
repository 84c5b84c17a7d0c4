#!/usr/bin/env python3
"""Makes the files here that are not copies of the fixtures they come from.

  make_extra.py FIXTURES OUT     FIXTURES holds the original folders and reference_forward.py (README.md beside this file)

* NAME/golden.safetensors: the original's without logits, float32 and bf16 hidden states;
* gguf/NAME.bf16.{gguf,safetensors}: the folder NAME and its golden, with names, keys and types as llama.cpp's converter writes them, through
  gguf-py's own table of tensor names;
* long.safetensors: float64 hidden states of the NumPy reference at positions where a long context could go wrong.

Needs numpy and gguf. Expected values come from the fixtures' programs, never from Assay.
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, RopeScalingType, get_tensor_name_map

FOLDERS = ["qwen2-sharded", "qwen2-sliding", "qwen3", "qwen3-yarn-tied"]
GGUF = {"qwen2-sharded": MODEL_ARCH.QWEN2, "qwen3-yarn-tied": MODEL_ARCH.QWEN3}
# Borders of blocks of 256 queries and of windows of 16 and 300, and what lies between.
ROWS = [0, 15, 16, 17, 100, 255, 256, 257, 270, 271, 272, 299, 300, 301, 511, 512, 513, 527, 528, 555, 556, 557, 599]


def write_safetensors(path, tensors, metadata=None):
    names = {np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.int64): "I64"}
    header, offset = ({"__metadata__": metadata} if metadata else {}), 0
    for name, a in tensors.items():
        header[name] = {"dtype": names[a.dtype], "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def raw_tensors(ref, folder):
    """name -> float32 (exact bf16 values)"""
    out = {}
    for f in sorted(folder.glob("model*.safetensors")):
        out.update(ref.read_safetensors(f))
    return out


def write_gguf(ref, folder, arch, path):
    c = json.loads((folder / "config.json").read_text())
    w = GGUFWriter(path, {MODEL_ARCH.QWEN2: "qwen2", MODEL_ARCH.QWEN3: "qwen3"}[arch])
    w.add_type("model")
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    rope = c.get("rope_parameters") or {}
    if rope.get("rope_type") == "yarn":
        w.add_rope_scaling_type(RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    w.add_rope_freq_base(rope.get("rope_theta", c.get("rope_theta")))
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    if "head_dim" in c:
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    w.add_file_type(32)
    # A tokenizer as these families have it; fewer tokens than rows, as in padded vocabularies.
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list([f"t{i}" for i in range(300)])
    w.add_token_types([1] * 300)
    names = get_tensor_name_map(arch, c["num_hidden_layers"])
    for name, a in raw_tensors(ref, folder).items():
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if a.ndim == 1:
            w.add_tensor(new, a.astype(np.float32))
        else:
            bits = (a.view(np.uint32) >> 16).astype(np.uint16)
            w.add_tensor(new, bits.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def long_rows(ref, folder, key, out, edit=None):
    with tempfile.TemporaryDirectory() as tmp:
        at = Path(tmp) / "m"
        shutil.copytree(folder, at)
        config = json.loads((at / "config.json").read_text())
        config.update(edit or {})
        (at / "config.json").unlink()
        (at / "config.json").write_text(json.dumps(config))
        model = ref.Model(at)
        ids = np.random.default_rng(len(key)).integers(0, model.c.V, 600)
        _, hidden, _ = model.forward(ids)
    out[f"{key}.input_ids"] = ids.astype(np.int64)
    out[f"{key}.rows"] = np.array(ROWS, np.int64)
    out[f"{key}.hidden_f64"] = hidden[ROWS]


def main():
    source, root = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(source))
    import reference_forward as ref
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
        for f in (source / name).iterdir():
            if f.name != "golden.safetensors":
                shutil.copyfile(f, root / name / f.name)
        gold = ref.read_safetensors(source / name / "golden.safetensors")
        keep = {k: v for k, v in gold.items()
                if k.rpartition(".")[2] in ("input_ids", "hidden_f64", "residual", "inv_freq")}
        write_safetensors(root / name / "golden.safetensors", keep)
    (root / "gguf").mkdir(exist_ok=True)
    for name, arch in GGUF.items():
        write_gguf(ref, source / name, arch, root / "gguf" / f"{name}.bf16.gguf")
        gold = ref.read_safetensors(root / name / "golden.safetensors")
        keep = {k: v for k, v in gold.items() if k.rpartition(".")[2] in ("input_ids", "hidden_f64")}
        write_safetensors(root / "gguf" / f"{name}.bf16.safetensors", keep)
    out = {}
    long_rows(ref, source / "llama", "llama", out)
    long_rows(ref, source / "qwen2-sliding", "qwen2-sliding", out)
    long_rows(ref, source / "qwen2-sliding", "qwen2-sliding-300", out, {"sliding_window": 300})
    long_rows(ref, source / "qwen3-yarn-tied", "qwen3-yarn-tied", out)
    write_safetensors(root / "long.safetensors", out)


if __name__ == "__main__":
    main()
