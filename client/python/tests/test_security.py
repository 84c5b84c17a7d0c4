"""Who a client is, and where it sends nothing: tokens and certificates of `assay.remote`."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import assay
from assay._coordinator import Coordinator, Security, is_local, read_token

TOKEN = "assay_0123456789abcdef_" + 64 * "0"


class Local(unittest.TestCase):
    def test_only_sockets_and_loopback_are_local(self) -> None:
        for server in ("/run/s", "unix:/run/s", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"):
            self.assertTrue(is_local(server), server)
        for server in ("10.0.0.1:1", "0.0.0.0:1", "[::]:1", "example.org:1", "localhost.example.org:1", "127.0.0.1.example.org:1"):
            self.assertFalse(is_local(server), server)


class Tokens(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="assay-token.")
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "token"

    def write(self, text: str, mode: int = 0o600) -> None:
        self.file.write_text(text, encoding="utf-8")
        self.file.chmod(mode)

    def test_a_token_is_the_first_line_of_a_private_file(self) -> None:
        self.write(TOKEN + "\n")
        self.assertEqual(read_token(self.file), TOKEN)

    def test_open_empty_and_foreign_files_are_refused(self) -> None:
        for text, mode in ((TOKEN, 0o644), ("", 0o600), ("two words\n", 0o600), ("tök\n", 0o600)):
            self.write(text, mode)
            with self.assertRaises(assay.AssayError) as refusal:
                read_token(self.file)
            self.assertEqual(refusal.exception.reason, "TOKEN_FILE_INVALID")
        with self.assertRaises(assay.AssayError):
            read_token(self.file.with_name("none"))

    def test_the_environment_names_what_is_not_given(self) -> None:
        with mock.patch.dict(os.environ, {"ASSAY_TOKEN_FILE": "/a", "ASSAY_TLS_CA": "/b"}):
            self.assertEqual(Security(token_file="/c").path("token_file"), Path("/c"))
            self.assertEqual(Security().path("token_file"), Path("/a"))
            self.assertEqual(Security().path("tls_ca"), Path("/b"))
            self.assertIsNone(Security().path("tls_key"))

    def test_nothing_is_sent_in_the_clear_to_another_machine(self) -> None:
        try:
            import grpc  # noqa: F401
        except ImportError:
            self.skipTest("grpcio is not installed")
        for security, reason in ((Security(), "TLS_REQUIRED"), (Security(tls_ca=self.file), "TLS_INVALID")):
            with self.assertRaises(assay.AssayError) as refusal:
                Coordinator("coordinator.example:7070", security)
            self.assertEqual(refusal.exception.reason, reason)


if __name__ == "__main__":
    unittest.main()
