"""What goes wrong, when, to whom: a schedule drawn from a seed, and the hand that does it."""

import dataclasses
import json
import random
import subprocess

# What can go wrong: how often within 16 faults, and for how many seconds.
KINDS = {
    "kill": (4, 1, 15),           # SIGKILL; started again after so long, as by a service manager
    "new disk": (1, 1, 15),       # the same, and its checkpoints are lost: it joins anew
    "leave": (1, 1, 30),          # asked to end; comes back after so long
    "stop": (2, 1, 120),          # SIGSTOP
    "halves": (1, 10, 60),        # two halves that do not reach each other
    "alone": (1, 10, 90),         # one that reaches nobody, its link is cut
    "one-way": (1, 10, 60),       # one that hears everybody and is heard by nobody
    "slow link": (1, 20, 120),    # 1 Mbit/s
    "lossy link": (1, 20, 90),    # one packet in twenty
    "damage": (1, 20, 90),        # one packet in 50 arrives changed, and TCP does not see it
    "full disk": (1, 20, 90),     # under the checkpoints
    "hostile peer": (1, 20, 60),  # net_hostile_peer
}
OF_THE_PROCESS = ("kill", "new disk", "leave", "stop")
GAP = 5  # seconds between two faults of one machine
SLOW_MBIT, LOSS, DAMAGE = 1.0, 0.05, 0.02


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int
    after: float  # seconds from when all train
    seconds: float
    kind: str
    peers: tuple  # whom it happens to; of halves: one of them

    def __str__(self):
        return (f"{self.number:4} {self.after:8.1f} s {self.kind:12} {self.seconds:6.1f} s  "
                f"{' '.join(map(str, self.peers))}")


def draw(seed, peers, seconds, count):
    """The schedule of a run: the same for the same arguments. All faults are over by `seconds`.
    The first one kills the first peer, for ever."""
    rng = random.Random(f"faults {seed} {peers} {seconds} {count}")
    faults = [Fault(0, 0.05 * seconds, 0.0, "kill", (0,))]
    deck = []
    busy = {peer: [] for peer in range(peers)}  # one fault at a time, or they hide each other
    for _ in range(1000 * count):
        if len(faults) == count:
            break
        if not deck:
            deck = [kind for kind, (often, _, _) in KINDS.items() for _ in range(often)]
            rng.shuffle(deck)
        kind = deck.pop()
        _, least, most = KINDS[kind]
        lasts = min(least * (most / least) ** rng.random(), 0.2 * seconds)
        at = rng.uniform(0.08 * seconds, 0.98 * seconds - lasts)
        if kind == "halves":
            whom = rng.sample(range(peers), peers // 2)
        else:
            whom = [rng.randrange(1, peers)]
            taken = busy[whom[0]]
            if any(at < end + GAP and begin < at + lasts + GAP for begin, end in taken):
                deck.append(kind)  # draw it again
                continue
            taken.append((at, at + lasts))
        faults.append(Fault(0, at, lasts, kind, tuple(sorted(whom))))
    else:
        raise ValueError(f"{count} faults find no room in {seconds:g} s of {peers} peers")
    faults.sort(key=lambda fault: fault.after)
    return [dataclasses.replace(fault, number=i) for i, fault in enumerate(faults)]


class Nemesis:
    """Does the faults of a schedule to a swarm, each begun and ended in time."""

    def __init__(self, schedule, swarm, hostile_peer):
        self.swarm, self.hostile_peer = swarm, hostile_peer
        self.began = swarm.history.now()
        self.todo = sorted([(f.after, 1, f) for f in schedule] +
                           [(f.after + f.seconds, 0, f) for f in schedule if f.seconds > 0],
                           key=lambda step: (step[0], step[1], step[2].number))
        self.active, self.attackers = {}, {}

    def act(self):
        """Whatever is due."""
        while self.todo and self.swarm.history.now() - self.began >= self.todo[0][0]:
            _, begins, fault = self.todo.pop(0)
            if begins:
                self.begin(fault)
            elif fault.number in self.active:
                self.finish(fault)

    def over(self):
        return not self.todo

    def begin(self, fault):
        peer = self.swarm.peers[fault.peers[0]]
        if peer.state != "up" and (fault.kind in OF_THE_PROCESS):
            return self.swarm.history.write("fault left out", number=fault.number, kind=fault.kind,
                                            because=peer.state)
        self.swarm.history.write("fault", **dataclasses.asdict(fault))
        if fault.seconds > 0:
            self.active[fault.number] = fault
        if fault.kind == "kill":
            peer.kill(for_ever=fault.seconds == 0)
        elif fault.kind == "new disk":
            peer.kill()
            peer.lose_disk()
        elif fault.kind == "leave":
            peer.leave()
        elif fault.kind == "stop":
            peer.stop()
        elif fault.kind == "full disk":
            peer.disk.fill()
        elif fault.kind == "hostile peer":
            self.attack(fault)
        else:
            self.relink()

    def finish(self, fault):
        del self.active[fault.number]
        peer = self.swarm.peers[fault.peers[0]]
        if fault.kind in ("kill", "new disk", "leave"):
            peer.come_back()
        elif fault.kind == "stop":
            if peer.state == "stopped":
                peer.go_on()
        elif fault.kind == "full disk":
            peer.disk.free()
        elif fault.kind == "hostile peer":
            output, _ = self.attackers.pop(fault.number).communicate(timeout=30)
            self.swarm.history.write("attacked", number=fault.number, did=json.loads(output))
        else:
            self.relink()
        self.swarm.history.write("fault over", number=fault.number, kind=fault.kind)

    def attack(self, fault):
        internet = self.swarm.internet
        targets = [f"{peer.key}@{internet.address(peer.index)}" for peer in self.swarm.peers]
        self.attackers[fault.number] = subprocess.Popen(
            [*internet.enter(len(internet.links) - 1), self.hostile_peer, str(fault.number),
             f"{fault.seconds - 2:.1f}", *targets], stdout=subprocess.PIPE, text=True)

    def relink(self):
        hosts = range(len(self.swarm.peers))
        links = {host: {"blocked": set()} for host in hosts}
        for fault in self.active.values():
            inside = set(fault.peers)
            for host in hosts:
                if fault.kind in ("halves", "alone"):
                    links[host]["blocked"] |= set(hosts) - inside if host in inside else inside
                elif fault.kind == "one-way" and host in inside:
                    links[host]["blocked"] |= set(hosts) - inside
                elif fault.kind == "slow link" and host in inside:
                    links[host]["mbit"] = SLOW_MBIT
                elif fault.kind == "lossy link" and host in inside:
                    links[host]["loss"] = LOSS
                elif fault.kind == "damage" and host in inside:
                    links[host]["damage"] = DAMAGE
        self.swarm.internet.set_faults(links)
