#!/usr/bin/env python3
"""Writes ladder.json: ten shards and five candidates of synthetic reports, and the digests of the peer's receipts.

    python3 make_ladder.py PEER_CLONE > ladder.json       # runs PEER_CLONE/tools/kld_aggregate.py
    python3 make_ladder.py PEER_CLONE --keep DIR          # leaves suite, reports and receipts in DIR

ladder.json holds rows and histogram counts; reports and suite are built from it by fixed rules, here and in
published_ladder_test.cc, so that the digests cover every byte of both. Candidate 4 has reports of the first generation
(no histogram, no window), candidate 3 reports of windows, candidate 2 has an exact zero and a negative divergence.
"""
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile

SHARDS, SIZE, POSITIONS, CANDIDATES = 10, 7, 47, 5
EDGES = [10 ** (-12.0 + i / 40) for i in range(561)]
GENERATED = 1767312000


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def pretty(value):
    return json.dumps(value, indent=2)


def suite(contexts):
    index = [{"index": c["index"], "stratum": c["stratum"], "source_cluster": c["cluster"],
              "file": "tokens/context-%04d.json" % c["index"], "tokens": POSITIONS + 1,
              "token_sha256": sha("tokens %d" % c["index"]), "calibration_shingle_hits": 0, "partition": "analysis",
              "sentinel": False} for c in contexts]
    strata = {}
    for row in index:
        strata[row["stratum"]] = strata.get(row["stratum"], 0) + 1
    return {"schema": "qwen38-distribution-fidelity/3", "model": "/models/synthetic", "context_length": POSITIONS + 1,
            "scored_positions_per_context": POSITIONS, "contexts": len(index),
            "total_scored_positions": POSITIONS * len(index), "hidden_size": 96, "vocab_size": 1200, "held_out": True,
            "partitions": {"analysis": len(index), "qualification": 0, "sentinels": 0},
            "strata": dict(sorted(strata.items())), "source_clusters": len({r["source_cluster"] for r in index}),
            "context_index": index,
            "suite_token_sha256": sha("".join(r["token_sha256"] for r in index))}


def report(data, candidate, shard):
    """A report of the peer's form; figures that an aggregate does not look at are left out or plain."""
    rows = data["candidates"][candidate]["rows"][shard * SIZE:(shard + 1) * SIZE]
    contexts = data["contexts"][shard * SIZE:(shard + 1) * SIZE]
    score_from = data["candidates"][candidate]["score_from"]
    each = POSITIONS - score_from
    first = data["candidates"][candidate]["first_generation"]
    identity = {"model_path": "/models/candidate-%d" % candidate, "model_revision": None, "shard_sha256": {"a": sha("a")}}
    out = {"schema": "qwen38-fidelity-report/%d" % (1 if first else 3 if score_from else 2),
           "reference": "captures/%d/bf16" % shard, "candidate": "captures/%d/%d" % (shard, candidate),
           "reference_identity": {"model_path": "/models/bf16", "model_revision": None, "shard_sha256": {"b": sha("b")}},
           "candidate_identity": identity, "head": "head/weight.safetensors", "head_sha256": sha("head"),
           "candidate_head": None, "candidate_head_sha256": None,
           "suite_token_sha256": sha("".join(sha("tokens %d" % c["index"]) for c in contexts)), "filter": "all"}
    if not first:
        out["scored_position_window"] = {"schema": "qwen38-scored-position-window/1", "score_from": score_from,
                                         "positions_per_context": each}
    total = each * SIZE
    worst = max(r["max"] for r in rows)
    out.update({"contexts": SIZE, "scored_positions": total, "vocab_size": 1200, "hidden_size": 96,
                "token_mean_kld": math.fsum(r["mean"] * each for r in rows) / total, "p999_kld": worst, "max_kld": worst})
    if not first:
        counts = [0] * 562
        for bucket, count in data["candidates"][candidate]["counts"][shard]:
            counts[bucket] = count
        out["kld_tail"] = {"binning": {"bins": 560}, "bin_edges": EDGES, "counts": counts, "total_count": total,
                           "max_kld": worst, "min_kld": data["candidates"][candidate]["least"][shard],
                           "shard_exact_quantiles": {"p50": worst, "p95": worst, "p99": worst, "p999": worst}}
    out["context_macro_mean_kld"] = math.fsum(r["mean"] for r in rows) / SIZE
    out["mean_jsd_bits"] = rows[0]["mean"] / 3
    out["top1_agreement"] = sum(r["hits"] for r in rows) / total
    out["per_context_all"] = [{"index": c["index"], "source_cluster": c["cluster"], "stratum": c["stratum"],
                               "positions_scored": each, "mean_kld": r["mean"], "median_kld": r["median"],
                               "top1_agreement": r["hits"] / each} for c, r in zip(contexts, rows)]
    out["comparator"] = {"vocab_chunk": 24832, "device": "cuda", "accumulation": "float64", "two_pass": True}
    return out


def make():
    rng = random.Random(5)
    data = {"contexts": [{"index": i, "stratum": ["code", "literary", "scientific"][i % 3],
                          "cluster": "doc-%02d" % rng.randrange(12)} for i in range(SHARDS * SIZE)], "candidates": []}
    for candidate in range(CANDIDATES):
        score_from = 16 if candidate == 3 else 0
        each = POSITIONS - score_from
        rows, counts, least = [], [], []
        for shard in range(SHARDS):
            values = []
            for _ in range(SIZE):
                level = math.exp(rng.gauss(-6 + candidate / 2, 0.7))
                kl = [level * math.exp(rng.gauss(0, 1.5)) for _ in range(each)]
                if candidate == 2:
                    kl[0], kl[1] = 0.0, -1e-9
                values.append(kl)
                rows.append({"mean": math.fsum(kl) / each, "median": sorted(kl)[(each - 1) // 2], "max": max(kl),
                             "hits": each - sum(v > 0.02 for v in kl)})
            histogram = {}
            for v in (v for kl in values for v in kl):
                bucket = sum(e <= v for e in EDGES)
                histogram[bucket] = histogram.get(bucket, 0) + 1
            counts.append(sorted(histogram.items()))
            least.append(min(min(kl) for kl in values))
        data["candidates"].append({"score_from": score_from, "first_generation": candidate == 4, "rows": rows,
                                   "counts": counts, "least": least})
    return data


def without_sentences(document):
    """The receipt with every fixed sentence blank, its content digest computed again."""
    document.update({"tool": "", "generated_unix": GENERATED, "not_aggregable": {}})
    document["scored_position_window"]["policy"] = document["consistency"]["note"] = ""
    document["bootstrap_config"].update({"unit": "", "over": ""})
    if document["tail"]:
        document["tail"].update({"source": "", "method": ""})
    content = {k: v for k, v in document.items()
               if k not in ("generated_unix", "content_sha256", "content_sha256_excludes")}
    document["content_sha256"] = sha(json.dumps(content, sort_keys=True, separators=(",", ":")))
    return document


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def main():
    peer, keep = sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else None
    folder = keep or tempfile.mkdtemp()
    data = make()
    write(folder + "/suite/suite-manifest.json", pretty(suite(data["contexts"])))
    for candidate in range(CANDIDATES):
        paths = []
        for shard in range(SHARDS):
            paths.append("reports/shard-%04d/%d.json" % (shard, candidate))
            write(folder + "/" + paths[-1], pretty(report(data, candidate, shard)))
        receipt = "receipts/%d.json" % candidate
        os.makedirs(folder + "/receipts", exist_ok=True)
        words = [sys.executable, os.path.abspath(peer) + "/tools/kld_aggregate.py", "aggregate", "--out", receipt,
                 "--suite", "suite", "--shard-size", str(SIZE), "--shards", "0-9", "--label", "candidate %d" % candidate]
        if data["candidates"][candidate]["first_generation"]:
            words.append("--allow-legacy-no-tail")
        subprocess.run(words + paths, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        document = json.load(open(folder + "/" + receipt))
        data["candidates"][candidate]["receipt_sha256"] = sha(pretty(without_sentences(document)))
    data["generated_unix"] = GENERATED
    if not keep:
        json.dump(data, sys.stdout, separators=(",", ":"))


main()
