#!/usr/bin/env python3
"""The closing block of llama-perplexity --kl-divergence for one candidate of ../smollm2/known-answers.

usage: make_llamacpp_block.py int8-channel > llamacpp-block.txt      Needs NumPy and safetensors; nothing of Assay is used.

The function was checked against printouts of the tool itself (tests/data/llamacpp); rows are float32, as the tool keeps them.
"""
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file

F32, F64 = np.float32, np.float64


def closing_block(k, nll, nb, dp, same):
    n = len(k)
    S = lambda x: x.astype(F64).sum()

    def mu(s, s2):
        d = s2 / n - (s / n) ** 2
        return s / n, (d / (n - 1)) ** .5 if d > 0 and n > 10 else 0.0

    def pct(v, q):
        p = F32(q) * F32(n - 1)
        j = int(p)
        p = p - F32(j)
        return (F32(1) - p) * v[j] + p * v[min(j + 1, n - 1)]

    def med(v):
        return F32(.5) * (v[n // 2] + v[n // 2 - 1]) if n % 2 == 0 else v[n // 2]
    (a, ua), (b, ub) = mu(S(nll), S(nll * nll)), mu(S(nb), S(nb * nb))
    cov = (S(nll * nb) / n - a * b) / (n - 1)
    pa, pb, r, ur = np.exp(a), np.exp(b), a - b, (ua * ua + ub * ub - 2 * cov) ** .5
    ud = ((pa * ua) ** 2 + (pb * ub) ** 2 - 2 * pa * pb * cov) ** .5
    o = ["====== Perplexity statistics ======",
         "Mean PPL(Q)                   : %10.6f ± %10.6f" % (pa, pa * ua),
         "Mean PPL(base)                : %10.6f ± %10.6f" % (pb, pb * ub),
         "Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%" % (100 * cov / (ua * ub)),
         "Mean ln(PPL(Q)/PPL(base))     : %10.6f ± %10.6f" % (r, ur),
         "Mean PPL(Q)/PPL(base)         : %10.6f ± %10.6f" % (np.exp(r), np.exp(r) * ur),
         "Mean PPL(Q)-PPL(base)         : %10.6f ± %10.6f" % (pa - pb, ud), "",
         "====== KL divergence statistics ======",
         "Mean    KLD: %10.6f ± %10.6f" % mu(k.sum(), (k * k).sum())]
    v = np.sort(k.astype(F32))
    o += ["Maximum KLD: %10.6f" % v[-1]]
    o += ["%s%%   KLD: %10.6f" % (s, pct(v, q)) for s, q in (("99.9", .999), ("99.0", .99), ("95.0", .95), ("90.0", .9))]
    o += ["Median  KLD: %10.6f" % med(v)]
    o += ["%s%%   KLD: %10.6f" % (s, pct(v, q)) for s, q in (("10.0", .1), (" 5.0", .05), (" 1.0", .01), (" 0.1", .001))]
    o += ["Minimum KLD: %10.6f" % v[0], "", "====== Token probability statistics ======"]
    d2 = (dp * dp).astype(F64)
    o += ["Mean    Δp: %6.3f ± %5.3f %%" % tuple(100 * x for x in mu(S(dp), d2.sum()))]
    v = np.sort(dp)
    o += ["Maximum Δp: %6.3f%%" % (100 * v[-1])]
    up, dn = (("99.9", .999), ("99.0", .99), ("95.0", .95), ("90.0", .9), ("75.0", .75)), \
             (("25.0", .25), ("10.0", .1), (" 5.0", .05), (" 1.0", .01), (" 0.1", .001))
    o += ["%s%%   Δp: %6.3f%%" % (s, 100.0 * float(pct(v, q))) for s, q in up]
    o += ["Median  Δp: %6.3f%%" % (100.0 * float(med(v)))]
    o += ["%s%%   Δp: %6.3f%%" % (s, 100.0 * float(pct(v, q))) for s, q in dn]
    m, um = mu(d2.sum(), (d2 * d2).sum())
    st = same.mean()
    o += ["Minimum Δp: %6.3f%%" % (100 * v[0]), "RMS Δp    : %6.3f ± %5.3f %%" % (100 * m ** .5, 50 / m ** .5 * um),
          "Same top p: %6.3f ± %5.3f %%" % (100 * st, 100 * (st * (1 - st) / (n - 1)) ** .5)]
    return o


root = pathlib.Path(__file__).resolve().parent.parent / "smollm2/known-answers"
a = {k: v.reshape(-1) for k, v in load_file(root / f"{sys.argv[1]}.oracle64.safetensors").items()}
print("\n".join(closing_block(a["kl_ref_cand"], a["nll_cand"].astype(F32), a["nll_ref"].astype(F32), a["delta_p"].astype(F32),
                              a["top1_ref"] == a["top1_cand"])))
