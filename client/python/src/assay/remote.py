"""Captures streamed to a coordinator: nothing is kept on the engine's machine. Extra `server`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._coordinator import Coordinator, Security
from ._files import pretty_json, read_json, sha256_bytes, write_atomic
from ._hidden import hidden_file_name
from ._manifest import MANIFEST_NAME, Record, portable
from .capture import BaseWriter, WriterOptions
from .errors import AssayError
from .suites import Suite, load_suite

if TYPE_CHECKING:
    from typing_extensions import Unpack

JOURNAL_SCHEMA = "assay-capture-journal/1"


class CoordinatorWriter(BaseWriter):
    """Like `CaptureWriter`, but each context goes to the coordinator as it is added.

        with CoordinatorWriter("coordinator:7070", suite, cut="after_final_norm", model="my-model", engine="my-engine",
                               journal="my-capture.journal") as writer:
            for context in writer.missing():
                writer.add(context.index, run(context.tokens))
        print(writer.name)  # captures/ID

    `server`: HOST:PORT, unix:PATH or the absolute path of a socket. The capture exists only when it is complete. A broken
    connection is taken up where it stopped, inside `add`. `journal` names a small file that remembers what was delivered,
    so that the same lines in a new process go on; without it a new process computes again, and sends only what the
    coordinator lacks. `security`: token and certificates, by default those of the environment (`Security`). The other
    parameters are those of `BaseWriter`.
    """

    def __init__(
        self,
        server: str,
        suite: Suite | str | Path,
        *,
        journal: str | Path | None = None,
        security: Security | None = None,
        **options: Unpack[WriterOptions],
    ) -> None:
        super().__init__(suite, **options)
        self.name = ""
        """"captures/ID" once the capture is complete."""
        self._journal = Path(journal) if journal is not None else None
        self._coordinator = Coordinator(server, security)
        try:
            self.suite_name = self._coordinator.register_suite(self.suite)
            if self._journal is not None and self._journal.exists():
                self._adopt(self._journal)
        except BaseException:
            self._coordinator.close()
            raise

    def _contract_sha256(self) -> str:
        return str(self._description.manifest([], False, 0.0)["capture_contract_sha256"])

    def _adopt(self, path: Path) -> None:
        journal = read_json(path, "journal of a capture")
        if journal.get("schema") != JOURNAL_SCHEMA or journal.get("capture_contract_sha256") != self._contract_sha256():
            raise AssayError(
                "CAPTURE_OUT_OCCUPIED",
                f"{path} is of another capture (its suite, filter, cut, engine, dtype rule or model files differ); choose "
                "another journal or delete this one",
            )
        records = [Record(**row) for row in journal["records"]]
        missing = self._coordinator.find_missing([r.sha256 for r in records])
        self._records = {r.index: r for r in records if r.sha256 not in missing and r.index in self._contexts}
        self.kept = len(self._records)
        if self._records:
            self._stored_dtype, self._width = journal["stored_dtype"], records[0].width

    def _put(self, record: Record, data: bytes) -> None:
        self._coordinator.upload(data, record.sha256)

    def _checkpoint(self) -> None:
        if self._journal is None:
            return
        document = {
            "schema": JOURNAL_SCHEMA,
            "capture_contract_sha256": self._contract_sha256(),
            "stored_dtype": self._stored_dtype,
            "records": [vars(record) for record in self._records.values()],
        }
        write_atomic(self._journal, pretty_json(document))

    def _finish(self) -> None:
        self._checkpoint()
        header = _header(self.suite_name, self._description.manifest([], True, 0.0))
        files = [(index, self._records[index].sha256, self._records[index].size) for index in self._contexts]
        self.name = str(self._coordinator.ingest(header, files).name)

    def _release(self) -> None:
        self._coordinator.close()


def _header(suite_name: str, manifest: dict[str, Any]) -> dict[str, str]:
    """The first message of an ingest. A coordinator that knows manifest_json needs no other description."""
    return {
        "suite": suite_name,
        "suite_token_sha256": str(manifest["suite_token_sha256"]),
        "filter": str(manifest.get("filter") or "all"),
        "cut_point": str(manifest.get("cut_point", "")),
        "candidate_identity_json": json.dumps(manifest.get("candidate_identity", {})),
        "stack_json": json.dumps(manifest.get("engine_identity", {})),
        "manifest_json": json.dumps(portable(manifest)),
    }


def send_capture(
    folder: str | Path, suite: Suite | str | Path, server: str, *, security: Security | None = None
) -> str:
    """Delivers a finished capture folder to a coordinator; gives its name, "captures/ID". Sends only what is missing there,
    so that a broken call can be repeated. DIGEST_MISMATCH names a file that is not as its manifest says."""
    path = Path(folder)
    manifest = read_json(path / MANIFEST_NAME, "capture")
    panel = suite if isinstance(suite, Suite) else load_suite(suite)
    if manifest.get("complete") is not True or manifest.get("suite_token_sha256") != panel.suite_token_sha256:
        raise AssayError("CAPTURE_INCOMPLETE", f"{path}: not complete, or not of the suite in {panel.dir}")
    of = {int(row["index"]): row for row in manifest["captures"]}
    coordinator = Coordinator(server, security)
    try:
        name = coordinator.register_suite(panel)
        files = []
        for context in panel.select(str(manifest.get("filter") or "all")):
            file = path / hidden_file_name(context.index)
            data = file.read_bytes()
            digest = sha256_bytes(data)
            if digest != of[context.index]["sha256"]:
                raise AssayError("DIGEST_MISMATCH", f"{file}: not the bytes that {MANIFEST_NAME} names; fetch it again")
            coordinator.upload(data, digest)
            files.append((context.index, digest, len(data)))
        header = _header(name, manifest)
        return str(coordinator.ingest(header, files).name)
    finally:
        coordinator.close()
