"""Suites made from one's own texts: the command `assay-suite`."""
