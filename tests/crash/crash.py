#!/usr/bin/env python3
"""The cases of tests/crash/run.sh."""

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import disk
from cluster import LEASE_MS, Cluster, Failed, children, until

KILLS_OF_A_RUN = 20  # a run that is killed on and on would not come to its end
# Kill points that no run passes by itself: they need a command of their own.
COMMANDS = ("backup", "gc", "key")


def kill_points(source):
    """Every name handed to AssayKillPoint in the sources: a new one is killed at without being listed here."""
    names = set()
    for folder in ("storage", "server", "worker"):
        for path in (source / folder).rglob("*.cc"):
            if not path.name.endswith("_test.cc"):
                names |= set(re.findall(r'AssayKillPoint\("([a-z:_-]+)"\)', path.read_text()))
    return sorted(names)


class Suite:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.passed, self.failures = 0, []
        self.kills = {"coordinator": 0, "agent": 0, "rank": 0}
        self.drain_s = 0.0
        self.points = self.stops = self.disks = self.fenced = self.runs = 0
        self.serial = 0
        self.expected = self.undisturbed()

    def cluster(self, name, **more):
        self.serial += 1
        return Cluster(self.options, f"{self.serial:03d}-{name.replace(':', '-')}", **more)

    def undisturbed(self):
        cluster = self.cluster("undisturbed")
        try:
            cluster.start()
            cluster.finish()
            results = cluster.results()
            cluster.check(results)
            return results
        finally:
            cluster.kill_all()

    def case(self, name, body, **more):
        start = time.monotonic()
        cluster = self.cluster(name, **more)
        try:
            body(cluster)
            self.passed += 1
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
            shutil.rmtree(cluster.folder)
        except (Failed, subprocess.TimeoutExpired, OSError) as error:
            self.failures.append(name)
            print(f"FAILED {name} (seed {self.options.seed}): {error}", flush=True)
        finally:
            cluster.kill_all()

    # Every named point.

    def point(self, cluster, name):
        kind = name.split(":")[0]
        mark = cluster.folder / "mark"
        env = {"ASSAY_KILLPOINT": f"{name}@{self.random.randint(1, 2)}", "ASSAY_KILLPOINT_MARK": str(mark)}
        if kind == "rank":  # an agent keeps its kill points from its ranks; this arms one of them
            env["ASSAY_RANK_DIE"] = "0"
            del env["ASSAY_KILLPOINT"]
        if kind in ("agent", "rank"):
            cluster.start(agent_env=env)
        elif kind in COMMANDS:
            self.command_point(cluster, kind, {"ASSAY_KILLPOINT": name})
            return
        else:
            cluster.start(coordinator_env=env)
        cluster.finish()
        if not mark.exists():
            raise Failed(f"nobody passed {name}")
        cluster.check(self.expected)

    def command_point(self, cluster, kind, env):
        """Killed while it copies, collects or rotates: nothing is lost, and the same command again does it."""
        cluster.start()
        cluster.finish()
        cluster.stop()
        backup = cluster.folder / "backup"
        command = {"backup": ["assayd", "backup", backup, "--data", cluster.data],
                   "gc": ["assayd", "gc", "--data", cluster.data, "--keep-runs-hours", "0", "--grace-hours", "0"],
                   "key": ["assayd", "key", "rotate", "--data", cluster.data]}[kind]
        if kind == "key":  # done by the command itself, while no coordinator runs
            cluster.command(*command, status=-signal.SIGKILL, extra=env)
            cluster.command(*command)
            cluster.start_coordinator()
        else:
            self.asked_of_a_dying_coordinator(cluster, command, env)
            if backup.exists():
                cluster.command("assayd", "--data", backup, "--listen", cluster.address, status=20)
                shutil.rmtree(backup)
            cluster.start_coordinator()
            cluster.command(*command)
        if backup.exists():
            cluster.command("assayd", "fsck", "--data", backup)
        cluster.check(self.expected)

    def asked_of_a_dying_coordinator(self, cluster, command, env):
        cluster.start_coordinator(env)
        time.sleep(1.1)  # blobs are old enough for a grace of nothing
        cluster.command(*command, status=1)
        if cluster.coordinator.wait(30) != -signal.SIGKILL:
            raise Failed(f"{env['ASSAY_KILLPOINT']} did not end the coordinator")

    def all_points(self):
        for name in kill_points(self.options.source):
            before = self.passed
            self.case(f"point {name}", lambda cluster, name=name: self.point(cluster, name))
            self.points += self.passed - before

    # Random kills.

    def victim(self, cluster, who):
        if who == "coordinator":
            return cluster.coordinator.pid if cluster.coordinator.poll() is None else None
        living = [agent for agent in cluster.agents.values() if agent.poll() is None]
        if who == "rank":
            living = [rank for agent in living for rank in children(agent.pid, "assay-rank")]
            return self.random.choice(living) if living else None
        return self.random.choice(living).pid if living else None

    def random_kills(self):
        while sum(self.kills.values()) < self.options.kills and not self.failures:
            self.runs += 1
            self.case(f"kills in run {self.runs}", self.killed_run)

    def killed_run(self, cluster):
        cluster.start()
        deadline = time.monotonic() + 240
        enough = min(self.options.kills, sum(self.kills.values()) + KILLS_OF_A_RUN)
        while cluster.client.poll() != 0 and sum(self.kills.values()) < enough:
            if time.monotonic() > deadline:
                raise Failed("the run does not end under kills")
            time.sleep(self.random.uniform(0.05, 0.9))
            who = self.random.choice(["coordinator", "agent", "rank"])
            pid = self.victim(cluster, who)
            if pid is not None and cluster.client.poll() is None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.kills[who] += 1
                for process in [cluster.coordinator, *cluster.agents.values()]:
                    if process.pid == pid:
                        process.wait()
            cluster.mend()
        cluster.finish()
        cluster.check(self.expected)

    # Stops.

    def stopped(self, cluster, who):
        cluster.start()
        busy = lambda: [rank for agent in cluster.agents.values() for rank in children(agent.pid, "assay-rank")]
        until(60, busy, "a rank")
        pid = {"coordinator": lambda: cluster.coordinator.pid, "agent": lambda: cluster.agents["a"].pid,
               "rank": lambda: busy()[0]}[who]()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(LEASE_MS / 1000 + 1)
        os.kill(pid, signal.SIGCONT)
        cluster.finish()
        cluster.check(self.expected)

    def late_result(self, cluster):
        """An agent stops between making its result known and sending it, and wakes when the lease is over."""
        mark = cluster.folder / "mark"
        cluster.start_coordinator()
        cluster.start_agent("a", {"ASSAY_KILLPOINT": "agent:reporting@2", "ASSAY_KILLPOINT_SIGNAL": "STOP",
                                  "ASSAY_KILLPOINT_MARK": str(mark)})
        cluster.start_client()
        until(120, mark.exists, "the agent to stop")
        cluster.start_agent("b")
        until(60, lambda: cluster.metric("assay_leases_expired_total") >= 1, "the lease to end")
        cluster.agents["a"].send_signal(signal.SIGCONT)
        until(60, lambda: cluster.metric('assay_results_total{outcome="fenced"}') >= 1,
              "the late result to be refused and counted")
        self.fenced += int(cluster.metric('assay_results_total{outcome="fenced"}'))
        cluster.finish()
        cluster.check(self.expected)

    def all_stops(self):
        for who in ("coordinator", "agent", "rank"):
            self.case(f"stop of a {who}", lambda cluster, who=who: self.stopped(cluster, who))
            self.stops += 1
        self.case("late result", self.late_result)
        self.stops += 1

    def drained(self, cluster):
        """SIGTERM in the middle: an end in seconds with status 0, and the run goes on with the next coordinator."""
        cluster.start()
        until(60, lambda: cluster.metric("assay_leases_granted_total") >= 1, "a lease")
        start = time.monotonic()
        cluster.coordinator.send_signal(signal.SIGTERM)
        if cluster.coordinator.wait(60) != 0:
            raise Failed(f"SIGTERM: status {cluster.coordinator.poll()}")
        self.drain_s = time.monotonic() - start
        cluster.finish()
        cluster.check(self.expected)

    def run(self):
        only = self.options.only.split(",")
        if "points" in only:
            self.all_points()
        if "kills" in only:
            self.random_kills()
        if "stops" in only:
            self.all_stops()
            self.case("drain", self.drained)
        if "disk" in only:
            self.disks = disk.cases(self)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="points,kills,stops,disk")
    for name in ("bin", "work", "model", "suite", "source"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    start = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    suite = Suite(options)
    suite.run()
    kills = suite.kills
    print(f"crash: {suite.points} kill points, {sum(kills.values())} random kills (coordinator {kills['coordinator']}, "
          f"agent {kills['agent']}, rank {kills['rank']}) in {suite.runs} runs, {suite.stops} stops, {suite.fenced} late "
          f"results refused, drained in {suite.drain_s:.1f} s, {suite.disks} disk faults; {suite.passed} passed, "
          f"{len(suite.failures)} failed; seed {options.seed}, {time.monotonic() - start:.0f} s")
    sys.exit(1 if suite.failures else 0)


if __name__ == "__main__":
    main()
