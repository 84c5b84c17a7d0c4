#!/usr/bin/env python3
"""Writes joint.json: statistics over windows, computed with numpy and Python's statistics module.

    python3 make_joint.py > joint.json

Independent of the product: numpy draws and averages, statistics.NormalDist gives the normal distribution, binomials are
exact integers. Student's t quantiles are checked by integrating the density numerically.
"""
import hashlib
import json
import math
import statistics
from fractions import Fraction

import numpy as np

SEED = 20260829
NORMAL = statistics.NormalDist()


def bootstrap(values, resamples, seed):
    values = np.asarray(values, np.float64)
    rng = np.random.default_rng(seed)
    boots = np.array([values[rng.integers(0, len(values), len(values))].mean() for _ in range(resamples)])
    boots.sort()
    mean = math.fsum(values) / len(values)
    share = min(max((boots < mean).sum() / resamples, 1 / (resamples + 1)), 1 - 1 / (resamples + 1))
    z0 = NORMAL.inv_cdf(share)
    total = math.fsum(values)
    jack = [(total - x) / (len(values) - 1) for x in values]
    centre = math.fsum(jack) / len(jack)
    cubes, squares = math.fsum((centre - j) ** 3 for j in jack), math.fsum((centre - j) ** 2 for j in jack)
    a = cubes / (6 * squares ** 1.5)

    def end(alpha):
        w = z0 + NORMAL.inv_cdf(alpha)
        return float(np.quantile(boots, NORMAL.cdf(z0 + w / (1 - a * w))))

    return {"mean": mean, "percentile": [float(np.quantile(boots, q)) for q in (0.025, 0.975)],
            "bca": [end(0.025), end(0.975)]}


def clustered(totals, counts):
    n, g = sum(counts), len(counts)
    m = math.fsum(totals) / n
    return math.sqrt(g / (g - 1) * math.fsum((t - c * m) ** 2 for t, c in zip(totals, counts))) / n


def binomial(k, n):
    return float(min(Fraction(1), Fraction(2 * sum(math.comb(n, i) for i in range(min(k, n - k) + 1)), 2 ** n)))


def t_quantile(p, df):
    """Simpson's rule over the density, inverted by bisection."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def cdf(t):
        x = np.linspace(0, t, 200_001)
        y = scale * (1 + x * x / df) ** (-(df + 1) / 2)
        return 0.5 + (t / 200_000 / 3) * (y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum())

    low, high = 0.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle) < p else (low, middle)
    return low


def main():
    rng = np.random.default_rng(7)
    a = [float(x) for x in np.exp(rng.normal(-3.5, 0.6, 25))]
    b = [x * float(f) for x, f in zip(a, np.exp(rng.normal(0.1, 0.2, 25)))]
    counts = [int(x) for x in rng.integers(100, 3000, 12)]
    totals = [float(c * x) for c, x in zip(counts, np.exp(rng.normal(-4, 0.5, 12)))]
    label = int.from_bytes(hashlib.sha256(b"axis2_legal").digest()[:8], "big") & 0x7FFFFFFF
    out = {
        "integers": {str(seed): [int(x) for x in np.random.default_rng(seed).integers(0, n, 40)]
                     for seed, n in ((42, 10), (SEED, 25), (2 ** 40 + 3, 17), (0, 1_000_003))},
        "integers_below": {"42": 10, str(SEED): 25, str(2 ** 40 + 3): 17, "0": 1_000_003},
        "a": a, "b": b,
        "bootstrap_a": bootstrap(a, 5000, SEED),
        "bootstrap_17": bootstrap(a[:17], 5000, SEED),
        "bootstrap_difference": bootstrap([x - y for x, y in zip(a, b)], 2000, SEED),
        "totals": totals, "counts": counts, "clustered_se": clustered(totals, counts),
        "derived_seed": SEED ^ label,
        "normal_quantile": {repr(p): NORMAL.inv_cdf(p) for p in (1e-300, 1e-20, 1e-5, 0.01, 0.08, 0.3, 0.5, 0.975, 0.999999)},
        "normal_cdf": {repr(x): NORMAL.cdf(x) for x in (-5.0, -1.96, -0.3, 0.0, 0.7, 2.5)},
        "binomial": [[k, n, binomial(k, n)] for k, n in ((5, 25), (4, 17), (963, 2592), (459, 944), (0, 40), (12, 25))],
        "t_quantile": [[df, t_quantile(0.975, df)] for df in (2, 3, 5, 7, 24)],
        "pairwise": [[n, float(np.sum(np.asarray([math.sin(i) for i in range(n)])))] for n in (0, 1, 7, 8, 19, 128, 129, 1000, 2047)],
    }
    print(json.dumps(out, indent=1))


main()
