#!/usr/bin/env python3
"""Expected values of the statistics that a summary derives, from the arrays of ../smollm2/known-answers.

usage: make_expected.py > expected.json      Needs NumPy and safetensors; nothing of Assay is used.

Formulas: docs/report.md. Sums are math.fsum; a bootstrap sample draws as many documents as there are with
random.Random(1).randrange and adds with CPython 3.12's compensated sum, written out here for older Pythons.
"""
import json
import math
import pathlib
import random

import numpy as np
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent / "smollm2"
ROWS = 63  # scored positions of a context


def neumaier(values):
    total, rest = 0.0, 0.0
    for x in values:
        t = total + x
        rest += (total - t) + x if abs(total) >= abs(x) else (x - t) + total
        total = t
    return total + rest if math.isfinite(rest) else total


def samples(clusters, values):
    groups = {}
    for cluster, value in zip(clusters, values):
        groups.setdefault(cluster, []).append(value)
    groups = list(groups.values())
    rng = random.Random(1)
    means = []
    for _ in range(10000):
        drawn = [v for _ in groups for v in groups[rng.randrange(len(groups))]]
        means.append(neumaier(drawn) / len(drawn))
    return sorted(means)


def interval(means, comparisons=1):
    if comparisons == 1:
        return [means[250], means[9749]]
    cut = int(0.025 / comparisons * 10000)
    return [means[cut], means[9999 - cut]]


def context_means(values):
    return [math.fsum(row) / ROWS for row in values.reshape(-1, ROWS)]


manifest = json.loads((ROOT / "suite/suite-manifest.json").read_text())
clusters = [row["source_cluster"] for row in manifest["context_index"]]
names = ["int8-channel", "int4-g32", "q4_0"]
arrays = {name: {k: v.reshape(-1) for k, v in load_file(ROOT / "known-answers" / f"{name}.oracle64.safetensors").items()}
          for name in names}
out = {"candidates": {}, "versus": {}}
for name, a in arrays.items():
    nll_ref, nll_cand, dp = a["nll_ref"], a["nll_cand"], a["delta_p"]
    n = len(dp)
    mean = math.fsum(nll_cand) / n - math.fsum(nll_ref) / n
    rows = [c - r for c, r in zip(context_means(nll_cand), context_means(nll_ref))]
    out["candidates"][name] = {
        "mean_delta_p": math.fsum(dp) / n,
        "rms_delta_p": math.sqrt(math.fsum(dp * dp) / n),
        "same_top1": float(np.mean(a["top1_ref"] == a["top1_cand"])),
        "ln_perplexity_ratio": mean,
        "ln_perplexity_ratio_ci95": interval(samples(clusters, rows)),
        "perplexity_ratio": float(np.exp(np.longdouble(mean))),
    }
# Each against the best one and, asked for, against q4_0; three candidates make two comparisons.
for base in ("int8-channel", "q4_0"):
    for name in names:
        if name == base:
            continue
        rows = [x - y for x, y in zip(context_means(arrays[name]["kl_ref_cand"]), context_means(arrays[base]["kl_ref_cand"]))]
        means = samples(clusters, rows)
        out["versus"][f"{name} minus {base}"] = {
            "difference": math.fsum(rows) / len(rows),
            "ci95": interval(means),
            "ci95_of_two": interval(means, 2),
            "ci95_of_three": interval(means, 3),
        }
print(json.dumps(out, indent=1))
