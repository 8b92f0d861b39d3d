#!/usr/bin/env python3
"""Processes on loopback that trust each other or do not, and one that can only dial.

    STARLING=build/dev/peer/starling tests/peer/processes_trust_test.py [Trusted.test_name]
"""

import json
import math
import os
import signal
import subprocess
import unittest
from pathlib import Path

from processes_status_test import fetch
from processes_test import STARLING, World, free_port_pair

HOSTILE_PEER = os.environ.get("STARLING_HOSTILE_PEER")


def exchanges(peer):
    lines = peer.metrics()
    return lines[-1]["exchanges"] if lines else 0


class Trusted(World):
    def meet(self, settings, steps=400, names=("left", "right")):
        """Two peers that are each other's seeds, with settings of their own; started."""
        self.configure(steps)
        ports = [free_port_pair() for _ in names]
        for i, (name, port) in enumerate(zip(names, ports)):
            self.peer(name, port, [p for p in ports if p != port], settings[i]).start()
        return self.peers

    def allow(self, *peers):
        path = self.path / "allow.txt"
        beside = self.path / "allow.new"
        beside.write_text("".join(f"{peer.key} {peer.folder.name}\n" for peer in peers))
        beside.rename(path)
        return f"trust.allow={path}"

    def secret(self, name):
        path = self.path / name
        subprocess.run([STARLING, "keygen", "--secret", path], check=True, capture_output=True)
        return f"trust.secret={path}"

    def test_peers_with_the_same_secret_train_together(self):
        secret = self.secret("secret")
        for peer in self.meet([[secret], [secret]]):
            self.finish(peer)
            self.assertGreater(peer.metrics()[-1]["exchanges"], 0)
            self.assertTrue(peer.said("others can reach this peer at 127.0.0.1"))
            self.assertTrue(peer.said("the learning rate reaches its floor"))

    def test_peers_with_other_secrets_refuse_each_other_and_say_why(self):
        for peer in self.meet([[self.secret("one")], [self.secret("two")]]):
            self.finish(peer)
            self.assertTrue(peer.said("refused"))
            self.assertTrue(peer.said("another swarm secret"))
            self.assertEqual(peer.metrics()[-1]["exchanges"], 0)

    def test_the_allow_list_is_read_again_while_the_peers_run(self):
        self.configure(steps=1000000)
        allow = f"trust.allow={self.path}/allow.txt"
        ports = [free_port_pair(), free_port_pair()]
        page = free_port_pair()
        left = self.peer("left", ports[0], [], [allow, f"status.listen=127.0.0.1:{page}"])
        right = self.peer("right", ports[1], [ports[0]])
        self.allow()
        left.start()
        right.start()
        self.wait_until("both say why", lambda: all(
            p.said("a key that is not on the allow-list") for p in self.peers))
        self.assertTrue(left.said(right.key))
        self.assertTrue(left.said("there is no key in"))
        (self.path / "allow.txt").write_text("nobody\n")
        self.wait_until("a bad list is reported", lambda: left.said("the old one stays in force"))
        self.allow(right)
        self.wait_until("they exchange", lambda: all(
            p.step() and p.metrics()[-1]["exchanges"] > 0 for p in self.peers))
        self.wait_until("the right one is called as in the list", lambda: [
            peer.get("name") for peer in json.loads(fetch(page, "/status"))["peers"]] == ["right"])
        self.allow()
        self.wait_until("a list of nobody is refused",
                        lambda: left.said("names no key any more"))
        self.allow(left)
        self.wait_until("the right one is out", lambda: left.metrics()[-1]["partners"] == 0)
        exchanges = left.metrics()[-1]["exchanges"]
        step = left.step()
        self.wait_until("the left one trains on", lambda: left.step() > step + 500)
        self.assertLessEqual(left.metrics()[-1]["exchanges"], exchanges + 1)
        self.assertEqual(left.metrics()[-1]["partners"], 0)
        (self.path / "allow.txt").unlink()
        self.wait_until("a list that is gone is reported", lambda: left.said("No such file"))

    def test_a_peer_that_only_dials_takes_full_part(self):
        for peer in self.meet([[], ["gossip.listen="]], steps=1500):
            self.finish(peer)
        reachable, dialler = self.peers
        done = [e["initiated"] for e in dialler.events()
                if e["event"] == "exchange" and e["outcome"] == "completed"]
        self.assertIn(True, done, "it begins exchanges")
        self.assertIn(False, done, "and is asked for some")
        self.assertFalse(dialler.metrics()[-1]["dialable"])
        self.assertTrue(reachable.metrics()[-1]["dialable"])
        self.assertTrue(dialler.said("cannot be called"))

    def test_a_peer_whose_port_is_closed_takes_part_and_says_what_to_open(self):
        self.configure(steps=1000000)
        ports = [free_port_pair(), free_port_pair()]
        here = self.peer("here", ports[0], [])
        closed = self.peer("closed", ports[1], [ports[0]], ["gossip.advertise=127.0.0.1:9"])
        here.start()
        closed.start()
        self.wait_until("it says what to open", lambda: closed.said("cannot be reached"))
        self.assertTrue(closed.said("at 127.0.0.1:9 by all of its peers (1); open TCP ports 9 and"))
        self.wait_until("they exchange", lambda: closed.metrics()[-1]["exchanges"] > 0)
        self.assertFalse(closed.metrics()[-1]["dialable"])

    def test_a_member_that_does_its_worst_is_muted_by_name_and_the_others_go_on(self):
        insider = subprocess.run([HOSTILE_PEER, "key"], check=True, capture_output=True,
                                 text=True).stdout.strip()
        self.configure(steps=1000000)
        ports = [free_port_pair() for _ in range(2)]
        allow = f"trust.allow={self.path}/allow.txt"
        peers = [self.peer(f"peer-{i}", port, [p for p in ports if p != port], [allow])
                 for i, port in enumerate(ports)]
        self.allow(*peers)
        with open(self.path / "allow.txt", "a") as listed:
            listed.write(f"{insider} insider\n")
        for peer in peers:
            peer.start()
        self.wait_until("they exchange", lambda: all(exchanges(p) > 0 for p in peers))
        targets = [f"{peer.key}@127.0.0.1:{port}" for peer, port in zip(peers, ports)]
        attack = subprocess.run([HOSTILE_PEER, "5", "10", *targets], check=True,
                                capture_output=True, text=True)
        blows = json.loads(attack.stdout)
        self.assertGreater(blows.pop("welcome"), 0, "it never came in as a member")
        self.assertGreater(sum(blows.values()), 100)
        before = [exchanges(peer) for peer in peers]
        self.wait_until("they exchange with each other as before",
                        lambda: all(exchanges(p) > b + 2 for p, b in zip(peers, before)))
        for peer in peers:
            muted = [e for e in peer.events() if e["event"] == "muted" and e["by_us"]]
            self.assertTrue(muted, "nobody was muted")
            honest = {p.key[:16] for p in peers}
            self.assertFalse(honest & {e["peer"] for e in muted}, "an honest one was")
            self.assertTrue(peer.said("insider ("), "its name is not in the log")
            self.assertTrue(all(math.isfinite(line["loss"]) for line in peer.metrics()[1:]))
            peer.process.terminate()
            self.finish(peer)

    def test_two_peers_that_only_dial_exchange_through_a_volunteer(self):
        self.meet([["relay.volunteer=true"], ["gossip.listen="], ["gossip.listen="]],
                  steps=1000000, names=("relay", "anna", "bert"))
        relay, anna, bert = self.peers
        id_of = lambda peer: peer.key[:16]  # noqa: E731

        def met(peer, partner):
            return any(e["event"] == "exchange" and e["outcome"] == "completed"
                       and e["partner"] == id_of(partner) for e in peer.events())

        self.wait_until("they exchange through the relay, and with it",
                        lambda: met(anna, bert) and met(bert, anna) and met(anna, relay))
        self.assertTrue(relay.said(f"relaying for peer {id_of(anna)}"))
        self.assertTrue(anna.said(f"peer {id_of(relay)} relays for this one"))
        self.wait_until("the first figures of each", lambda: all(p.step() for p in self.peers))
        self.wait_until("the relay counts what it forwards", lambda: (
            relay.metrics()[-1]["relayed_bytes"] > 0 and relay.metrics()[-1]["relay_holders"] == 2))
        for peer in self.peers:
            self.assertEqual(peer.metrics()[-1]["envelopes_dropped"], {})
            self.assertEqual(peer.metrics()[-1]["frames_dropped"], {})

    def test_no_two_processes_take_part_in_a_run_with_one_key(self):
        self.configure(steps=200000)
        anna_port = free_port_pair()
        anna = self.peer("anna", anna_port)
        anna.start()
        self.wait_until("anna trains", lambda: anna.step() > 5)
        twin = self.peer("twin", free_port_pair(), (), [f"trust.key={self.path}/keys/{anna_port}"])
        twin.start()
        self.wait_until("the twin ends", lambda: twin.process.poll() is not None)
        self.assertEqual(twin.process.returncode, 1)
        self.assertTrue(twin.said("another process takes part in run processes with the key"))
        anna.process.send_signal(signal.SIGINT)
        self.finish(anna)

    def test_a_key_that_others_can_read_is_not_used(self):
        self.configure(steps=100)
        peer = self.peer("open", free_port_pair())
        Path(f"{self.path}/keys").joinpath(os.listdir(f"{self.path}/keys")[0]).chmod(0o644)
        peer.start()
        self.wait_until("it gives up", lambda: peer.process.poll() is not None)
        self.assertNotEqual(peer.process.returncode, 0)
        self.assertTrue(peer.said("chmod 600"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
