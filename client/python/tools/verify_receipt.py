#!/usr/bin/env python3
"""Checks an Assay receipt and everything it binds, without any code of Assay.

    verify_receipt.py FOLDER [--key KEY.pub|KEYS.json] [--older RECEIPT.json] [--proof PROOF.json [--checkpoint NOTE ...]]

FOLDER is a candidate's folder: receipt.json, report.json, execution.json, positions/. Needs the standard library and the
PyPI or Debian package `cryptography`. The formats are described in docs/receipt.md; this file follows that page alone, so
that it and the program `assay verify` check each other.

Checked: the DSSE signature over the in-toto statement, the digests of report.json and execution.json in it, the digest of
every position array in the report, the receipt's place in the log (RFC 6962 inclusion), the signed checkpoint, the key's
id, and the mean of every array that the report states. With --older, that the log of this receipt still holds the older
one at its place: both receipts' checkpoints are of one log, and the older is not later. With --proof (assay-log-proof/1, as
`assay receipt verify --save-proof` keeps it): that the receipt is in the log of the proof's signed checkpoint, and that
the logs of the receipt's own checkpoint and of every --checkpoint (a signed note that you kept) are the beginning of it
(RFC 6962 consistency). A list of keys (assay-keys/1), given as --key or inside the proof, is checked too: each key is
signed for by the one before it, and counts for the leaves that it was in use for.

Exit status: 0 valid under the key given, 6 valid for the key in the receipt (nobody vouches for whose key that is),
5 something is wrong, 2 bad usage.
"""
from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

PAYLOAD_TYPE = "application/vnd.in-toto+json"
PREDICATE_TYPE = "urn:assay:receipt:v1"


class Refused(Exception):
    """A check failed; the text says which."""


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise Refused(f'the key "{key}" stands twice in one object')
        out[key] = value
    return out


def load_json(data: bytes, name: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=no_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Refused(f"{name} is no JSON: {error}") from None


def canonical(value: Any) -> bytes:
    """RFC 8785 of strings, integers, booleans, lists and objects: all that an envelope holds."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return b"{" + b",".join(canonical(key) + b":" + canonical(value[key]) for key in keys) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(canonical, value)) + b"]"
    if isinstance(value, float):
        raise Refused("an envelope holds no fractions")
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


def member(document: Any, *path: str) -> Any:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            raise Refused(f"{'.'.join(path)} is missing")
        document = document[key]
    return document


def decode64(text: Any, what: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Refused(f"{what} is no Base64") from None
    if base64.b64encode(data).decode() != text:
        raise Refused(f"{what} is not the Base64 of its bytes")  # unused bits of the last character
    return data


def raw_key(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def load_key(pem: bytes, what: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem)
    except ValueError as error:
        raise Refused(f"{what} is no public key: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise Refused(f"{what} is no Ed25519 key")
    return key


def check_signature(key: Ed25519PublicKey, signature: bytes, message: bytes, what: str) -> None:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        raise Refused(f"the signature of {what} is wrong") from None


def statement_of(receipt: Any, key: Ed25519PublicKey) -> Any:
    envelope = member(receipt, "envelope")
    if member(envelope, "payloadType") != PAYLOAD_TYPE:
        raise Refused("the envelope holds something else than an in-toto statement")
    payload = decode64(member(envelope, "payload"), "the payload")
    signatures = member(envelope, "signatures")
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise Refused("the envelope has not exactly one signature")
    key_id = sha256(raw_key(key)).hex()
    if member(signatures[0], "keyid") != key_id or member(receipt, "key_id") != key_id:
        raise Refused(f"the receipt is not signed with the key {key_id}")
    message = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    check_signature(key, decode64(member(signatures[0], "sig"), "the signature"), message, "the statement")
    statement = load_json(payload, "the statement")
    if member(statement, "predicateType") != PREDICATE_TYPE:
        raise Refused("the statement is of another kind")
    return statement


def inclusion_root(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """RFC 9162 2.1.3.2 (the same as RFC 6962 for this tree)."""
    if not 0 <= index < size:
        raise Refused("the leaf lies outside the log")
    node, last, root = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise Refused("the inclusion path is too long")
        if node % 2 == 1 or node == last:
            root = sha256(b"\x01" + sibling + root)
            while node % 2 == 0 and node != 0:
                node, last = node // 2, last // 2
        else:
            root = sha256(b"\x01" + root + sibling)
        node, last = node // 2, last // 2
    if last != 0:
        raise Refused("the inclusion path is too short")
    return root


def checkpoint_of(receipt: Any, key: Ed25519PublicKey) -> tuple[str, int, bytes]:
    """Origin, size and root that the signed note states."""
    note = member(receipt, "log", "checkpoint")
    if not isinstance(note, str) or "\n\n" not in note:
        raise Refused("the checkpoint is no signed note")
    body, signatures = note.split("\n\n", 1)
    body += "\n"
    lines = body.split("\n")
    if len(lines) != 4 or not lines[1].isdigit():
        raise Refused("the checkpoint has not three lines")
    for line in signatures.splitlines():
        parts = line.split(" ")
        if len(parts) != 3 or parts[0] != "\u2014" or parts[1] != lines[0]:
            continue
        data = decode64(parts[2], "the checkpoint's signature")
        expected = sha256(lines[0].encode() + b"\n\x01" + raw_key(key))[:4]
        if data[:4] != expected:
            raise Refused("the checkpoint is signed with another key")
        check_signature(key, data[4:], body.encode("utf-8"), "the checkpoint")
        return lines[0], int(lines[1]), decode64(lines[2], "the checkpoint's root")
    raise Refused("the checkpoint has no signature of its origin")


def consistency_holds(old: int, new: int, path: list[bytes], old_root: bytes, new_root: bytes) -> bool:
    """RFC 9162 2.1.4.2."""
    if old > new:
        return False
    if old == new:
        return not path and old_root == new_root
    if old == 0:
        return not path and old_root == sha256(b"")
    if old & (old - 1) == 0:  # a complete subtree: its hash is the old root and not repeated in the path
        path = [old_root, *path]
    if not path:
        return False
    node, last = old - 1, new - 1
    while node % 2 == 1:
        node, last = node // 2, last // 2
    first = second = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if node % 2 == 1 or node == last:
            first = sha256(b"\x01" + sibling + first)
            second = sha256(b"\x01" + sibling + second)
            while node % 2 == 0 and node != 0:
                node, last = node // 2, last // 2
        else:
            second = sha256(b"\x01" + second + sibling)
        node, last = node // 2, last // 2
    return last == 0 and first == old_root and second == new_root


KEY_PAYLOAD_TYPE = "application/vnd.assay.key+json"


class KeyEntry(NamedTuple):
    key: Ed25519PublicKey
    first: int
    end: int | None


def key_list(document: Any) -> list[KeyEntry]:
    """The keys of an assay-keys/1 document, every signature checked."""
    if member(document, "schema") != "assay-keys/1":
        raise Refused("the list of keys is of another form than assay-keys/1")
    entries: list[KeyEntry] = []
    before: Ed25519PublicKey | None = None
    rows = member(document, "keys")
    if not isinstance(rows, list) or not rows:
        raise Refused("the list of keys is empty")
    for number, row in enumerate(rows):
        key = load_key(str(member(row, "public_key")).encode(), f"key {number} of the list")
        first = member(row, "first_leaf")
        if not isinstance(first, int) or isinstance(first, bool) or first < (entries[-1].first if entries else 0):
            raise Refused(f"key {number} of the list begins before the one before it")
        if member(row, "key_id") != sha256(raw_key(key)).hex():
            raise Refused(f"key {number} of the list has another id")
        previous = "" if before is None else sha256(raw_key(before)).hex()
        if member(row, "previous_key_id") != previous:
            raise Refused(f"key {number} of the list does not follow the one before it")
        body = canonical({name: value for name, value in row.items() if name != "signatures"})
        message = b"DSSEv1 %d %s %d %s" % (len(KEY_PAYLOAD_TYPE), KEY_PAYLOAD_TYPE.encode(), len(body), body)
        signers = [key] if before is None else [before, key]
        signatures = member(row, "signatures")
        if not isinstance(signatures, list) or len(signatures) != len(signers):
            raise Refused(f"key {number} of the list has not {len(signers)} signatures")
        for signer, signature in zip(signers, signatures):
            if member(signature, "keyid") != sha256(raw_key(signer)).hex():
                raise Refused(f"key {number} of the list is signed by another key")
            check_signature(signer, decode64(member(signature, "sig"), "a signature"), message, f"key {number}")
        if entries:
            entries[-1] = entries[-1]._replace(end=first)
        entries.append(KeyEntry(key, first, None))
        before = key
    return entries


class Trust:
    """The keys that count, each for its leaves."""

    def __init__(self, keys: list[KeyEntry]) -> None:
        self.keys = keys

    def extend(self, more: list[KeyEntry]) -> None:
        known = {raw_key(entry.key) for entry in self.keys}
        if known & {raw_key(entry.key) for entry in more}:
            self.keys = more + [e for e in self.keys if raw_key(e.key) not in {raw_key(m.key) for m in more}]

    def of(self, leaf: int) -> list[Ed25519PublicKey]:
        return [e.key for e in self.keys if e.first <= leaf and (e.end is None or leaf < e.end)]


def signed_note(note: Any, trust: Trust) -> tuple[str, int, bytes]:
    """Origin, size and root of a note that is signed by the key of its last leaf."""
    size = note.split("\n")[1] if isinstance(note, str) and note.count("\n") > 1 else ""
    leaf = max(0, int(size) - 1) if size.isdigit() else 0
    refusal = Refused("no trusted key signed a checkpoint")
    for key in trust.of(leaf):
        try:
            return checkpoint_of({"log": {"checkpoint": note}}, key)
        except Refused as error:
            refusal = error
    raise refusal


def hex_path(values: Any) -> list[bytes]:
    if not isinstance(values, list) or not all(isinstance(v, str) and len(v) == 64 for v in values):
        raise Refused("a path of the proof is no list of digests")
    try:
        return [bytes.fromhex(value) for value in values]
    except ValueError:
        raise Refused("a path of the proof is no list of digests") from None


def check_proof(proof: Any, receipt: Any, trust: Trust, notes: list[str]) -> int:
    """The size of the proof's log, which holds the receipt and begins with the logs of all notes."""
    if member(proof, "schema") != "assay-log-proof/1":
        raise Refused("the proof is of another form than assay-log-proof/1")
    if proof.get("keys") is not None:
        trust.extend(key_list(proof["keys"]))
    origin, size, root = signed_note(member(proof, "checkpoint"), trust)
    index = member(receipt, "log", "leaf_index")
    if member(proof, "leaf_index") != index:
        raise Refused("the proof is of another leaf")
    leaf = sha256(b"\x00" + canonical(member(receipt, "envelope")))
    if inclusion_root(leaf, index, size, hex_path(member(proof, "inclusion_path"))) != root:
        raise Refused("the receipt is not in the log of the proof")
    rows: dict[int, list[bytes]] = {}
    for row in member(proof, "consistency"):
        if member(row, "old_size") in rows:
            raise Refused("the proof has two paths of one size")
        rows[member(row, "old_size")] = hex_path(member(row, "path"))
    for note in [member(receipt, "log", "checkpoint"), *notes]:
        old_origin, old_size, old_root = signed_note(note, trust)
        if old_origin != origin:
            raise Refused("a checkpoint is of another log")
        if old_size not in rows:
            raise Refused(f"the proof says nothing of a log of {old_size} leaves")
        if not consistency_holds(old_size, size, rows[old_size], old_root, root):
            raise Refused(f"the log of {old_size} leaves is not the beginning of the proof's log: it was rewritten")
    return size


def check_log(receipt: Any, statement: Any, key: Ed25519PublicKey) -> tuple[str, int, bytes]:
    origin, size, root = checkpoint_of(receipt, key)
    leaf = sha256(b"\x00" + canonical(member(receipt, "envelope")))
    index = member(receipt, "log", "leaf_index")
    path = member(receipt, "log", "inclusion_path")
    if not isinstance(index, int) or isinstance(index, bool) or not isinstance(path, list):
        raise Refused("the log block is malformed")
    try:
        siblings = [bytes.fromhex(text) for text in path]
    except (TypeError, ValueError):
        raise Refused("the inclusion path is no list of digests") from None
    if inclusion_root(leaf, index, size, siblings) != root:
        raise Refused("the receipt is not in the log whose root the checkpoint states")
    if member(statement, "predicate", "log_origin") != origin:
        raise Refused("the statement names another log")
    return origin, size, root


def check_files(folder: Path, statement: Any) -> dict[str, Any]:
    stated = {}
    for subject in member(statement, "subject"):
        stated[member(subject, "name")] = member(subject, "digest", "sha256")
    for name in ("report.json", "execution.json"):
        data = read(folder / name)
        if stated.get(name) != hashlib.sha256(data).hexdigest():
            raise Refused(f"{name} is not the file that was sealed")
    report = load_json(read(folder / "report.json"), "report.json")
    if not isinstance(report, dict):
        raise Refused("report.json is no object")
    return report


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def check_arrays(folder: Path, report: dict[str, Any]) -> int:
    """Digests of all arrays that the report names, and the mean of those whose mean it states."""
    count = 0
    for head, block in member(report, "heads").items():
        for output, array in member(block, "arrays").items():
            name = f"positions/{head}/{output}"
            if len(Path(name).parts) != 3 or ".." in Path(name).parts:
                raise Refused(f"{name} leaves the folder")
            data = read(folder / name)
            if hashlib.sha256(data).hexdigest() != member(array, "sha256"):
                raise Refused(f"{name} is not the array that was sealed")
            check_mean(name, output, data, block)
            count += 1
    return count


def check_mean(name: str, output: str, data: bytes, block: dict[str, Any]) -> None:
    stated = block.get("statistics", {}).get(output.split(".")[0], {}).get("mean")
    if isinstance(stated, dict):
        stated = stated.get("value")
    if not name.endswith(".f64") or not isinstance(stated, (int, float)):
        return
    values = struct.unpack(f"<{len(data) // 8}d", data)
    if all(map(math.isfinite, values)) and math.fsum(values) / len(values) != stated:
        raise Refused(f"the mean of {name} is {math.fsum(values) / len(values)!r}, the report states {stated!r}")


def check_older(path: Path, key: Ed25519PublicKey, origin: str, size: int) -> None:
    older = load_json(read(path), str(path))
    statement = statement_of(older, key)
    old_origin, old_size, _ = check_log(older, statement, key)
    if old_origin != origin or old_size > size:
        raise Refused(f"{path} is of another log, or later than this receipt")


def load_trust(key_file: Path) -> Trust:
    data = read(key_file)
    if data.startswith(b"{"):
        return Trust(key_list(load_json(data, str(key_file))))
    return Trust([KeyEntry(load_key(data, str(key_file)), 0, None)])


def verify(folder: Path, key_file: Path | None, older: Path | None, proof: Path | None = None, notes: Sequence[Path] = ()) -> str:
    data = read(folder / "receipt.json")
    receipt = load_json(data, "receipt.json")
    if canonical(receipt) != data:
        raise Refused("receipt.json is not in canonical form (RFC 8785)")
    if member(receipt, "schema") != "assay-receipt/1":
        raise Refused("receipt.json is of another form than assay-receipt/1")
    own = load_key(str(member(receipt, "public_key")).encode(), "the receipt's public_key")
    trust = load_trust(key_file) if key_file else Trust([KeyEntry(own, 0, None)])
    document = load_json(read(proof), str(proof)) if proof else None
    if isinstance(document, dict) and document.get("keys") is not None:
        trust.extend(key_list(document["keys"]))
    leaf = member(receipt, "log", "leaf_index")
    if not isinstance(leaf, int) or raw_key(own) not in {raw_key(key) for key in trust.of(leaf)}:
        raise Refused("the receipt was signed with another key than the one given, or outside of its leaves")
    key = own
    statement = statement_of(receipt, key)
    origin, size, _ = check_log(receipt, statement, key)
    report = check_files(folder, statement)
    arrays = check_arrays(folder, report)
    if arrays == 0:
        raise Refused("the report names no arrays")
    if older:
        check_older(older, key, origin, size)
    if proof:
        size = check_proof(document, receipt, trust, [read(note).decode("utf-8", "replace") for note in notes])
    return f"signature, log ({origin}, {size} entries), report, execution record and {arrays} arrays"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check an Assay receipt without Assay's code")
    parser.add_argument("folder", type=Path, help="a candidate's folder, the one with receipt.json")
    parser.add_argument("--key", type=Path, help="public key (PEM) or list of keys (keys.json) that you trust")
    parser.add_argument("--older", type=Path, help="an earlier receipt of the same log")
    parser.add_argument("--proof", type=Path, help="a proof of the log that was saved (assay-log-proof/1)")
    parser.add_argument("--checkpoint", type=Path, action="append", default=[], help="a signed note that you kept, with --proof")
    options = parser.parse_args(arguments)
    if options.checkpoint and not options.proof:
        parser.error("--checkpoint needs --proof")
    try:
        checked = verify(options.folder, options.key, options.older, options.proof, options.checkpoint)
    except Refused as error:
        print(f"REFUSED: {error}")
        return 5
    if options.key is None:
        print(f"VALID FOR AN UNKNOWN KEY: {checked}. Give --key to say whose it must be")
        return 6
    print(f"VALID: {checked}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
