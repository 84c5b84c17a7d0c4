"""Assay's Python client: captures from any engine, suites and results as numpy arrays.

    assay.CaptureWriter   any engine produces a capture in ten lines (docs/guides/own-captures.md)
    assay.load_suite      the contexts that an engine is to be fed
    assay.load            the results of a score as numpy arrays, each position with context, token and stratum
    assay.remote          captures streamed to a coordinator (extra `server`)
"""

__version__ = "0.1.0"

from .capture import CaptureWriter  # noqa: E402
from .errors import AssayError  # noqa: E402
from .results import Candidate, Head, Result, load  # noqa: E402
from .suites import Context, Suite, load_suite  # noqa: E402

__all__ = [
    "AssayError",
    "Candidate",
    "CaptureWriter",
    "Context",
    "Head",
    "Result",
    "Suite",
    "__version__",
    "load",
    "load_suite",
]
