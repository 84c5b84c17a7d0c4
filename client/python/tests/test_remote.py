"""Captures streamed to a real coordinator over real gRPC: whole, resumed after a crash of the engine, through a connection
that breaks in the middle of a file, and what is refused."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from fixtures import BIN, make_suite, need_programs

import assay
from assay import _wire
from assay.suites import load_suite

try:
    import grpc  # noqa: F401

    _wire.message("Capture")
    MISSING = ""
except (ImportError, assay.AssayError) as error:
    MISSING = f"the extra `server` is not usable: {error}"

LENGTH, HIDDEN = 20, 64
# Files of several chunks, so that a connection can break inside one.
WIDE = 65536


def states(context: int, width: int = HIDDEN) -> Any:
    return np.random.default_rng(context).standard_normal((LENGTH, width)).astype(np.float32)


class Breaker:
    """A TCP proxy that cuts every connection after `limit` bytes towards the server, until `limit` is set to None."""

    def __init__(self, port: int, limit: int) -> None:
        self.limit: int | None = limit
        self.cuts = 0
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                return
            self._sockets += [client, server]
            for source, target, counted in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pump, args=(source, target, counted), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        passed = 0
        try:
            while data := source.recv(1 << 16):
                passed += len(data)
                if counted and self.limit is not None and passed > self.limit:
                    self.cuts += 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@unittest.skipIf(MISSING, MISSING)
class RemoteTest(unittest.TestCase):
    port: int
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        need_programs()
        made = tempfile.TemporaryDirectory(prefix="assay-py-")
        cls.addClassCleanup(made.cleanup)
        cls.folder = Path(made.name)
        make_suite(cls.folder / "suite", length=LENGTH)
        ready, log = cls.folder / "ready", (cls.folder / "assayd.log").open("wb")
        cls.addClassCleanup(log.close)
        command = [BIN / "assayd", "--data", cls.folder / "data", "--listen", "127.0.0.1:0", "--ready-file", ready]
        process = subprocess.Popen([str(c) for c in (*command, "--min-free-bytes", 0, "--ballast-bytes", 0)], stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        deadline = time.monotonic() + 60
        while not (ready.exists() and ready.read_text().strip()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((cls.folder / "assayd.log").read_text()[-2000:])
            time.sleep(0.05)
        cls.port = int(ready.read_text().split()[0].rsplit(":", 1)[1])

    def setUp(self) -> None:
        # Imported here: without grpc the module is not usable, and the class is skipped.
        from assay.remote import CoordinatorWriter, send_capture

        self.send_capture = send_capture
        self.kind = CoordinatorWriter
        self.server = f"127.0.0.1:{self.port}"
        self.suite = load_suite(self.folder / "suite")

    def writer(self, server: str = "", **options: Any) -> Any:
        named = {"cut": "after_final_norm", "model": "tiny", "engine": self.id(), **options}
        return self.kind(server or self.server, self.suite, **named)

    def capture(self, name: str) -> Any:
        from assay._coordinator import Coordinator

        connection = Coordinator(self.server)
        self.addCleanup(connection.close)
        return connection.call("CaptureService/GetCapture", _wire.message("GetCaptureRequest")(name=name), "Capture")

    def refused(self, reason: str) -> Any:
        test = self

        class Check:
            def __enter__(self) -> None:
                pass

            def __exit__(self, kind: object, error: object, trace: object) -> bool:
                test.assertIsInstance(error, assay.AssayError)
                test.assertEqual(getattr(error, "reason", ""), reason, str(error))
                return True

        return Check()

    def test_a_streamed_capture_is_the_one_that_a_folder_holds(self) -> None:
        with self.writer(kernels={"attention": "eager"}) as writer:
            for context in reversed(writer.missing()):
                writer.add(context.index, states(context.index))
        folder = self.folder / self.id()
        named = {"cut": "after_final_norm", "model": "tiny", "engine": self.id(), "kernels": {"attention": "eager"}}
        local = assay.CaptureWriter(folder, self.suite, **named)  # type: ignore[arg-type]
        for context in local.missing():
            local.add(context.index, states(context.index))
        stored = self.capture(writer.name)
        self.assertEqual(stored.content_sha256, local.close())
        self.assertEqual(stored.content_sha256, writer.close())
        self.assertEqual((stored.contexts_done, stored.contexts_total, stored.hidden), (8, 8, HIDDEN))
        self.assertEqual(stored.origin, "ingest")
        self.assertEqual(self.send_capture(folder, self.suite, self.server), writer.name)
        damaged = folder / "hidden_0004.safetensors"
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x33")
        with self.refused("DIGEST_MISMATCH"):
            self.send_capture(folder, self.suite, self.server)

    def test_a_new_process_goes_on_with_the_journal(self) -> None:
        journal = self.folder / "journal"
        with self.assertRaises(RuntimeError), self.writer(journal=journal) as writer:
            for context in writer.missing()[:5]:
                writer.add(context.index, states(context.index))
            raise RuntimeError("the engine fell over")
        self.assertEqual(writer.name, "")
        document = json.loads(journal.read_bytes())
        document["records"][2]["sha256"] = "0" * 64  # the coordinator does not have it
        journal.write_text(json.dumps(document))
        with self.writer(journal=journal) as writer:
            self.assertEqual([c.index for c in writer.missing()], [2, 5, 6, 7])
            for context in writer.missing():
                writer.add(context.index, states(context.index))
        self.assertEqual(self.capture(writer.name).contexts_done, 8)
        with self.refused("CAPTURE_OUT_OCCUPIED"):
            self.writer(journal=journal, dtype="bf16")

    def test_a_connection_that_breaks_in_a_file_is_taken_up(self) -> None:
        size = (LENGTH - 1) * WIDE * 4
        breaker = Breaker(self.port, limit=size - (2 << 20))
        self.addCleanup(breaker.close)
        with self.writer(breaker.address, filter="sentinel") as writer:
            writer.add(1, states(1, WIDE))
            self.assertGreater(breaker.cuts, 0)
            breaker.limit = None
            writer.add(3, states(3, WIDE))
        files = self.capture(writer.name)
        self.assertEqual((files.contexts_done, files.hidden), (2, WIDE))

    def test_an_incomplete_capture_does_not_exist(self) -> None:
        writer = self.writer()
        writer.add(0, states(0))
        with self.refused("CAPTURE_INCOMPLETE"):
            writer.close()
        self.assertEqual(writer.name, "")

    def test_a_server_that_is_not_there_is_named(self) -> None:
        with self.refused("SERVER_UNREACHABLE"):
            self.writer("127.0.0.1:1")


if __name__ == "__main__":
    unittest.main()
