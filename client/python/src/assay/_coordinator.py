"""Calls to a coordinator (assayd) over gRPC, with the retries of the `assay` program."""

from __future__ import annotations

import ipaddress
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ._files import sha256_bytes
from ._wire import message
from .errors import AssayError
from .suites import MANIFEST_NAME, Suite, token_file_bytes

CHUNK_BYTES = 1 << 20
MESSAGE_BYTES_MAX = 4 << 20
DIGESTS_PER_CALL = 10_000
ATTEMPTS = 6  # in a row without a byte moved
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 3.0
UNARY_S = 30.0
SLOWEST_BYTES_PER_S = 1 << 18
INGEST_S = 3600.0

T = TypeVar("T")


@dataclass(frozen=True)
class Security:
    """Who a client is, and how it knows the coordinator: files, so that no secret is in the code. What is None comes from
    ASSAY_TOKEN_FILE, ASSAY_TLS_CA, ASSAY_TLS_CERT and ASSAY_TLS_KEY."""

    token_file: str | Path | None = None
    tls_ca: str | Path | None = None
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None

    def path(self, name: str) -> Path | None:
        value = getattr(self, name) or os.environ.get("ASSAY_" + name.upper())
        return Path(value) if value else None


def is_local(server: str) -> bool:
    """A Unix socket, or this machine's loopback. Names are not looked up."""
    if server.startswith(("/", "unix:")):
        return True
    host = server.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """The token in a file that other users of this machine cannot read."""
    try:
        if path.stat().st_mode & 0o007:
            raise AssayError("TOKEN_FILE_INVALID", f"{path}: every user of this machine may use it; run chmod 600")
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AssayError("TOKEN_FILE_INVALID", f"{path}: {error}") from None
    if not lines or not re.fullmatch("[a-z0-9_]+", lines[0]):
        raise AssayError("TOKEN_FILE_INVALID", f"{path}: its first line is no token, as assayd token create prints it")
    return lines[0]


class Coordinator:
    """A connection. Thread-safe as far as grpc's channels are; close it."""

    def __init__(self, server: str, security: Security | None = None) -> None:
        try:
            import grpc
        except ImportError as error:
            raise AssayError("SERVER_EXTRA_MISSING", f"{error}; pip install './client/python[server]'") from None
        self._grpc = grpc
        self.server = server
        target = f"unix:{server}" if server.startswith("/") else server
        limits = [("grpc.max_send_message_length", MESSAGE_BYTES_MAX), ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)]
        self._security = security or Security()
        self._token_file = self._security.path("token_file")
        if self._token_file is not None:
            read_token(self._token_file)  # a bad file is told now
        self._channel = self._open(target, [*limits, ("grpc.enable_http_proxy", 0)])

    def _open(self, target: str, options: list[tuple[str, int]]) -> Any:
        files = [self._security.path(name) for name in ("tls_ca", "tls_key", "tls_cert")]
        given = [file for file in files if file is not None]
        if not given:
            if not is_local(self.server):
                raise AssayError(
                    "TLS_REQUIRED",
                    f"{self.server} is not on this machine, and nothing is sent there in the clear; give tls_ca, tls_cert "
                    "and tls_key, or use a tunnel to a loopback address",
                )
            return self._grpc.insecure_channel(target, options=options)
        if len(given) != len(files):
            raise AssayError("TLS_INVALID", "mutual TLS needs all three of tls_ca, tls_cert and tls_key")
        if target.startswith("unix:"):
            return self._grpc.insecure_channel(target, options=options)
        try:
            credentials = self._grpc.ssl_channel_credentials(*(file.read_bytes() for file in given))
        except OSError as error:
            raise AssayError("TLS_INVALID", str(error)) from None
        return self._grpc.secure_channel(target, credentials, options=options)

    def _metadata(self) -> list[tuple[str, str]]:
        """The token as its file has it now."""
        return [] if self._token_file is None else [("authorization", f"Bearer {read_token(self._token_file)}")]

    def close(self) -> None:
        self._channel.close()

    def call(self, method: str, request: Any, answer: str, timeout: float = UNARY_S) -> Any:
        """One unary call, retried while the server cannot be reached. `method`: "BlobService/FindMissing"."""
        stub = self._channel.unary_unary(
            f"/assay.v1.{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=message(answer).FromString,
        )
        return self._retry(lambda: stub(request, timeout=timeout, metadata=self._metadata()), lambda: False)

    def stream(self, method: str, requests: Iterator[Any], kind: str, answer: str, timeout: float) -> Any:
        """One client stream, not retried. The server's last word is what counts."""
        stub = self._channel.stream_unary(
            f"/assay.v1.{method}",
            request_serializer=message(kind).SerializeToString,
            response_deserializer=message(answer).FromString,
        )
        return stub(requests, timeout=timeout, metadata=self._metadata())

    def _error(self, error: Any) -> AssayError:
        reason = next((value for key, value in error.trailing_metadata() or () if key == "assay-reason"), None)
        code = error.code()
        if reason is None:
            names = {
                self._grpc.StatusCode.UNAVAILABLE: "SERVER_UNREACHABLE",
                self._grpc.StatusCode.DEADLINE_EXCEEDED: "SERVER_TIMEOUT",
                self._grpc.StatusCode.UNIMPLEMENTED: "SERVER_TOO_OLD",
                self._grpc.StatusCode.CANCELLED: "CALL_CANCELLED",
            }
            reason = names.get(code, "RPC_FAILED")
        return AssayError(str(reason), f"{self.server}: {error.details()}")

    def _transient(self, error: Any, reason: str) -> bool:
        codes = self._grpc.StatusCode
        return error.code() in (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED, codes.ABORTED) or reason in (
            "BLOB_BUSY",
            "OFFSET_MISMATCH",
        )

    def _retry(self, once: Callable[[], T], moved: Callable[[], bool]) -> T:
        failures = 0
        while True:
            try:
                return once()
            except self._grpc.RpcError as error:
                refusal = self._error(error)
                failures = 1 if moved() else failures + 1
                if not self._transient(error, refusal.reason) or failures >= ATTEMPTS:
                    raise refusal from None
            time.sleep(min(RETRY_FIRST_S * 2 ** (failures - 1), RETRY_MAX_S) * random.uniform(0.5, 1.0))

    def find_missing(self, digests: Sequence[str]) -> set[str]:
        missing: set[str] = set()
        for start in range(0, len(digests), DIGESTS_PER_CALL):
            request = message("FindMissingRequest")(sha256=digests[start : start + DIGESTS_PER_CALL])
            missing |= set(self.call("BlobService/FindMissing", request, "FindMissingResponse").missing)
        return missing

    def upload(self, data: bytes, sha256: str) -> None:
        """After it the store holds `data`. Nothing is sent when it does already; a broken upload goes on where it stopped,
        also one of an earlier process."""
        committed = [0]
        moved = [False]

        def once() -> None:
            request = message("QueryWriteStatusRequest")(sha256=sha256)
            status = self.call("BlobService/QueryWriteStatus", request, "QueryWriteStatusResponse")
            if status.complete:
                return
            moved[0] = status.committed_size > committed[0]
            committed[0] = min(int(status.committed_size), len(data))
            timeout = UNARY_S + (len(data) - committed[0]) / SLOWEST_BYTES_PER_S
            chunks = self._chunks(data, sha256, committed[0])
            self.stream("BlobService/Write", chunks, "WriteRequest", "WriteResponse", timeout)

        self._retry(once, lambda: moved[0])

    @staticmethod
    def _chunks(data: bytes, sha256: str, begin: int) -> Iterator[Any]:
        request = message("WriteRequest")
        while True:
            end = min(begin + CHUNK_BYTES, len(data))
            yield request(sha256=sha256, size=len(data), offset=begin, data=data[begin:end], finish=end == len(data))
            if end == len(data):
                return
            begin = end

    def register_suite(self, suite: Suite) -> str:
        """Makes the suite known and gives its name, "suites/ID". Sends only what the coordinator lacks."""
        manifest = (suite.dir / MANIFEST_NAME).read_bytes()
        files = {context.token_sha256: context for context in suite}
        missing = self.find_missing([suite.manifest_sha256, *files])
        for digest in missing:
            data = manifest if digest == suite.manifest_sha256 else token_file_bytes(files[digest].tokens)
            self.upload(data, sha256_bytes(data))
        request = message("CreateSuiteRequest")(manifest_sha256=suite.manifest_sha256)
        return str(self.call("SuiteService/CreateSuite", request, "Suite").name)

    def ingest(self, header: dict[str, str], files: Sequence[tuple[int, str, int]]) -> Any:
        """Makes a capture of files (index, digest, size; in suite order) that the store holds."""
        request, chunk = message("IngestRequest"), message("IngestChunk")

        def requests() -> Iterator[Any]:
            yield request(header=message("IngestHeader")(**header))
            for index, sha256, size in files:
                yield request(chunk=chunk(index=index, sha256=sha256, size=size, last=True))

        def once() -> Any:
            return self.stream("CaptureService/Ingest", requests(), "IngestRequest", "Capture", INGEST_S)

        return self._retry(once, lambda: False)
