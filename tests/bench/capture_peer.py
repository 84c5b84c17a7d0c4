"""Peer of capture_bench: the same model, texts and threads in transformers, float32, batches of 8.

Usage: capture_peer.py MODEL.gguf CONTEXTS.json THREADS PASSES. CONTEXTS holds equally long lists of token
ids. Prints {"wall": tokens/s, "cpu": tokens per CPU second}. Exit 77 when a package is missing.
"""
import json
import os
import sys
import time

model_path, contexts_path, threads, passes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
try:
    import torch
    from transformers import AutoModelForCausalLM
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(
    os.path.dirname(os.path.abspath(model_path)), gguf_file=os.path.basename(model_path), dtype=torch.float32)
body = model.eval().model  # up to the final norm, as the engine: no head
with open(contexts_path) as file:
    contexts = torch.tensor(json.load(file))

wall = cpu = 0.0
with torch.inference_mode():
    body(contexts[:8], use_cache=False)
    for _ in range(passes):
        start, cpu_start = time.perf_counter(), time.process_time()
        for i in range(0, len(contexts), 8):
            body(contexts[i:i + 8], use_cache=False).last_hidden_state.to(torch.bfloat16)
        wall = max(wall, contexts.numel() / (time.perf_counter() - start))
        cpu = max(cpu, contexts.numel() / (time.process_time() - cpu_start))
print(json.dumps({"wall": wall, "cpu": cpu}))
