"""Captures from files that other engines have written: the command `assay-capture import`."""
