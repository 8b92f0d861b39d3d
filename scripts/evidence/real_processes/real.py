#!/usr/bin/env python3
"""Eight real peers on this machine, each with its share of a processor and a line of its own.

  scripts/evidence/real_processes/real.py --seeds 3 --seconds 120 --out runs/real_processes

First all train alone for a while: how long a step takes at every share. Then every method for
every seed. Lines of JSON in OUT/real.jsonl; what is there already is not measured again. Needs
root, and the build with tests; machines, lines and shares are those of scripts/chaos. `run`
calls this.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "scripts/chaos"))
sys.path.insert(0, str(HERE))

from machines import Internet, Share, enter_namespaces, remove_groups  # noqa: E402
from methods import (ALONE, DELAY_MS, MBIT, METHODS, SHARES, SPEEDS, SYNCHRONOUS,  # noqa: E402
                     TOKENS_A_STEP, settings_of)

CONFIG = HERE / "config.toml"
PORT = 7000
CALIBRATION_SECONDS = 40
POINTS = 10  # of a curve
BATCHES = "16"  # that config.toml measures losses on
PATIENCE = 120  # for a start or an end


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    tools = find_tools(args.build.resolve())
    enter_namespaces()
    file = args.out / "real.jsonl"
    args.out.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def note(result):
        done.append(result)
        with open(file, "a") as lines:
            lines.write(json.dumps(result) + "\n")
        print(json.dumps({key: result[key] for key in result if key != "curve"}), flush=True)

    if not done:
        note(calibrate(tools, args.out))
    pace = done[0]
    for seed in range(1, args.seeds + 1):
        for method in METHODS:
            if not any(r.get("method") == method and r["seed"] == seed for r in done):
                note(measure(tools, args, pace, method, seed))


def find_tools(build):
    tools = {"starling": build / "peer/starling", "delay_link": build / "tests/delay_link",
             "synchronous_peer": build / "tests/peer/synchronous_peer"}
    for tool in tools.values():
        if not tool.exists():
            sys.exit(f"{tool} is missing: cmake --build {build}")
    return tools


def calibrate(tools, out):
    """Steps per second of every machine while all train alone, and nobody talks."""
    settings = ["outer.method=local", "run.tokens=1000000000", "checkpoint.every_steps=0"]
    swarm = Swarm(tools, out / "calibration", seed=1)
    try:
        swarm.start(settings, [[] for _ in SPEEDS])
        swarm.train(CALIBRATION_SECONDS)
        swarm.end()
        steps = [swarm.tokens(swarm.checkpoints(i)) // TOKENS_A_STEP for i in range(len(SPEEDS))]
    finally:
        swarm.close()
    return {"step_seconds": round(2 * CALIBRATION_SECONDS / (steps[0] + steps[4]), 5),
            "speeds": [round((steps[i] + steps[i + 4]) / (steps[0] + steps[4]), 4)
                       for i in range(4)],
            "steps": steps, "seconds": CALIBRATION_SECONDS}


def measure(tools, args, pace, method, seed):
    """One swarm from its start to its end, and its losses. Time ends it, not tokens."""
    folder = args.out / f"{method.replace(' ', '-').replace(',', '')}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    machines = [0, 4] if method == ALONE else list(range(len(SPEEDS)))
    settings = settings_of(method, seed, args.seconds, pace)
    swarm = Swarm(tools, folder, seed, machines)
    try:
        if method in SYNCHRONOUS:
            swarm.start_synchronous(settings, args.seconds)
        else:
            steps_each = args.seconds / POINTS / pace["step_seconds"]
            own = [[f"checkpoint.every_steps={max(1, round(steps_each * SPEEDS[i]))}"]
                   for i in machines]
            swarm.start(settings, own)
        swarm.train(args.seconds)
        swarm.end()
        result = swarm.synchronous_result() if method in SYNCHRONOUS else swarm.result()
    finally:
        swarm.close()
    return {"method": method, "seed": seed, "seconds": args.seconds, **result}


class Swarm:
    """The machines, and the processes on them."""

    def __init__(self, tools, folder, seed, machines=range(len(SPEEDS))):
        folder.mkdir(parents=True)
        Share("harness").enter()  # or the machines would keep it from watching them
        self.tools, self.folder, self.machines = tools, folder, list(machines)
        self.internet = Internet(tools["delay_link"], len(self.machines), seed)
        self.internet.links = [{"delay": DELAY_MS, "mbit": MBIT, "loss": 0}] * len(self.machines)
        self.internet.set_faults({})
        self.shares = [Share(i) for i in range(len(self.machines))]
        self.processor = max(os.sched_getaffinity(0))  # of all: then none meets another's load
        self.processes, self.began = [], None

    def launch(self, index, command, ready):
        """At full speed up to the line of its log that says it will train now; then it stops."""
        log = self.folder / f"{index}.log"
        self.shares[index].set(None)
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [*self.internet.enter(index), "taskset", "-c", str(self.processor), *command],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT,
                preexec_fn=self.shares[index].enter)
        self.processes.append(process)
        end = time.monotonic() + PATIENCE
        while ready not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"machine {index} did not start: see {log}")
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        self.shares[index].set(SHARES[self.machines[index]])

    def start(self, settings, own):
        """Peers as they are; `own`: further settings of each."""
        keys = [self.folder / f"key-{i}" for i in range(len(self.machines))]
        public = [subprocess.run([self.tools["starling"], "keygen", key], check=True, text=True,
                                 capture_output=True).stdout.split("\n")[0] for key in keys]
        allow = self.folder / "allow.txt"
        allow.write_text("\n".join(public) + "\n")
        for i, key in enumerate(keys):
            seeds = ",".join(f'"{public[j]}@{self.internet.address(j)}"'
                             for j in range(min(3, len(keys))) if j != i)
            command = [self.tools["starling"], "peer", CONFIG]
            for setting in [*settings, f"run.peer_name=peer-{i}", f"run.folder={self.folder}",
                            f"gossip.listen={self.internet.address(i)}",
                            f"gossip.seeds=[{seeds}]", f"trust.key={key}",
                            f"trust.allow={allow}", *own[i]]:
                command += ["--set", setting]
            self.launch(i, command, "memory: ")

    def start_synchronous(self, settings, seconds):
        hosts = [address.split(":")[0] for address in map(self.internet.address,
                                                          range(len(self.machines)))]
        for i in range(len(self.machines)):
            command = [self.tools["synchronous_peer"], CONFIG, "--rank", str(i), "--peers",
                       ",".join(f"{host}:{PORT}" for host in hosts), "--seconds", str(seconds),
                       "--out", self.folder / f"peer-{i}"]
            if i == 0:  # which waits for the others anyway
                command += ["--evaluate-seconds", str(seconds / POINTS)]
            for setting in settings:
                command += ["--set", setting]
            self.launch(i, command, '"ready"')

    def train(self, seconds):
        """All go on at once, and stop at once."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
        self.began = time.time()
        time.sleep(seconds)
        for index, process in enumerate(self.processes):
            if process.poll() is not None and process.returncode != 0:
                sys.exit(f"machine {index} ended by itself: see {self.folder}/{index}.log")
            process.send_signal(signal.SIGSTOP)
        for share in self.shares:
            share.set(None)

    def end(self):
        """They write their last checkpoint and leave."""
        for process in self.processes:
            if "synchronous_peer" not in str(process.args):  # which end by themselves
                process.terminate()
            process.send_signal(signal.SIGCONT)
        for index, process in enumerate(self.processes):
            if process.wait(PATIENCE) != 0:
                sys.exit(f"machine {index} did not end well: see {self.folder}/{index}.log")

    def home(self, index):
        return self.folder / "real-processes" / f"peer-{index}"

    def checkpoints(self, index):
        """Oldest first."""
        return sorted((self.home(index) / "checkpoints").glob("*.ckpt"), key=written)

    def last_metrics(self, index):
        text = (self.home(index) / "metrics.jsonl").read_text()
        return json.loads(text[:text.rfind("\n")].rsplit("\n", 1)[-1])

    def tokens(self, checkpoints):
        """Of all; and the mean of their models is in average.ckpt from now on."""
        average = self.folder / "average.ckpt"
        average.unlink(missing_ok=True)
        told = subprocess.run([self.tools["starling"], "average", average, *checkpoints],
                              check=True, capture_output=True, text=True).stdout
        return int(re.search(r"(\d+) tokens", told).group(1))

    def loss(self, checkpoints):
        """Of the mean of their models."""
        self.tokens(checkpoints)
        done = subprocess.run([self.tools["starling"], "eval", self.folder / "average.ckpt",
                               "--data", "data/demo/validation", "--batches", BATCHES], cwd=ROOT,
                              check=True, capture_output=True, text=True)
        return float(re.search(r"loss\s+([0-9.]+)", done.stdout).group(1))

    def state(self, files):
        """What the last checkpoints of all tell."""
        single = [self.loss([file]) for file in files]
        return {"mean_model": self.loss(files), "best": min(single), "worst": max(single),
                "single": single, "tokens": self.tokens(files),
                "steps": [self.tokens([file]) // TOKENS_A_STEP for file in files]}

    def result(self):
        files = [self.checkpoints(i) for i in range(len(self.machines))]
        last = [self.last_metrics(i) for i in range(len(self.machines))]
        result = self.state([those[-1] for those in files])
        if len(files) < len(SPEEDS):  # each alone: the first counts, the other tells of chance
            files = files[:1]
            result |= self.state([files[0][-1]]) | {"both": result["single"]}
        result["curve"] = [
            [round(sum(map(written, those)) / len(those) - self.began, 1), self.loss(those)]
            for those in zip(*(those[:-1] for those in files))]
        return result | {"bytes": sum(line.get("bytes_out", 0) for line in last),
                         "exchanges": sum(line["exchanges"] for line in last),
                         "waited": max(line["held_seconds"] / line["seconds"] for line in last)}

    def synchronous_result(self):
        lines = [[json.loads(line) for line in (self.folder / f"{i}.log").read_text().splitlines()
                  if line.startswith("{")] for i in range(len(self.machines))]
        ends = [those[-1] for those in lines]
        curve = [[round(line["seconds"], 1), round(line["loss"], 4)]
                 for line in lines[0] if line["event"] == "loss"]
        result = self.state([self.folder / f"peer-{i}/last.ckpt" for i in range(len(ends))])
        return result | {"curve": curve, "bytes": sum(end["bytes"] for end in ends),
                         "exchanges": sum(end["meetings"] for end in ends),
                         "waited": max(end["waited_seconds"] / end["seconds"] for end in ends)}

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        if self.internet.process.poll() is None:
            self.internet.close()
        remove_groups()


def written(path):
    return path.stat().st_mtime


if __name__ == "__main__":
    main()
