#!/usr/bin/env python3
"""Writes the small binary inputs of tests/fuzz/corpus that no fixture has: containers and checkpoints of a few hundred bytes.

  make_corpus.py OUT        writes OUT/TARGET/*; the tree's own are those of OUT = tests/fuzz/corpus

Needs nothing but Python. The other inputs are written by hand, or lie in tests/data (seeds.txt).
"""
import base64
import hashlib
import json
import os
import struct
import sys

H, HEADS, KV, D, FFN, VOCAB = 32, 2, 1, 16, 32, 8
SIZES = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "I32": 4, "I64": 8, "F8_E4M3": 1, "BOOL": 1}
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": H,
          "intermediate_size": FFN, "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV,
          "head_dim": D, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
          "max_position_embeddings": 64}
LINEARS = {"self_attn.q_proj": (HEADS * D, H), "self_attn.k_proj": (KV * D, H), "self_attn.v_proj": (KV * D, H),
           "self_attn.o_proj": (H, HEADS * D), "mlp.gate_proj": (FFN, H), "mlp.up_proj": (FFN, H), "mlp.down_proj": (H, FFN)}


def product(shape):
    out = 1
    for n in shape:
        out *= n
    return out


def safetensors(tensors, metadata=None):
    """tensors: name -> (dtype, shape[, bytes])"""
    header, payload = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, *data) in tensors.items():
        size = product(shape) * SIZES[dtype]
        bytes_ = data[0] if data else bytes((7 * i + len(name)) & 0x3f for i in range(size))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(payload), len(payload) + size]}
        payload += bytes_
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + payload


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(keys, tensors, version=3, align=32):
    """keys: name -> bytes of type and value; tensors: name -> (ne, type, bytes)"""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, value in keys.items():
        out += text(name) + value
    offset, data = 0, b""
    for name, (ne, kind, bytes_) in tensors.items():
        out += text(name) + struct.pack("<I", len(ne)) + b"".join(struct.pack("<Q", n) for n in ne)
        out += struct.pack("<IQ", kind, offset)
        data += bytes_ + b"\0" * (-len(bytes_) % align)
        offset = len(data)
    return out + b"\0" * (-len(out) % align) + data


def u32(n):
    return struct.pack("<II", 4, n)


def f32(x):
    return struct.pack("<If", 6, x)


def string(s):
    return struct.pack("<I", 8) + text(s)


def array(kind, count, bytes_):
    return struct.pack("<IIQ", 9, kind, count) + bytes_


def model_keys():
    keys = {"general.architecture": string("llama")}
    for name, n in {"block_count": 1, "context_length": 64, "embedding_length": H, "feed_forward_length": FFN,
                    "attention.head_count": HEADS, "attention.head_count_kv": KV, "rope.dimension_count": D,
                    "attention.key_length": D, "attention.value_length": D}.items():
        keys["llama." + name] = u32(n)
    keys["llama.attention.layer_norm_rms_epsilon"] = f32(1e-5)
    keys["tokenizer.ggml.tokens"] = array(8, VOCAB, b"".join(text(f"t{i}") for i in range(VOCAB)))
    return keys


def model_tensors(kind, block, size):
    """A llama whose matrices have one ggml type (`size` bytes for `block` values)."""
    def matrix(rows, cols, kind=kind, block=block, size=size):
        return [cols, rows], kind, bytes((i * 5) & 0x3f for i in range(rows * cols // block * size))

    def vector(n):
        return [n], 0, struct.pack(f"<{n}f", *([1.0] * n))
    gguf_names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                  "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
                  "mlp.down_proj": "ffn_down"}
    tensors = {"token_embd.weight": matrix(VOCAB, H), "output.weight": matrix(VOCAB, H), "output_norm.weight": vector(H),
               "blk.0.attn_norm.weight": vector(H), "blk.0.ffn_norm.weight": vector(H)}
    for hf, (rows, cols) in LINEARS.items():
        tensors[f"blk.0.{gguf_names[hf]}.weight"] = matrix(rows, cols)
    return tensors


def hf_model(quantization, parts):
    """parts(rows, cols): suffix -> (dtype, shape) of one packed linear; None: plain bf16."""
    tensors = {"model.embed_tokens.weight": ("BF16", (VOCAB, H)), "lm_head.weight": ("BF16", (VOCAB, H)),
               "model.norm.weight": ("BF16", (H,))}
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"model.layers.0.{norm}.weight"] = ("BF16", (H,))
    for name, (rows, cols) in LINEARS.items():
        for suffix, spec in parts(rows, cols).items():
            tensors[f"model.layers.0.{name}.{suffix}"] = spec
    config = dict(CONFIG)
    if quantization is not None:
        config["quantization_config"] = quantization
    return json.dumps(config, separators=(",", ":")).encode() + b"\n" + safetensors(tensors)


def compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def checkpoints():
    yield "hf-bf16", hf_model(None, lambda r, c: {"weight": ("BF16", (r, c))})
    yield "hf-int4", hf_model(
        compressed("pack-quantized", num_bits=4, type="int", symmetric=True, strategy="group", group_size=32),
        lambda r, c: {"weight_packed": ("I32", (r, c // 8)), "weight_scale": ("BF16", (r, c // 32)),
                      "weight_shape": ("I64", (2,), struct.pack("<qq", r, c))})
    yield "hf-mxfp4", hf_model(
        compressed("mxfp4-pack-quantized", num_bits=4, type="float", symmetric=True, strategy="group", group_size=32,
                   scale_dtype="torch.uint8"),
        lambda r, c: {"weight_packed": ("U8", (r, c // 2)), "weight_scale": ("U8", (r, c // 32))})
    yield "hf-nvfp4", hf_model(
        compressed("nvfp4-pack-quantized", num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16),
        lambda r, c: {"weight_packed": ("U8", (r, c // 2)), "weight_scale": ("F8_E4M3", (r, c // 16)),
                      "weight_global_scale": ("F32", (1,), struct.pack("<f", 2.0))})
    yield "hf-fp8-block", hf_model(
        {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [16, 16], "activation_scheme": "dynamic"},
        lambda r, c: {"weight": ("F8_E4M3", (r, c)), "weight_scale_inv": ("F32", (r // 16, c // 16))})
    yield "hf-gptq", hf_model(
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True, "checkpoint_format": "gptq_v2"},
        lambda r, c: {"qweight": ("I32", (c // 8, r)), "qzeros": ("I32", (c // 32, r // 8)),
                      "scales": ("F16", (c // 32, r)),
                      "g_idx": ("I32", (c,), struct.pack(f"<{c}i", *[i // 32 for i in range(c)]))})
    yield "hf-awq", hf_model(
        {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
        lambda r, c: {"qweight": ("I32", (c, r // 8)), "qzeros": ("I32", (c // 32, r // 8)), "scales": ("F16", (c // 32, r))})
    for name, kind, block, size in (("f16", 1, 1, 2), ("q4_0", 2, 32, 18), ("q8_0", 8, 32, 34), ("iq4_nl", 20, 32, 18),
                                    ("mxfp4", 39, 32, 17)):
        yield "gguf-" + name, gguf(model_keys(), model_tensors(kind, block, size))


def containers():
    yield "safetensors", "head", safetensors({"lm_head.weight": ("BF16", (8, 4)), "lm_head.bias": ("F32", (8,))})
    yield "safetensors", "hidden", safetensors({"hidden_states": ("BF16", (2, 4))}, {"format": "pt"})
    yield "safetensors", "kinds", safetensors({"a": ("F32", ()), "b": ("I64", (0, 3)), "c": ("BOOL", (3,)), "d": ("F16", (1,)),
                                               "e": ("F8_E4M3", (2, 2, 2))}, {"a": "b", "": "x"})
    yield "safetensors", "empty", safetensors({})
    every = {f"k{kind}": struct.pack("<I", kind) + struct.pack(fmt, 1) for kind, fmt in
             {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}.items()}
    every["text"] = string("hello")
    every["numbers"] = array(5, 3, struct.pack("<3i", 1, 2, 3))
    every["texts"] = array(8, 2, text("a") + text(""))
    every["nested"] = array(9, 2, (struct.pack("<IQ", 0, 1) + b"\1") * 2)
    tensors = {"t": ([32, 2], 39, bytes(34)), "v": ([5], 0, bytes(20))}
    yield "gguf", "v3", gguf(every, tensors)
    yield "gguf", "v2", gguf(every, tensors, version=2)
    yield "gguf", "align64", gguf({"general.alignment": u32(64)}, tensors, align=64)


def llamacpp():
    context, vocab, chunks = 8, 5, 2
    tokens = [(3 * i) % vocab for i in range(context * chunks)]
    out = b"_logits_" + struct.pack("<iii", context, vocab, chunks) + struct.pack(f"<{len(tokens)}i", *tokens)
    words = 2 * ((vocab + 1) // 2) + 4
    for _ in range(chunks * (context - 1 - context // 2)):
        codes = [65535, 60000, 50000, 40000, 30000] + [0] * (words - 4 - vocab)
        row = struct.pack("<ff", 6.0 / 65535, -7.0) + struct.pack(f"<{len(codes)}H", *codes)
        out += row
    return out


def rpc():
    """A run from upload to the first lease's result, as the lines that targets/rpc.cc reads."""
    def line(method, message, more=()):
        return "\n".join([f"{method} {json.dumps(message)}"] + ["+" + json.dumps(m) for m in more])

    def upload(bytes_):
        return line("BlobService.Write", {"sha256": hashlib.sha256(bytes_).hexdigest(), "size": len(bytes_), "offset": 0,
                                          "data": base64.b64encode(bytes_).decode(), "finish": True})
    tokens = [[1, 2, 3, 4], [4, 3, 2, 1]]
    files = [json.dumps(t).encode() for t in tokens]
    digests = [hashlib.sha256(f).hexdigest() for f in files]
    manifest = {"schema": "qwen38-distribution-fidelity/1", "context_length": 4, "vocab_size": VOCAB, "hidden_size": 4,
                "model": "m", "suite_token_sha256": hashlib.sha256("".join(digests).encode()).hexdigest(),
                "contexts": [{"index": i, "stratum": "s", "source_cluster": f"c{i}", "file": f"tokens/context-{i:04d}.json",
                              "token_sha256": d, "sentinel": i == 0} for i, d in enumerate(digests)]}
    suite = json.dumps(manifest).encode()
    model = {"files": [{"path": "m.gguf", "sha256": "a" * 64, "size": 10}]}
    model_id = hashlib.sha256(json.dumps(model, separators=(",", ":"), sort_keys=True).encode()).hexdigest()
    sync = {"protocolVersion": 1, "workerId": "w", "incarnation": "0123456789abcdef", "tp": 1, "freeSlots": 1,
            "replayIdentityJson": "{\"a\":1}", "captureIdentityJson": "{\"b\":2}", "hostJson": "{}"}
    result = {"kind": "prepare", "facts": {"family": "llama"},
              "head": {"content_sha256": "b" * 64, "sha256": "c" * 64, "bytes": 10, "tensor": "weight", "vocab": VOCAB, "hidden": 4}}
    spec = {"suite": "suites/1", "filter": "all", "reference": {"model": "models/" + model_id},
            "candidates": [{"label": "c", "source": {"model": "models/" + model_id}}], "heads": ["own"]}
    head = safetensors({"weight": ("BF16", (VOCAB, 4))})
    yield "run", "\n".join([
        *map(upload, files), upload(suite), line("SuiteService.CreateSuite", {"manifestSha256": hashlib.sha256(suite).hexdigest()}),
        line("ModelService.CreateModel", {"manifestJson": json.dumps(model)}), line("SuiteService.ListSuites", {}),
        line("RunService.CreateRun", {"requestId": "r1", "spec": spec}), line("WorkerService.Synchronize", sync),
        line("WorkerService.Synchronize", {**sync, "results": [{"leaseId": "1-1-1", "resultJson": json.dumps(result)}],
                                           "leases": [{"leaseId": "1-2-1", "contextsDone": 1, "contextsTotal": 2}]}),
        line("RunService.ListRuns", {"page": {"pageSize": 1}}), line("RunService.ListUnits", {"run": "runs/1"}),
        line("EvidenceService.ListDisputes", {"run": "runs/1"}),
        line("RunService.WatchRun", {"name": "runs/1", "fromRevision": 0}), line("RunService.CancelRun", {"name": "runs/1"})])
    yield "head", "\n".join([upload(head), line("HeadService.CreateHead", {"fileSha256": hashlib.sha256(head).hexdigest()}),
                             line("HeadService.ListHeads", {"page": {"pageSize": 5, "pageToken": "heads:1"}}),
                             line("BlobService.Read", {"sha256": hashlib.sha256(head).hexdigest(), "offset": 3}),
                             line("BlobService.QueryWriteStatus", {"sha256": "d" * 64})])
    hidden = safetensors({"hidden_states": ("BF16", (3, 4))})
    chunk = {"chunk": {"index": 0, "sha256": hashlib.sha256(hidden).hexdigest(), "size": len(hidden), "offset": 0,
                       "data": base64.b64encode(hidden).decode(), "last": True}}
    yield "ingest", line("CaptureService.Ingest", {"header": {"suite": "suites/1", "suiteTokenSha256": "e" * 64, "filter": "all",
                         "candidateIdentityJson": "{}", "stackJson": "{}"}}, [chunk, chunk]) + "\n" + "\n".join([
                             line("CaptureService.PruneCaptures", {"names": ["captures/1"], "apply": True, "sealed": True}),
                             line("CaptureService.ListCaptures", {}), line("CaptureService.ListCaptureFiles", {"name": "captures/1"}),
                             line("ReportService.GetReport", {"name": "reports/" + "f" * 64}),
                             line("ReceiptService.GetPublicKey", {}), line("WorkerAdminService.ListWorkers", {}),
                             line("BlobService.FindMissing", {"sha256": ["a" * 64, "x"]})])


def store_rows():
    """Rows of every kind without a field, and a unit with some; the target puts the checksum right."""
    def row(kind, payload=b""):
        return b"AsRw" + bytes([1, kind, 0, 0]) + b"\0" * 4 + payload

    def field(number, value):
        key = struct.pack("B", number << 3 | (0 if isinstance(value, int) else 2))
        if isinstance(value, int):
            return key + bytes([value])
        return key + bytes([len(value)]) + value
    for kind in range(1, 16):
        yield f"kind-{kind:02}", row(kind)
    attempt = field(1, b"1-7-1") + field(2, b"w") + field(5, 1)
    yield "unit", row(7, field(1, 7) + field(2, 4) + field(3, b"run") + field(6, bytes([0, 3])) + field(7, 3) + field(10, b"1-7-1") +
                      field(11, attempt) + field(12, b"{}") + field(15, bytes([0])))
    operand = field(1, b"m") + field(2, b"c") + field(3, b"h")
    yield "run", row(6, field(1, b"run") + field(5, b"s") + field(7, bytes([0, 1])) + field(11, operand) +
                     field(13, field(1, b"label") + field(2, operand)) + field(14, b"own") + field(23, 3))


def main(out):
    inputs = [("store_row", n, b) for n, b in store_rows()]
    inputs += [("checkpoint", n, b) for n, b in checkpoints()] + list(containers())
    inputs += [("llamacpp_logits", "two-chunks", llamacpp())]
    inputs += [("rpc", n, t.encode()) for n, t in rpc()]
    for target, name, bytes_ in inputs:
        os.makedirs(os.path.join(out, target), exist_ok=True)
        with open(os.path.join(out, target, name), "wb") as f:
            f.write(bytes_)


if __name__ == "__main__":
    main(sys.argv[1])
