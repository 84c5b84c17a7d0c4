"""Assay's Python client: captures from any engine, suites and results as numpy arrays."""

__version__ = "0.1.0"
