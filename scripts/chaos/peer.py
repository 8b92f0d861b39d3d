"""One machine of a chaos run and its process: started, killed, stopped, watched, written down."""

import json
import os
import signal
import subprocess
from pathlib import Path

from machines import Disk, Share

RUN = "chaos"
HANG_SECONDS = 60  # up for so long without training on, or asked to end and still there: it hangs
DISK_MIB = 24  # three checkpoints of this model and a half
TICKS = os.sysconf("SC_CLK_TCK")


class Peer:
    """One machine and the process on it. state: up, stopped, leaving, down, gone (for ever) or
    failed."""

    def __init__(self, index, swarm):
        self.index, self.swarm = index, swarm
        self.name = f"peer-{index}"
        self.folder = swarm.folder / "runs" / RUN / self.name
        self.metrics = self.folder / "metrics.jsonl"
        self.log = swarm.folder / f"{self.name}.log"
        self.key_file = swarm.folder / "keys" / self.name
        made = subprocess.run([swarm.starling, "keygen", self.key_file], check=True,
                              capture_output=True, text=True)
        self.key = made.stdout.split("\n")[0]
        self.share = Share(index)
        self.disk = Disk(swarm.folder / "disks" / self.name, DISK_MIB)
        self.process, self.state, self.life = None, "down", 0
        self.settings = []  # for this peer alone
        self.read_to, self.last_line, self.trained_at = 0, {}, 0.0
        self.trains = False  # has trained in this life
        self.tokens_of_old_disks = 0
        self.left_at, self.comes_back = 0.0, False

    def start(self):
        others = [p for p in self.swarm.peers if p is not self][:3]
        seeds = ",".join(f'"{p.key}@{self.swarm.internet.address(p.index)}"' for p in others)
        settings = [f"run.peer_name={self.name}", f"run.folder={self.swarm.folder}/runs",
                    f"gossip.listen={self.swarm.internet.address(self.index)}",
                    f"gossip.seeds=[{seeds}]", f"trust.key={self.key_file}",
                    f"trust.allow={self.swarm.allow}", f"checkpoint.folder={self.disk.folder}",
                    *self.settings]
        processor = self.swarm.processors[self.index % len(self.swarm.processors)]
        command = [*self.swarm.internet.enter(self.index), "taskset", "-c", str(processor),
                   self.swarm.starling, "peer", self.swarm.config]
        for setting in settings:
            command += ["--set", setting]
        self.life += 1
        self.swarm.history.write("start", peer=self.index, id=self.key[:16], life=self.life,
                                 metrics_from=size(self.metrics),
                                 events_from=size(self.folder / "events.jsonl"))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=self.share.enter)
        self.state, self.trains, self.trained_at = "up", False, self.swarm.history.now()

    def kill(self, for_ever=False):
        self.process.kill()
        self.process.wait()
        self.read_metrics()
        self.state = "gone" if for_ever else "down"
        self.swarm.history.write("killed", peer=self.index, for_ever=for_ever,
                                 tokens=self.last_line.get("tokens", 0))

    def lose_disk(self):
        """Of a machine that is down. What it writes of itself is kept: this run needs it."""
        self.tokens_of_old_disks += self.last_line.get("tokens", 0)
        self.last_line = {}
        self.disk.clear()
        self.swarm.history.write("disk lost", peer=self.index, life=self.life)

    def leave(self):
        self.process.terminate()
        self.state, self.left_at, self.comes_back = "leaving", self.swarm.history.now(), False
        self.swarm.history.write("left", peer=self.index)

    def come_back(self):
        """As soon as it is down."""
        if self.state == "leaving":
            self.comes_back = True
        elif self.state == "down":
            self.start()

    def tokens(self):
        return self.tokens_of_old_disks + self.last_line.get("tokens", 0)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.state = "stopped"
        self.swarm.history.write("stopped", peer=self.index)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        self.state, self.trained_at = "up", self.swarm.history.now()
        self.swarm.history.write("went on", peer=self.index)

    def fail(self, how):
        """It needs a hand, and gets none: what follows without it shows in the report."""
        self.state = "failed"
        self.swarm.history.write("needs a hand", peer=self.index, how=how)
        print(f"  {self.name} {how}, see {self.log}", flush=True)

    def watch(self):
        """Notes a process that has ended or hangs."""
        if self.read_metrics():
            self.trained_at = self.swarm.history.now()
            if not self.trains:  # when the clock of this life began, as its lines count it
                self.swarm.history.write("clock", peer=self.index, life=self.life,
                                         began=self.trained_at - self.last_line["seconds"])
            self.trains = True
        if self.state == "leaving":
            return self.watch_leaving()
        if self.state != "up":
            return
        if self.process.poll() is not None:
            self.fail(f"ended by itself with status {self.process.returncode}")
        elif self.swarm.history.now() - self.trained_at > HANG_SECONDS:
            self.fail(f"has not trained for {HANG_SECONDS} seconds")

    def watch_leaving(self):
        status = self.process.poll()
        if status == 0:
            self.state = "down"
            self.swarm.history.write("has left", peer=self.index)
            if self.comes_back:
                self.start()
        elif status is not None:
            self.fail(f"ended with status {status} when it was asked to")
        elif self.swarm.history.now() - self.left_at > HANG_SECONDS:
            self.fail(f"has not ended {HANG_SECONDS} seconds after it was asked to")

    def read_metrics(self):
        """True if there are new lines."""
        if size(self.metrics) == self.read_to:
            return False
        with open(self.metrics, "rb") as file:
            file.seek(self.read_to)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.read_to += len(whole)
        for line in reversed(whole.splitlines()):
            try:
                self.last_line = json.loads(line)
                return True
            except ValueError:
                continue  # torn by a kill
        return False

    def sample(self):
        if self.state != "up":
            return
        process = Path(f"/proc/{self.process.pid}")
        try:
            status = (process / "status").read_text()
            files = len(os.listdir(process / "fd"))
            cpu_seconds = cpu_seconds_of(process)
            trainer_seconds = sum(cpu_seconds_of(task) for task in (process / "task").iterdir()
                                  if (task / "comm").read_text() == "trainer\n")
        except OSError:
            return  # it has just ended: watch() will see
        field = {key: int(status.split(key + ":")[1].split()[0]) for key in ("VmRSS", "Threads")}
        self.swarm.history.write("sample", peer=self.index, life=self.life, kib=field["VmRSS"],
                                 threads=field["Threads"], files=files, cpu_seconds=cpu_seconds,
                                 trainer_seconds=trainer_seconds)


def cpu_seconds_of(process):
    """Of a process, or of one thread of it."""
    times = (process / "stat").read_text().rsplit(")", 1)[1].split()
    return (int(times[11]) + int(times[12])) / TICKS


def size(path):
    return path.stat().st_size if path.exists() else 0
