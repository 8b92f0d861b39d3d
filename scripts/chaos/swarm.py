"""All peers of a chaos run, their configuration, and what becomes of them together.

History is a file of JSON lines, one for each thing that was done or seen, with the time in seconds
since the run began. Everything the report says is computed from it and from what the peers wrote.
"""

import json
import os
import shutil
import subprocess
import sys
import time

from machines import Internet, Share, remove_groups
from peer import RUN, Peer

SAMPLE_SECONDS = 5

# 0.2 M parameters. What is not here is as it comes: chaos is survived with the defaults.
CONFIG = """
[run]
name = "{run}"
tokens = 1000000000000
[model]
width = 64
layers = 4
heads = 4
kv_heads = 2
ffn = 176
context = 64
[batch]
sequences = 8
tokens = 64
[optimizer]
learning_rate = 2e-3
[schedule]
shape = "constant"
warmup_tokens = 200000
local_warmup_steps = 10
[outer]
steps_per_round = {steps_per_round}
[data]
train = ["{data}/train"]
validation = ["{data}/validation"]
[checkpoint]
every_steps = 100
keep = 2
[relay]
volunteer = true
[metrics]
every_steps = {metrics_every}
validate_every_steps = 0
[device]
name = "cpu"
threads = 1
pin = false
"""


class History:
    def __init__(self, path):
        self.file = open(path, "w", buffering=1)
        self.began = time.monotonic()

    def now(self):
        return time.monotonic() - self.began

    def write(self, event, **fields):
        line = {"at": round(self.now(), 3), "event": event, **fields}
        self.file.write(json.dumps(line) + "\n")


class Swarm:
    def __init__(self, folder, tools, *, peers, share, seed, data, steps_per_round,
                 metrics_every=10, closed=0):
        folder.mkdir(parents=True)
        self.folder, self.starling, self.share = folder, tools["starling"], share
        self.processors = sorted(os.sched_getaffinity(0))
        self.history = History(folder / "history.jsonl")
        self.config = folder / "config.toml"
        self.config.write_text(CONFIG.format(run=RUN, data=data, metrics_every=metrics_every,
                                             steps_per_round=steps_per_round))
        # One control for each processor: a machine like the others that trains alone and that
        # nothing happens to. How fast the computer itself is, from minute to minute, shows there.
        # The last ones cannot be called: never the first three, through whom all join.
        self.closed = range(max(3, peers - closed), peers)
        self.internet = Internet(tools["delay_link"], peers + len(self.processors) + 1, seed,
                                 self.closed)
        self.allow = folder / "allow.txt"
        self.peers = [Peer(i, self) for i in range(peers)]
        self.controls = [Peer(peers + i, self) for i in range(len(self.processors))]
        for control in self.controls:
            control.settings = ["outer.method=local"]
        self.machines = self.peers + self.controls
        # The hostile peer has a key like everybody: what it can do is what a member can do.
        keys = [machine.key for machine in self.machines]
        if "net_hostile_peer" in tools:
            keys.append(subprocess.run([tools["net_hostile_peer"], "key"], check=True, text=True,
                                       capture_output=True).stdout.strip())
        self.allow.write_text("\n".join(keys) + "\n")
        self.fillers = []
        self.next_sample = 0.0

    def start(self, patience):
        """All at once, and as fast as they can; returns when all train at their share."""
        for machine in self.machines:
            machine.share.set(None)
            machine.start()
        self.wait(patience, lambda: all(m.trains or m.state == "failed" for m in self.machines))
        for machine in self.machines:
            machine.share.set(self.share)
        self.fill_processors()

    def fill_processors(self):
        """Processors share caches and more: a machine that is down would make the others faster.
        So whatever is idle is used, for training like theirs that nobody looks at."""
        share = Share("fillers", last=True)
        for processor in self.processors:
            settings = [f"run.peer_name=filler-{processor}", f"run.folder={self.folder}/fillers",
                        "outer.method=local", "checkpoint.every_steps=0"]
            command = ["taskset", "-c", str(processor), self.starling, "peer", self.config]
            for setting in settings:
                command += ["--set", setting]
            self.fillers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL,
                                                 preexec_fn=share.enter))

    def end_fillers(self):
        for filler in self.fillers:
            filler.kill()
            filler.wait()
        self.fillers = []

    def tokens(self):
        """Of all but the first machine, which does not survive a run with faults."""
        return sum(peer.tokens() for peer in self.peers[1:])

    def wait(self, seconds, done=lambda: False, act=lambda: None):
        """Watches for `seconds` or until done(); True if it was done."""
        end = self.history.now() + seconds
        while self.history.now() < end:
            act()
            for machine in self.machines:
                machine.watch()
            if self.history.now() >= self.next_sample:
                self.next_sample = self.history.now() + SAMPLE_SECONDS
                for machine in self.machines:
                    machine.sample()
            if done():
                return True
            time.sleep(0.1)
        return done()

    def end(self, patience=90):
        """Asks all to leave, and expects them to write a last checkpoint and end well."""
        self.history.write("ending", tokens=self.tokens())
        self.end_fillers()
        running = [m for m in self.machines if m.state == "up"]
        for machine in running:
            machine.share.set(None)
            machine.process.terminate()
        for machine in running:
            try:
                status = machine.process.wait(patience)
            except subprocess.TimeoutExpired:
                machine.fail("does not end when it is asked to")
                continue
            if status != 0:
                machine.fail(f"ended with status {status}")
            else:
                machine.state = "ended"
        self.history.write("ended", link=self.internet.close())

    def losses(self, data, batches):
        """Validation losses, in nats per token: of each peer that ended well, by index, and of the
        average of their models but the first's, which is killed where there are faults."""
        peers = [peer for peer in self.peers if peer.state == "ended"]
        newest = {peer.index: shutil.copy(max(peer.disk.folder.glob("*.ckpt")),
                                          self.folder / f"{peer.name}.ckpt") for peer in peers}
        average = self.folder / "average.ckpt"
        subprocess.run([self.starling, "average", average]
                       + [path for index, path in newest.items() if index != 0],
                       stdout=subprocess.DEVNULL, check=True)
        newest["average"] = average
        found, running, unlimited = {}, {}, Share("eval")
        waiting = list(newest)
        while waiting or running:
            while waiting and len(running) < len(self.processors):
                name = waiting.pop()
                running[name] = subprocess.Popen(
                    [self.starling, "eval", newest[name], "--data", f"{data}/validation",
                     "--batches", str(batches)],
                    stdout=subprocess.PIPE, text=True, preexec_fn=unlimited.enter)
            name = next(iter(running))
            output, _ = running.pop(name).communicate()
            found[name] = float(output.split()[1])
        self.history.write("losses", average=found.pop("average"), losses=found)

    def close(self):
        self.end_fillers()
        for peer in self.machines:
            if peer.process and peer.process.poll() is None:
                peer.process.kill()
                peer.process.wait()
            peer.disk.close()
        if self.internet.process.poll() is None:
            self.internet.process.kill()
            self.internet.process.wait()
        remove_groups()


def find_tools(build):
    tools = {"starling": build / "peer/starling", "delay_link": build / "tests/delay_link",
             "net_hostile_peer": build / "tests/gossip/net_hostile_peer"}
    for tool in tools.values():
        if not tool.exists():
            sys.exit(f"{tool} is missing: cmake --build {build}")
    return tools


def prepare(out, tools):
    """Token shards of a text in the public domain that ./scripts/setup installs."""
    out.mkdir(parents=True)
    text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True,
                          text=True).stdout
    lines = [line.split(" ", 1)[1] for line in text.splitlines() if " " in line]
    (out / "text.txt").write_text("\n".join(lines))
    subprocess.run([tools["starling"], "prepare", out / "text.txt", "--out", out / "data"],
                   check=True, stdout=subprocess.DEVNULL)
    return out / "data"
