"""Peer of assay_replay_bench: the replay function of a peer's tools/fidelity.py on the same data and threads.

Usage: replay_peer.py CLONE VOCAB HIDDEN POSITIONS THREADS REPEATS HEAD_FD ROWS_FD... where the descriptors are of
inherited memory that holds bf16 matrices: the head, the reference's rows, and each candidate's. Times the first
candidate. Prints {"default": {"wall": s, "processor": s}, "fp32": {...}, "torch": version}. Exit 77 when it cannot run.
"""
import importlib.util
import json
import mmap
import os
import sys
import time

clone = sys.argv[1]
vocab, hidden, positions, threads, repeats, head_fd, *rows_fds = map(int, sys.argv[2:])
try:
    import torch

    path = os.path.join(clone, "tools", "fidelity.py")
    spec = importlib.util.spec_from_file_location("fidelity", path if os.path.exists(path) else os.path.join(clone, "fidelity.py"))
    fidelity = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fidelity)
except (ImportError, OSError) as error:
    print(error, file=sys.stderr)
    sys.exit(77)

torch.set_num_threads(threads)


def matrix(descriptor, rows):
    memory = mmap.mmap(descriptor, rows * hidden * 2)
    return torch.frombuffer(memory, dtype=torch.bfloat16).view(rows, hidden)


def measure(dtype):
    head, ref, cand = (m.to(dtype) for m in (matrix(head_fd, vocab), *(matrix(fd, positions) for fd in rows_fds[:2])))
    # The first rows warm up oneDNN's kernels and the memory.
    fidelity.context_metrics(ref[:8], cand[:8], head, 24832)
    wall = processor = float("inf")
    for _ in range(repeats):
        start, spent = time.perf_counter(), time.process_time()
        fidelity.context_metrics(ref, cand, head, 24832)
        wall = min(wall, time.perf_counter() - start)
        processor = min(processor, time.process_time() - spent)
    return {"wall": wall, "processor": processor}


print(json.dumps({"default": measure(torch.bfloat16), "fp32": measure(torch.float32), "torch": torch.__version__}))
