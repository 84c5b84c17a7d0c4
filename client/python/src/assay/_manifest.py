"""The capture manifest, `qwen38-fidelity-capture/2`: who captured what, with which engine, and a digest of every file."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import __version__
from ._files import canonical_sha256, read_json, sha256_file
from ._hidden import DTypeRule
from .errors import AssayError
from .suites import Suite

MANIFEST_NAME = "capture-manifest.json"
SCHEMA = "qwen38-fidelity-capture/2"
AFTER_FINAL_NORM = "after_final_rmsnorm_before_lm_head"
CUTS = {"after_final_norm": AFTER_FINAL_NORM, AFTER_FINAL_NORM: AFTER_FINAL_NORM}
IDENTITY_BYTES_MAX = 256 << 10


@dataclass(frozen=True)
class Record:
    """One stored context: its file's digest and its shape."""

    index: int
    sha256: str
    rows: int
    width: int
    size: int = 0  # bytes of the file; not in the manifest

    def to_json(self) -> dict[str, Any]:
        return {"index": self.index, "sha256": self.sha256, "shape": [self.rows, self.width]}


@dataclass(frozen=True)
class Description:
    """What is known before the first context: everything of the manifest but the records."""

    suite: Suite
    filter: str
    cut: str
    model: str
    engine: str
    engine_version: str
    dtype: DTypeRule
    kernels: Mapping[str, Any] = field(default_factory=dict)
    stack: Mapping[str, Any] = field(default_factory=dict)
    quantization: str | None = None
    model_digests: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expected(self) -> list[int]:
        return [c.index for c in self.suite.select(self.filter)]

    def engine_identity(self) -> dict[str, Any]:
        """The stack fingerprint: `kernels` is what decides the bits, the rest says where it ran."""
        named = {"engine": self.engine, "engine_version": self.engine_version}
        return {
            **named,
            "kernels": {**named, **self.kernels, "hidden_dtype": self.dtype, "hidden_rounding": self.rounding},
            "writer": f"assay-client {__version__}",
            "python": platform.python_version(),
            "machine": platform.machine(),
            **self.stack,
        }

    @property
    def rounding(self) -> str:
        return "bf16-rne" if self.dtype == "bf16" else "none"

    def candidate_identity(self) -> dict[str, Any]:
        return {
            "model_path": self.model,
            "model_revision": None,
            "model_revision_source": "none",
            "index_sha256": None,
            "config_sha256": None,
            "shard_sha256": None,
            "quantization": self.quantization,
            "quantization_config": None,
            "trust_remote_code": False,
            "kv_cache_dtype_requested": None,
            "kv_cache_dtype_resolved": "unresolved",
            "kv_cache_dtype_resolved_source": "unavailable",
            **self.model_digests,
        }

    def contract(self) -> dict[str, Any]:
        """What must be the same for a capture to be continued."""
        identity = self.candidate_identity()
        content = ("model_revision", "index_sha256", "config_sha256", "shard_sha256")
        copied = ("trust_remote_code", "kv_cache_dtype_requested", "kv_cache_dtype_resolved")
        return {
            "suite_token_sha256": self.suite.suite_token_sha256,
            "context_length": self.suite.context_length,
            "filter": self.filter,
            "expected_indices": self.expected,
            "candidate_content": {key: identity[key] for key in content},
            "runtime": {
                "quantization": self.quantization,
                "quantization_config": None,
                **{key: identity[key] for key in copied},
                "fp32": self.dtype == "f32",
                "chunk_accumulate": False,
                "max_batched_tokens": 0,
                "cut_point": self.cut,
                "engine": self.engine,
                "kernels": self.engine_identity()["kernels"],
            },
        }

    def manifest(self, records: list[Record], complete: bool, elapsed_sec: float) -> dict[str, Any]:
        identity, contract = self.candidate_identity(), self.contract()
        return {
            "schema": SCHEMA,
            "model": self.model,
            "quantization": self.quantization,
            "quantization_config": None,
            "kv_cache_dtype": None,
            "candidate_identity": identity,
            "engine_identity": self.engine_identity(),
            "cut_point": self.cut,
            "suite_token_sha256": self.suite.suite_token_sha256,
            "filter": self.filter,
            "context_length": self.suite.context_length,
            "expected_contexts": len(self.expected),
            "expected_indices": sorted(self.expected),
            "capture_contract": contract,
            "capture_contract_sha256": canonical_sha256(contract),
            "contexts": len(records),
            "captures": [r.to_json() for r in sorted(records, key=lambda r: r.index)],
            "complete": complete,
            "elapsed_sec": elapsed_sec,
        }

    def content_sha256(self, records: list[Record]) -> str:
        """What was captured, whoever wrote it: the content digest that reports name."""
        rows = [r.to_json() for r in sorted(records, key=lambda r: r.index)]
        return canonical_sha256(
            {"suite_token_sha256": self.suite.suite_token_sha256, "cut_point": self.cut, "records": rows}
        )


PORTABLE_IDENTITY = (
    "assay_model",
    "model_revision",
    "index_sha256",
    "config_sha256",
    "shard_sha256",
    "quantization",
    "quantization_config",
    "trust_remote_code",
    "kv_cache_dtype_requested",
    "kv_cache_dtype_resolved",
)


def portable(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a coordinator is told of a capture beside its files; the same as when `assay` imports the folder."""
    out: dict[str, Any] = {key: manifest[key] for key in ("schema", "complete") if key in manifest}
    if isinstance(identity := manifest.get("candidate_identity"), dict):
        out["candidate_identity"] = {key: identity[key] for key in PORTABLE_IDENTITY if key in identity}
    if isinstance(stack := manifest.get("engine_identity"), dict):
        out["engine_identity"] = stack
    runtime = (manifest.get("capture_contract") or {}).get("runtime")
    if isinstance(runtime, dict):
        out["capture_contract"] = {"runtime": runtime}
    return out


def resolve_cut(cut: str) -> str:
    """The published name of a cut point. CUT_UNKNOWN for a point whose rows no head can be applied to."""
    if cut in CUTS:
        return CUTS[cut]
    raise AssayError(
        "CUT_UNKNOWN",
        f"cut {cut!r} is not a point that a head can be applied to; give the states that the model's lm_head takes, after the "
        "final norm, and say cut='after_final_norm' (states from before the norm: apply it first, in float32)",
    )


def model_name(model: str) -> str:
    """A name for people. Of a local path only its last part: captures carry no path of the machine they were made on."""
    path = Path(model).expanduser()
    return path.resolve().name if path.is_absolute() or path.exists() or model.startswith(("./", "../", "~")) else model


def model_shards(folder: Path) -> list[Path]:
    """The weight files of a Hugging Face folder: those of the index, else model.safetensors, else all there are."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [folder / str(name) for name in sorted(set(read_json(index, "sharded model").get("weight_map", {}).values()))]
    single = folder / "model.safetensors"
    shards = [single] if single.is_file() else sorted(folder.glob("*.safetensors"))
    if not shards:
        raise AssayError("MODEL_MISSING", f"{folder}: neither a file nor a folder with *.safetensors; give the model's files")
    return shards


def digest_model(files: str | Path) -> dict[str, Any]:
    """Digests of a model's files (a Hugging Face folder, or one file), as manifests state them. Reads all of them."""
    path = Path(files)
    if path.is_file():
        return {"shard_sha256": {path.name: sha256_file(path)}}
    shards = model_shards(path)
    out: dict[str, Any] = {"shard_sha256": {shard.name: sha256_file(shard) for shard in shards}}
    for key, name in (("config_sha256", "config.json"), ("index_sha256", "model.safetensors.index.json")):
        if (path / name).is_file():
            out[key] = sha256_file(path / name)
    revision = re.fullmatch(r"[0-9a-f]{40}", path.resolve().name)
    if revision and path.resolve().parent.name == "snapshots":
        out |= {"model_revision": revision[0], "model_revision_source": "hub_snapshot"}
    return out
