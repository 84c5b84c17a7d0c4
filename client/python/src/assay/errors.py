"""The one exception of the package."""

from __future__ import annotations


class AssayError(Exception):
    """Something was refused. `reason` is a stable token (the page of tokens is client/python/README.md and, for those that
    the programs share, docs/errors.md); the message names the file, context or position and says what to do.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __str__(self) -> str:
        return f"[{self.reason}] {super().__str__()}"
