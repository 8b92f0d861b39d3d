"""What a chaos run left behind, read back: its history, and the lines of every life of every peer.

A life is one process, from its start to its end. Its lines stand between two places of the peer's
files, which the history knows; times are turned into the history's seconds.
"""

import dataclasses
import json
import statistics
from pathlib import Path


@dataclasses.dataclass
class Life:
    peer: int
    number: int
    began: float
    ended: float  # killed, or asked to end
    metrics: list
    events: list
    samples: list


class Records:
    def __init__(self, folder, run):
        folder = Path(folder)
        text = (folder / "history.jsonl").read_text()
        self.history = [json.loads(line) for line in text.splitlines()]
        starts = self.all("start")
        machines = sorted({line["peer"] for line in starts})
        self.peers = machines[:self.all("all train")[0]["peers"]]
        self.controls = machines[len(self.peers):]  # those that train alone
        self.closed = self.all("all train")[0].get("closed", [])  # cannot be called
        self.measured_from = self.one("all train")
        self.calm_from = self.one("calm")  # the last fault is over
        self.ending = self.one("ending")
        self.lives, self.ids = {}, {}
        for peer in machines:
            home = folder / "runs" / run / f"peer-{peer}"
            mine = [line for line in starts if line["peer"] == peer]
            self.ids[peer] = mine[0]["id"]
            self.lives[peer] = [
                self.read_life(line, mine[i + 1] if i + 1 < len(mine) else None, home)
                for i, line in enumerate(mine)]

    def all(self, event, peer=None):
        return [line for line in self.history
                if line["event"] == event and peer in (None, line.get("peer"))]

    def one(self, event):
        return self.all(event)[0]["at"]

    def read_life(self, start, following, home):
        peer, began = start["peer"], start["at"]
        ends = [line["at"] for line in self.all("killed", peer) + self.all("left", peer)
                if line["at"] > began]
        clock = [line["began"] for line in self.all("clock", peer)
                 if line["life"] == start["life"]]
        parts, zero = {}, clock[0] if clock else began
        for kind in ("metrics", "events"):
            path = home / f"{kind}.jsonl"
            raw = path.read_bytes() if path.exists() else b""
            raw = raw[start[f"{kind}_from"]:following[f"{kind}_from"] if following else None]
            parts[kind] = [line | {"at": zero + line["seconds"]} for line in parse(raw)]
        samples = [line for line in self.all("sample", peer) if line["life"] == start["life"]]
        return Life(peer, start["life"], began, min(ends, default=self.ending),
                    parts["metrics"], parts["events"], samples)

    def pauses(self, peer):
        """When it was stopped, as (from, to)."""
        begins = [line["at"] for line in self.all("stopped", peer)]
        ends = [line["at"] for line in self.all("went on", peer)]
        return [(begin, min([end for end in ends if end > begin], default=self.ending))
                for begin in begins]

    def survivors(self):
        """Those that were running at the end."""
        gone = {line["peer"] for line in self.all("killed") if line["for_ever"]}
        return [peer for peer in self.peers
                if peer not in gone and not self.all("needs a hand", peer)]

    def muted_strangers(self):
        """Who no longer listened to somebody that is none of the machines: the hostile peer."""
        return {peer for peer in self.peers for life in self.lives[peer] for e in life.events
                if e["event"] == "muted" and e["by_us"] and e["peer"] not in self.ids.values()}

    def trained(self, peer):
        """Tokens and seconds of a machine while it was up, from when all trained to the end: of
        each life, from its first line to its last. What it was stopped for does not count."""
        tokens = seconds = held = 0
        for life in self.lives[peer]:
            lines = [m for m in life.metrics if self.measured_from <= m["at"] <= self.ending]
            if len(lines) < 2:
                continue
            first, last = lines[0], lines[-1]
            tokens += last["tokens"] - first["tokens"]
            held += last["held_seconds"] - first["held_seconds"]
            seconds += last["at"] - first["at"]
            seconds -= sum(max(0, min(end, last["at"]) - max(begin, first["at"]))
                           for begin, end in self.pauses(peer))
        return tokens, seconds, held

    def processor_share(self, peers):
        """What these machines got of the processor time they were promised while they trained, and
        what their trainers had of it. The first is much less than all: they waited, or this
        computer was too busy for them. The second is what waiting and all other threads leave."""
        promised = self.all("all train")[0]["share"]
        got = trained = due = 0
        for life in (life for peer in peers for life in self.lives[peer]):
            trains = [m["at"] for m in life.metrics]
            samples = [s for s in life.samples if self.measured_from <= s["at"] <= self.ending
                       and trains and trains[0] <= s["at"] <= trains[-1]]
            for one, other in zip(samples, samples[1:]):
                if not any(begin < other["at"] and one["at"] < end
                           for begin, end in self.pauses(life.peer)):
                    got += other["cpu_seconds"] - one["cpu_seconds"]
                    trained += other["trainer_seconds"] - one["trainer_seconds"]
                    due += promised * (other["at"] - one["at"])
        return (got / due, trained / due) if due else (0, 0)

    def median_tokens(self, at):
        """Of the peers, by their last lines until then."""
        lines = {peer: [m["tokens"] for life in self.lives[peer] for m in life.metrics
                        if m["at"] <= at] for peer in self.peers}
        return statistics.median([tokens[-1] for tokens in lines.values() if tokens] or [0])

    def rate(self, peers):
        """Tokens per second of up-time, the mean of these machines."""
        done = [self.trained(peer) for peer in peers]
        return sum(tokens / seconds for tokens, seconds, _ in done if seconds) / len(done)

    def held(self, peers):
        """The share of these machines' up-time that their trainers were held."""
        done = [self.trained(peer) for peer in peers]
        return sum(held for _, _, held in done) / sum(seconds for _, seconds, _ in done)

    def trained_twice(self):
        """Tokens that were lost with a life, behind its last checkpoint, and trained again. Who
        lost its disk goes on from others' weights, and counts its own tokens anew."""
        lost = 0
        for peer in self.peers:
            lives, anew = self.lives[peer], {line["life"] for line in self.all("disk lost", peer)}
            for before, after in zip(lives, lives[1:]):
                if before.metrics and after.metrics and before.number not in anew:
                    lost += max(0, before.metrics[-1]["tokens"] - after.metrics[0]["tokens"])
        return lost


def parse(raw):
    lines = []
    for line in raw.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue  # torn by a kill
    return [line for line in lines if isinstance(line, dict) and "seconds" in line]
