"""Machines for chaos: hosts with a share of a processor, a disk and a link of their own.

Everything here happens inside namespaces of this run (enter_namespaces), so whatever way it ends,
the kernel removes its processes, networks and disks. Only control groups outlive a run that is
killed; the next run removes those.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

SKIPPED = 77  # the exit status by which ctest knows a test that could not run
INSIDE = "STARLING_CHAOS_RUN"  # in the environment: the id of the process that began the run
GROUP = "starling-chaos"
PERIOD_US = 100_000  # a machine gets its share of every tenth of a second,
QUOTA_US_MIN = 1_000  # or of a longer time if that were less than the kernel gives
CONTROL_PORT = 20000


def enter_namespaces():
    """Begins this program again as the first process of its own namespaces; returns inside them.
    When the process that was started dies, so does everything in there."""
    if INSIDE in os.environ:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
        return
    if os.geteuid() != 0:
        skip("chaos needs root, for network namespaces and control groups")
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for tool in ("unshare", "nsenter", "taskset", "chrt", "mount"):
        if not shutil.which(tool):
            skip(f"there is no {tool} (Debian: util-linux)")
    if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("this system gives root no namespaces")
    if not Path("/dev/net/tun").exists():
        skip("there is no /dev/net/tun")
    if quota_root() is None:
        skip("there is no control group with processor quotas")
    remove_groups_of_the_dead()
    os.environ[INSIDE] = str(os.getpid())
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


# ---- shares of a processor -----------------------------------------------------------------------


def quota_root():
    """The control group that ours are made in; None if it has no quotas."""
    unified = Path("/sys/fs/cgroup")
    if (unified / "cgroup.controllers").exists():
        if "cpu" not in (unified / "cgroup.controllers").read_text().split():
            return None
        try:
            (unified / "cgroup.subtree_control").write_text("+cpu")
        except OSError:  # not ours to change, as in most containers
            return None
        return unified
    for name in ("cpu", "cpu,cpuacct"):
        if os.access(unified / name / "cpu.cfs_quota_us", os.W_OK):
            return unified / name
    return None


def remove_groups_of_the_dead():
    for group in quota_root().glob(f"{GROUP}-*"):
        if not Path(f"/proc/{group.name.split('-')[2]}").exists():
            group.rmdir()


def remove_groups():
    """Those of this run, which are empty but for ourselves."""
    (quota_root() / "cgroup.procs").write_text("0")
    for group in quota_root().glob(f"{GROUP}-{os.environ[INSIDE]}-*"):
        group.rmdir()


class Share:
    """At most so much of a processor, for a process and all its threads; and that before anything
    else that runs here, so that a machine has the same speed whatever its neighbours do. With
    `last` instead: what nothing else here wants."""

    def __init__(self, name, last=False):
        self.folder = quota_root() / f"{GROUP}-{os.environ[INSIDE]}-{name}"
        self.folder.mkdir(exist_ok=True)
        weight = self.folder / "cpu.weight"
        if weight.exists():
            weight.write_text("1" if last else "10000")
        else:
            (self.folder / "cpu.shares").write_text("2" if last else "262144")

    def set(self, share):
        """None: as much as there is."""
        period = max(PERIOD_US, round(QUOTA_US_MIN / share)) if share else PERIOD_US
        quota = round(share * period) if share else None
        unified = self.folder / "cpu.max"
        if unified.exists():
            unified.write_text(f"{'max' if quota is None else quota} {period}")
        else:
            (self.folder / "cpu.cfs_quota_us").write_text("-1")
            (self.folder / "cpu.cfs_period_us").write_text(str(period))
            (self.folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def enter(self):
        (self.folder / "cgroup.procs").write_text("0")  # the writer itself


# ---- links ---------------------------------------------------------------------------------------


class Internet:
    """The delay_link process: one host more than there are machines, for whoever means no good.
    What faults add to a host's own link is given anew each time, all of it. Hosts that are `closed`
    can call and not be called."""

    def __init__(self, program, hosts, seed, closed=()):
        self.process = subprocess.Popen(
            [program, str(hosts), str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, preexec_fn=Share("link").enter)
        self.spaces, self.addresses = [], []
        for line in self.process.stdout:
            if line == "ready\n":
                break
            _, _, space, address = line.split()
            self.spaces.append(space)
            self.addresses.append(address)
        else:
            raise RuntimeError("delay_link did not start, see above")
        rng = random.Random(f"links {seed}")
        self.links = [{"delay": rng.uniform(2, 50), "mbit": rng.uniform(20, 200),
                       "loss": rng.uniform(0, 0.001)} for _ in range(hosts)]
        self.closed = set(closed)
        self.sent = [None] * hosts
        self.set_faults({})

    def set_faults(self, faults):
        """faults: {host: {"mbit", "loss", "damage", "blocked": hosts}}; what is not in is whole."""
        for host, link in enumerate(self.links):
            fault = faults.get(host, {})
            blocked = sum(1 << other for other in fault.get("blocked", ()))
            line = (f"host {host} {link['delay']:.3f} {fault.get('mbit', link['mbit']):.3f} "
                    f"{max(link['loss'], fault.get('loss', 0)):.5f} {fault.get('damage', 0):.5f} "
                    f"{blocked:x} {int(host in self.closed)}\n")
            if line != self.sent[host]:
                self.process.stdin.write(line)
                self.sent[host] = line
        self.process.stdin.flush()

    def enter(self, host):
        """How a command begins that is to run on this host."""
        return ["nsenter", f"--net={self.spaces[host]}"]

    def address(self, host):
        return f"{self.addresses[host]}:{CONTROL_PORT}"

    def close(self):
        """Ends it; returns what it counted."""
        self.process.stdin.close()
        text = self.process.stdout.read()
        if self.process.wait() != 0:
            raise RuntimeError("delay_link failed, see above")
        return json.loads(text)


# ---- disks ---------------------------------------------------------------------------------------


class Disk:
    """A small file system in memory."""

    def __init__(self, folder, mebibytes):
        self.folder = folder
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", folder],
                       check=True)

    def fill(self):
        with open(self.folder / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(bytes(64 * 1024)):
                    pass
            except OSError:
                pass  # full: that was the point

    def free(self):
        (self.folder / "filler").unlink()

    def clear(self):
        for file in self.folder.iterdir():
            file.unlink()

    def close(self):
        subprocess.run(["umount", self.folder], check=True)
