"""The messages of proto/assay/v1, from the descriptors that the build has put beside this file."""

from __future__ import annotations

from importlib import resources
from typing import Any

from ..errors import AssayError

DESCRIPTORS = "assay_v1.binpb"
_pool: Any = None


def message(name: str) -> Any:
    """The class of message assay.v1.NAME. SERVER_EXTRA_MISSING when protobuf is not installed, or the package was built
    without descriptors."""
    global _pool
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise _missing(str(error)) from None
    if _pool is None:
        file = resources.files(__package__).joinpath(DESCRIPTORS)
        if not file.is_file():
            raise _missing("the package was built where there was no protoc, or is used from its sources")
        pool = descriptor_pool.DescriptorPool()
        for one in descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file:
            pool.Add(one)
        _pool = pool
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"assay.v1.{name}"))


def _missing(why: str) -> AssayError:
    return AssayError("SERVER_EXTRA_MISSING", f"{why}; pip install './client/python[server]'")
