#!/usr/bin/env python3
"""Stands in the place of assay-rank beside an assay-worker: starts the real one and passes every line on, but may lie.

A lie is a replay result of the right form with one bit of one number flipped, its digest made to fit: what a machine
with a fault, or with a will, would deliver.

  WATCHED_RANK   the real program
  WATCHED_NAME   this worker
  WATCHED_NOTES  a folder shared by the workers: which replays are done, and by whom
  WATCHED_LIE    never; first: replays that nobody has done before; second: replays that another worker has done
  WATCHED_AFTER  hold back replays until the worker of this name has done one
"""

import hashlib
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

NOTES = pathlib.Path(os.environ["WATCHED_NOTES"])
NAME = os.environ["WATCHED_NAME"]
LIE = os.environ.get("WATCHED_LIE", "never")
AFTER = os.environ.get("WATCHED_AFTER", "")


def noted(name="*"):
    return sorted(path.name for path in NOTES.glob(f"{name}@*"))


class Replay:
    """A replay unit that is worked on: its name among the workers, whether to lie, where its file goes."""

    def __init__(self, unit, out_dir):
        contexts = "-".join(str(context["index"]) for context in unit["contexts"])
        self.name = contexts + "_" + "+".join(c["id"].replace("/", ".") for c in unit["comparisons"])
        self.out_dir = pathlib.Path(out_dir)
        deadline = time.monotonic() + 60
        while AFTER and not noted(AFTER) and time.monotonic() < deadline:
            time.sleep(0.02)
        by_others = [note for note in noted() if note.split("@", 1)[1] == self.name and not note.startswith(NAME + "@")]
        self.lies = LIE == ("second" if by_others else "first")

    def end(self, result):
        if self.lies:
            path = self.out_dir / os.path.basename(result["file"])
            data = bytearray(path.read_bytes())
            header = struct.unpack("<Q", data[:8])[0]
            tensors = json.loads(data[8:8 + header])
            name = next(key for key in sorted(tensors) if key.endswith("kl_ref_cand"))
            data[8 + header + tensors[name]["data_offsets"][0]] ^= 1  # the lowest bit of the first value
            path.write_bytes(data)
            result["sha256"] = hashlib.sha256(data).hexdigest()
            (NOTES / f"lie-{NAME}-{self.name}").touch()
        (NOTES / f"{NAME}@{self.name}").touch()
        return result


def pump(source, target, change):
    pending = b""
    while chunk := source.recv(1 << 16):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            target.sendall(change(line) + b"\n")


def main():
    parent = socket.socket(fileno=os.dup(3))
    ours, ranks = socket.socketpair()
    os.dup2(ranks.fileno(), 3, inheritable=True)
    child = subprocess.Popen([os.environ["WATCHED_RANK"], "--fd", "3"], pass_fds=(3,))
    os.close(3)
    ranks.close()
    units = {}

    def command(line):
        message = json.loads(line)
        if message["op"] == "run":
            unit = json.loads(pathlib.Path(message["unit"]).read_text())
            if unit["kind"] == "replay" and unit["comparisons"][0]["id"] != "noise/own":  # those are never done twice
                units[message["id"]] = Replay(unit, message["out_dir"])
        return line

    def event(line):
        message = json.loads(line)
        replay = units.pop(message.get("id"), None) if message["op"] == "done" else None
        if replay is None:
            return line
        message["result"] = replay.end(message["result"])
        return json.dumps(message).encode()

    def down():
        pump(parent, ours, command)
        ours.shutdown(socket.SHUT_WR)  # the agent has gone: so does the rank

    threading.Thread(target=down, daemon=True).start()
    pump(ours, parent, event)
    sys.exit(child.wait())


if __name__ == "__main__":
    main()
