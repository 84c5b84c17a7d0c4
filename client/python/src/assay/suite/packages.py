"""Optional packages are imported where they are needed, and missing ones named."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import AssayError


def need(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise AssayError(
            "PACKAGE_MISSING",
            f"{what} needs the Python package `{name}`: pip install {name}, or the whole extra: "
            "pip install './client/python[suite]'",
        ) from None
