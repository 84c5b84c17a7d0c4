"""Adds one step to the build: proto/assay/v1 becomes a descriptor set inside the package (assay/_wire/assay_v1.binpb).

Descriptors instead of generated code: they work with whatever protobuf runtime the user's engine has pinned. Without a
protoc (neither grpcio-tools nor the program) the package is built without them, and only `assay.remote` refuses.
"""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import which

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
PROTO_ROOT = HERE.parent.parent / "proto"


def protoc_command() -> list[str] | None:
    try:
        import grpc_tools  # noqa: F401
    except ImportError:
        found = which("protoc")
        return [found] if found else None
    return [sys.executable, "-m", "grpc_tools.protoc"]


class BuildWithDescriptors(build_py):
    def run(self) -> None:
        super().run()
        protos = sorted((PROTO_ROOT / "assay" / "v1").glob("*.proto"))
        protoc = protoc_command()
        if not protos or protoc is None:
            why = f"no protocol files in {PROTO_ROOT}" if not protos else "no protoc (pip install grpcio-tools)"
            print(f"warning: built without assay.remote: {why}", file=sys.stderr)
            return
        out = Path(self.build_lib) / "assay" / "_wire" / "assay_v1.binpb"
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [*protoc, f"-I{PROTO_ROOT}", "--include_imports", f"--descriptor_set_out={out}", *map(str, protos)],
            check=True,
        )


setup(cmdclass={"build_py": BuildWithDescriptors})
