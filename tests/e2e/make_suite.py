#!/usr/bin/env python3
"""Writes a small suite of pseudo-random token ids in the published manifest form, for end-to-end tests.

make_suite.py --out DIR --vocab N [--hidden N] [--contexts N] [--length N] [--seed N] [--max-id N]
"""
from __future__ import annotations

import argparse
import hashlib
import json
import random
from pathlib import Path

STRATA = ("code", "prose", "structured")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--vocab", required=True, type=int, help="the vocabulary size that the manifest states")
    parser.add_argument("--max-id", type=int, help="ids are below this; by default the vocabulary size")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--contexts", type=int, default=10)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    generator = random.Random(args.seed)
    (args.out / "tokens").mkdir(parents=True)
    rows = []
    for index in range(args.contexts):
        ids = [generator.randrange(args.max_id or args.vocab) for _ in range(args.length)]
        text = json.dumps(ids).encode("ascii")
        name = f"tokens/context-{index:04d}.json"
        (args.out / name).write_bytes(text)
        rows.append({
            "index": index, "stratum": STRATA[index % len(STRATA)], "source_cluster": f"document-{index}",
            "file": name, "tokens": args.length, "token_sha256": hashlib.sha256(text).hexdigest(),
            "calibration_shingle_hits": 0,
            "partition": "qualification" if index % 5 == 4 else "analysis", "sentinel": index in (1, 3),
        })
    count = lambda key, value: sum(row[key] == value for row in rows)
    manifest = {
        "schema": "qwen38-distribution-fidelity/3",
        "model": "tiny",
        "context_length": args.length,
        "scored_positions_per_context": args.length - 1,
        "contexts": args.contexts,
        "total_scored_positions": args.contexts * (args.length - 1),
        "hidden_size": args.hidden,
        "vocab_size": args.vocab,
        "held_out": True,
        "corpus_note": "Pseudo-random token ids for tests; no text.",
        "partitions": {"analysis": count("partition", "analysis"),
                       "qualification": count("partition", "qualification"),
                       "sentinels": count("sentinel", True)},
        "strata": {name: count("stratum", name) for name in STRATA if count("stratum", name)},
        "source_clusters": args.contexts,
        "context_index": rows,
        "suite_token_sha256": hashlib.sha256("".join(row["token_sha256"] for row in rows).encode()).hexdigest(),
    }
    (args.out / "suite-manifest.json").write_text(json.dumps(manifest, indent=2), encoding="ascii")


if __name__ == "__main__":
    main()
