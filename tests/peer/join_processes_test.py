#!/usr/bin/env python3
"""Newcomers as processes on loopback: donors and the newcomer itself are killed in the middle.

    STARLING=build/dev/peer/starling tests/peer/join_processes_test.py [Case.test_name]

The newcomer's line is slow and it is stopped as soon as its journal holds a whole stripe, so that
what is killed is killed in the middle however fast the machine is. Nothing here asserts an absolute
time.
"""

import collections
import signal
import statistics
import struct
import time
import unittest

from processes_test import World, free_port_pair

# Many small stripes.
SETTINGS = ["model.layers=24", "outer.fragments=25", "outer.steps_per_round=25",
            "checkpoint.every_steps=50", "join.wait_seconds=10", "join.patience_seconds=120",
            "join.newcomer_tokens=10000"]
TRAINED = 200  # steps of 256 tokens
# Bytes: what the journal begins with, and a record, which begins with its kind, piece and snapshot.
JOURNAL_HEADER, JOURNAL_RECORD, JOURNAL_FIELDS = 48, 56, struct.Struct("<IIQ")
STORED = 1
STRIPES, WANTED = 25, 2  # piece p is of stripe p % STRIPES; weights and second moments are wanted


class Joined(World):
    def setUp(self):
        super().setUp()
        self.configure(steps=100000)
        self.ports = [free_port_pair() for _ in range(3)]
        for i, port in enumerate(self.ports):
            others = [p for p in self.ports if p != port]
            self.peer(f"donor-{i}", port, others, SETTINGS + ["join.wait_seconds=1"]).start()
        self.donors = list(self.peers)
        self.wait_until("the donors have trained",
                        lambda: all(p.step() > TRAINED for p in self.donors))
        self.newcomer = self.peer("newcomer", free_port_pair(), self.ports,
                                  SETTINGS + ["bandwidth.download_mbit=4"])
        self.journal = self.newcomer.folder / "join/state.journal"

    def whole_stripes(self):
        try:
            records = self.journal.read_bytes()[JOURNAL_HEADER:]
        except OSError:
            return 0  # not there yet, or not any more
        stored = set()
        for at in range(0, len(records) - JOURNAL_RECORD + 1, JOURNAL_RECORD):
            kind, piece, snapshot = JOURNAL_FIELDS.unpack_from(records, at)
            if kind == STORED:
                stored.add((piece % STRIPES, snapshot, piece // STRIPES))
        of_stripe = collections.Counter((stripe, snapshot) for stripe, snapshot, _ in stored)
        return sum(count == WANTED for count in of_stripe.values())

    def start_and_stop_in_the_middle(self):
        self.newcomer.start()
        end = time.monotonic() + 120
        while self.whole_stripes() == 0:
            self.assertLess(time.monotonic(), end, self.newcomer.log.read_text()[-3000:])
            self.assertIsNone(self.newcomer.process.poll())
        self.newcomer.process.send_signal(signal.SIGSTOP)
        self.assertFalse(self.newcomer.said("state: fetched"))

    def check_start(self):
        """The newcomer has started at the donors' loss, and its donors noticed nothing."""
        self.wait_until("the state is fetched", lambda: self.newcomer.said("state: fetched"))
        self.wait_until("the newcomer trains", lambda: len(self.newcomer.metrics()) > 20)
        alive = [p for p in self.donors if p.process.poll() is None]
        lines = [p.metrics() for p in alive]
        theirs = statistics.mean(statistics.mean(m["loss"] for m in line[-20:]) for line in lines)
        fresh = statistics.mean(line[0]["loss"] for line in lines)
        first = statistics.mean(m["loss"] for m in self.newcomer.metrics()[:3])
        # They go on to learn while it fetches.
        step = next(e["step"] for e in self.newcomer.events() if e["event"] == "joined")
        then = statistics.mean(m["loss"] for line in lines for m in line
                               if step - 20 < m["step"] <= step)
        print(f"loss of a fresh peer {fresh:.3f}, of the donors {then:.3f} at what was fetched, "
              f"newcomer's first {first:.3f}, the donors' now {theirs:.3f}")
        self.assertLess(first, then + 0.1 * (fresh - then))
        for line in lines:
            worst = max(m["loss"] for m in line[-50:])
            self.assertLess(worst, theirs + 0.2 * (fresh - theirs))
        self.wait_until("the fetched files are gone", lambda: not self.journal.exists())

    def test_a_donor_killed_in_the_middle_is_replaced(self):
        self.start_and_stop_in_the_middle()
        serving = [p for p in self.donors if p.said("state: serving")]
        self.assertGreater(len(serving), 0)  # the others may come to it later
        victim = serving[0]
        victim.kill()
        self.newcomer.process.send_signal(signal.SIGCONT)
        self.check_start()

    def test_a_newcomer_killed_in_the_middle_goes_on_where_it_was(self):
        self.start_and_stop_in_the_middle()
        self.newcomer.kill()
        self.newcomer.start()
        self.wait_until("it says what it has",
                        lambda: self.newcomer.said("stripes of an earlier download are here"))
        self.check_start()
        # Killed again, it goes on from the checkpoint that was written at once.
        self.newcomer.kill()
        self.newcomer.start()
        self.wait_until("it goes on", lambda: self.newcomer.said("going on from"))

    def test_what_was_fetched_before_the_donors_died_serves_the_next_start(self):
        self.newcomer.command += ["--set", "join.patience_seconds=3"]
        self.start_and_stop_in_the_middle()
        for donor in self.donors:
            donor.kill()
        self.newcomer.process.send_signal(signal.SIGCONT)
        self.wait_until("it trains without them",
                        lambda: self.newcomer.said("training from this peer's own weights"))
        self.newcomer.process.terminate()
        self.finish(self.newcomer)
        self.assertGreater(len(list(self.newcomer.folder.glob("checkpoints/*.ckpt"))), 0)
        self.newcomer.start()
        self.wait_until("it says what it has",
                        lambda: self.newcomer.said("stripes of an earlier download are here"))


class Early(World):
    def test_a_donor_without_a_checkpoint_writes_one_for_a_newcomer(self):
        self.configure(steps=100000)
        settings = SETTINGS + ["checkpoint.every_steps=1000000", "join.wait_seconds=1"]
        ports = [free_port_pair() for _ in range(2)]
        donor = self.peer("donor", ports[0], ports[1:], settings)
        donor.start()
        self.wait_until("the donor has trained", lambda: donor.step() > TRAINED)
        self.assertEqual(list(donor.folder.glob("checkpoints/*.ckpt")), [])
        newcomer = self.peer("newcomer", ports[1], ports[:1], settings)
        newcomer.start()
        self.wait_until("the state is fetched", lambda: newcomer.said("state: fetched"))
        self.assertEqual(len(list(donor.folder.glob("checkpoints/*.ckpt"))), 1)
        # What it writes at once knows how far the swarm was.
        written = newcomer.folder / "checkpoints"
        self.wait_until("its own is written", lambda: list(written.glob("*.ckpt")))
        newcomer.kill()
        donor.kill()
        before = len(newcomer.metrics())
        newcomer.start()
        self.wait_until("it trains again", lambda: len(newcomer.metrics()) > before)
        self.assertGreater(newcomer.metrics()[before]["swarm_tokens"], TRAINED * 256)


class Old(World):
    def test_a_peer_whose_checkpoint_is_old_fetches_when_it_is_back(self):
        self.configure(steps=1000000)
        settings = SETTINGS + ["join.wait_seconds=1", "join.newcomer_tokens=1000000000",
                               "join.missed_seconds=4"]
        ports = [free_port_pair() for _ in range(2)]
        away, stays = [self.peer(name, port, [p for p in ports if p != port], settings)
                       for name, port in zip(["away", "stays"], ports)]
        for peer in (away, stays):
            peer.start()
        self.wait_until("both have trained", lambda: min(p.step() for p in self.peers) > TRAINED)
        away.process.terminate()
        away.process.wait()
        self.assertFalse(away.said("state: fetched"))
        left = stays.metrics()[-1]["train_seconds"]
        self.wait_until("one has trained on",
                        lambda: stays.metrics()[-1]["train_seconds"] > left + 8)
        own, others = away.step(), stays.step()
        away.start()
        self.wait_until("the state is fetched", lambda: away.said("state: fetched"))
        self.assertTrue(away.said("until it has met them"))
        self.wait_until("it trains", lambda: away.step() != own)
        self.assertGreater(away.step(), (own + others) / 2)  # from a checkpoint of the other's
        self.assertIsNone(stays.process.poll())


if __name__ == "__main__":
    unittest.main(verbosity=2)
