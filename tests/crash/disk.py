"""Disks that fill up and system calls that fail, under a real coordinator."""

import os
import subprocess
import time

from cluster import Failed, until
from health import health

SMALL_MIB = 160
FREE_MIB = 24  # the watermark of these tests


def mount(folder):
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_MIB}m", "tmpfs", folder], capture_output=True)
    return done.returncode == 0


def fill(path, leave_bytes):
    """A file that leaves so much of the file system free."""
    space = os.statvfs(path.parent)
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(4096, space.f_bavail * space.f_frsize - leave_bytes))


def nearly_full(suite, cluster, small):
    """Below the watermark nothing is accepted and nothing fails; with room again it goes on by itself."""
    filler = small / "filler"
    cluster.start()
    until(60, lambda: cluster.metric("assay_leases_granted_total") >= 1, "a lease")
    until(30, lambda: health(cluster.address) == "SERVING", "the coordinator to be well")
    fill(filler, (FREE_MIB - 4) << 20)
    until(30, lambda: cluster.metric("assay_disk_low") == 1, "the coordinator to notice")
    until(30, lambda: health(cluster.address) == "NOT_SERVING", "it to say so")
    granted = None
    for _ in range(20):  # leases that were given out may end; none is added
        time.sleep(0.1)
        now = cluster.metric("assay_leases_granted_total")
        if granted is not None and now > granted:
            raise Failed("a lease was given out while the disk is low")
        granted = now
    if cluster.client.poll() is not None and cluster.client.poll() != 0:
        raise Failed("the client gave up on a low disk: " + cluster.log("client")[-500:])
    filler.unlink()
    until(30, lambda: health(cluster.address) == "SERVING", "the coordinator to go on by itself")
    cluster.finish()
    cluster.check(suite.expected)


def full(suite, cluster, small):
    """Without a watermark the disk fills up under a run: the coordinator may end, and loses nothing."""
    filler = small / "filler"
    cluster.client_may_fail = True
    cluster.start()
    until(60, lambda: cluster.metric("assay_leases_granted_total") >= 1, "a lease")
    fill(filler, 64 << 10)
    until(60, lambda: cluster.coordinator.poll() is not None or "DISK_FULL" in cluster.log("assayd") + cluster.log("a") +
          cluster.log("b") or cluster.client.poll() is not None, "the full disk to be met")
    filler.unlink()
    cluster.finish()
    cluster.check(suite.expected)


def failing_call(suite, cluster, call, nth, error):
    """The n-th such call on a file of the data folder fails: the coordinator ends or refuses, and recovers."""
    library = suite.options.bin / "libassay_failing_calls.so"
    mark = cluster.folder / "mark"
    cluster.client_may_fail = True
    cluster.start(coordinator_env={
        "LD_PRELOAD": str(library), "FAIL_CALL": call, "FAIL_AT": str(nth), "FAIL_ERRNO": str(error),
        "FAIL_BELOW": str(cluster.data), "FAIL_MARK": str(mark)})
    cluster.finish()
    if not mark.exists():
        raise Failed(f"{call} was not called {nth} times")
    cluster.check(suite.expected)


def cases(suite):
    before = suite.passed
    small = suite.options.work / "small"
    if os.geteuid() == 0 and mount(small):
        try:
            suite.case("disk nearly full", lambda cluster: nearly_full(suite, cluster, small), data=small / "low",
                       flags=["--min-free-bytes", str(FREE_MIB << 20)])
            subprocess.run(["rm", "-rf", small / "low"], check=True)
            suite.case("disk full", lambda cluster: full(suite, cluster, small), data=small / "full")
        finally:
            subprocess.run(["umount", "-l", small], check=False)
    else:
        print("SKIPPED full disks: mounting a small file system needs root", flush=True)
    for call, error in (("fsync", 5), ("fdatasync", 5), ("write", 5), ("write", 28), ("rename", 5), ("pwrite", 5)):
        nth = suite.random.randint(2, 12)
        suite.case(f"{call} number {nth} fails with errno {error}",
                   lambda cluster, call=call, nth=nth, error=error: failing_call(suite, cluster, call, nth, error))
    return suite.passed - before
