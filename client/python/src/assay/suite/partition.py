"""Order, sentinels and hold-outs of a suite."""

from __future__ import annotations

import random
from collections import Counter

from .._files import sha256_bytes
from ..errors import AssayError
from .windows import Context

ANALYSIS = "analysis"
RESERVED = (ANALYSIS, "all", "sentinel", "sentinels", "overlap")


def parse_hold_out(text: str) -> tuple[str, float]:
    """NAME=FRACTION. ValueError says what is wrong."""
    name, _, share = text.partition("=")
    if not name or name in RESERVED or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{text!r}: NAME is letters, digits, - and _, and none of {', '.join(RESERVED)}")
    try:
        fraction = float(share)
    except ValueError:
        raise ValueError(f"{text!r}: FRACTION must be a number such as 0.25") from None
    if not 0 < fraction < 1:
        raise ValueError(f"{text!r}: FRACTION must lie between 0 and 1")
    return name, fraction


def hold_out(contexts: list[Context], digests: dict[str, str], shares: dict[str, float]) -> dict[str, str]:
    """Partition of every cluster. In each stratum whole clusters are taken, in the order of a digest of their content,
    until a partition has its share of the stratum's contexts; one cluster always stays in analysis.

    The order does not change when other documents come or go. INPUT_INVALID when a partition gets nothing.
    """
    partition = {context.document.cluster: ANALYSIS for context in contexts}
    for stratum in sorted({context.document.stratum for context in contexts}):
        sizes = Counter(c.document.cluster for c in contexts if c.document.stratum == stratum)
        names = sorted(sizes, key=lambda name: (sha256_bytes(f"hold-out {digests[name]}".encode("ascii")), name))
        free = iter(names[:-1])
        total = sum(sizes.values())
        for label, share in shares.items():
            taken = 0
            while taken < total * share and (name := next(free, None)) is not None:
                partition[name] = label
                taken += sizes[name]
    for label in shares:
        if label not in partition.values():
            raise AssayError(
                "INPUT_INVALID",
                f"--hold-out {label}: every stratum has too few clusters to hold one out and keep one; add documents",
            )
    return partition


def arrange(
    contexts: list[Context], partition: dict[str, str], sentinels: int, seed: int
) -> tuple[list[Context], set[int]]:
    """The suite's order and the places of its sentinels, as the published suites draw them: shuffled from the order
    (stratum, window, document), then sentinels drawn from analysis, with one generator."""
    generator = random.Random(seed)
    order = sorted(contexts, key=lambda c: (c.document.stratum, c.window, c.document.cluster, c.document.where))
    generator.shuffle(order)
    analysis = [place for place, context in enumerate(order) if partition[context.document.cluster] == ANALYSIS]
    return order, set(generator.sample(analysis, min(sentinels, len(analysis))))
