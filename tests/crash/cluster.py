"""A cluster of real processes in one folder: a coordinator, two agents with their ranks, and a client."""

import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

LEASE_MS = 4000
CANDIDATE = "int4=%s@rtn:bits=4,group=32"


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(seconds, condition, what):
    """Waits for `condition`; a limit against hanging, not a measurement."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise Failed(f"waited {seconds} s for {what}")


def children(pid, name):
    """Processes called `name` below `pid`, at any depth."""
    found = []
    try:
        text = " ".join(path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return found
    for child in map(int, text.split()):
        try:
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name:
                found.append(child)
        except OSError:
            continue
        found += children(child, name)
    return found


class Cluster:
    """Processes are started and ended by this object alone, by their ids."""

    def __init__(self, options, name, data=None, flags=()):
        self.options = options
        self.folder = options.work / name
        self.folder.mkdir()
        self.data = data or self.folder / "data"
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self.flags = list(flags)
        self.coordinator = None
        self.agents = {}
        self.client = None
        self.client_may_fail = False  # with the coordinator's disk: it says so, and the same command goes on

    def _spawn(self, name, command, extra):
        env = {key: value for key, value in os.environ.items() if not key.startswith("ASSAY_KILLPOINT")}
        env.update(extra)
        log = open(self.folder / f"{name}.log", "ab")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        log.close()
        return process

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_coordinator(self, extra=None, wait=True):
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self.coordinator = self._spawn("assayd", [
            self.options.bin / "assayd", "--data", self.data, "--listen", self.address, "--ready-file", ready,
            "--metrics", self.metrics_address, "--lease-ms", str(LEASE_MS), "--busy-sync-ms", "150", "--tick-ms", "50",
            "--unit-losses", "1000", "--unit-failures", "100", "--model-wait-ms", "600000",
            "--min-free-bytes", "0", "--ballast-bytes", "0", *self.flags], extra or {})
        if wait:
            until(60, lambda: ready.exists() or self.coordinator.poll() is not None, "the coordinator to start")
            if self.coordinator.poll() is not None:
                raise Failed(f"the coordinator ended with status {self.coordinator.poll()} at its start:\n" +
                             self.log("assayd")[-2000:])

    def start_agent(self, name, extra=None):
        self.agents[name] = self._spawn(name, [
            self.options.bin / "assay-worker", "--coordinator", self.address, "--name", name, "--threads", "1",
            "--model-root", self.options.model.parent, "--cache", self.folder / f"cache-{name}"], extra or {})

    def start_client(self):
        self.out = self.folder / "out"
        self.client = self._spawn("client", [
            self.options.bin / "assay", "score", "--server", self.address, "--reference", self.options.model,
            "--candidate", CANDIDATE % self.options.model, "--suite", self.options.suite, "--out", self.out,
            "--unit-contexts", "2", "--keep-captures", "all"], {})

    def start(self, coordinator_env=None, agent_env=None):
        self.start_coordinator(coordinator_env, wait=coordinator_env is None)
        self.start_agent("a", agent_env)
        self.start_agent("b", agent_env)
        self.start_client()

    def mend(self):
        """Starts again what has been killed; the client waits through it."""
        for name, agent in self.agents.items():
            if agent.poll() is not None:
                self.start_agent(name)
        if self.coordinator.poll() is not None:
            self.start_coordinator()
        if self.client is not None and self.client.poll() not in (None, 0):
            # A client whose coordinator was away for too long says so; the same command again goes on.
            if not self.client_may_fail and "SERVER_UNREACHABLE" not in self.log("client"):
                raise Failed(f"the client ended with status {self.client.poll()}:\n{self.log('client')[-2000:]}")
            self.start_client()

    def finish(self, seconds=240):
        def ended():
            self.mend()
            return self.client.poll() == 0
        until(seconds, ended, "the run to end\n" + self.log("client")[-500:] + self.log("assayd")[-1500:])

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=20) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[-1])
        return 0.0

    def results(self):
        """Bytes of report and position arrays."""
        found = {}
        for path in sorted(self.out.rglob("*")):
            relative = path.relative_to(self.out)
            if path.is_file() and (path.name == "report.json" or "positions" in relative.parts):
                found[str(relative)] = path.read_bytes()
        if not found:
            raise Failed("the run left no results")
        return found

    def command(self, *words, status=0, extra=None):
        done = subprocess.run([self.options.bin / words[0], *words[1:]], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=240, env={**os.environ, **(extra or {})})
        if done.returncode != status:
            raise Failed(f"{' '.join(map(str, words))} ended with {done.returncode}, not {status}:\n"
                         f"{done.stdout[-1500:]}{done.stderr[-1500:]}")
        return done.stdout

    def stop(self):
        """Asks everybody to end, then sees that the data folder is whole."""
        for process in [*self.agents.values(), self.coordinator]:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        for process in [*self.agents.values(), self.coordinator]:
            if process is not None:
                process.wait(60)

    def check(self, expected):
        if self.results() != expected:
            different = [name for name in expected if self.results().get(name) != expected[name]]
            raise Failed(f"results differ from the undisturbed run's: {different}")
        self.command("assay", "verify", self.out, "--key", self.out / "key.pub")
        self.stop()
        self.command("assayd", "fsck", "--data", self.data)

    def kill_all(self):
        for process in [self.client, *self.agents.values(), self.coordinator]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
