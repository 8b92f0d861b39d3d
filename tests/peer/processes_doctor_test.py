#!/usr/bin/env python3
"""What `starling doctor` finds on real ports and with real peers.

    STARLING=build/dev/peer/starling tests/peer/processes_doctor_test.py [Examined.test_name]
"""

import json
import socket
import subprocess
import unittest

from processes_test import STARLING, World, free_port_pair


class Examined(World):
    def doctor(self, peer, *settings):
        """Its exit status, and its findings as {group: {check: finding}}."""
        command = [STARLING, "doctor", *peer.command[2:], "--json"]
        for setting in settings:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if report["failed"] else 0, done.stdout)
        return done.returncode, {group["name"]: {f["check"]: f for f in group["findings"]}
                                 for group in report["groups"]}

    def node(self, name="node", seeds=(), settings=()):
        """A peer that is only examined."""
        if not self.config.exists():
            self.configure(steps=1000000)
        return self.peer(name, free_port_pair(), seeds,
                         [f"status.listen=127.0.0.1:{free_port_pair()}", *settings])

    def test_a_sound_node_passes_and_nothing_is_made(self):
        code, found = self.doctor(self.node())
        self.assertEqual(code, 0, found)
        self.assertEqual(found["identity"]["key"]["verdict"], "ok")
        self.assertIn("digest", found["data"]["training"]["text"])
        self.assertIn("on this machine", found["network"]["advertised"]["text"])
        self.assertFalse((self.path / "runs").exists())

    def test_a_port_in_use_is_told_with_the_setting(self):
        node = self.node()
        port = free_port_pair()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            code, found = self.doctor(node, f"gossip.listen=127.0.0.1:{port}")
        self.assertEqual(code, 1)
        listen = found["network"]["listen"]
        self.assertEqual(listen["verdict"], "failed")
        self.assertIn(f"127.0.0.1:{port}", listen["text"])
        self.assertIn("gossip.listen", listen["remedy"])

    def test_a_broken_shard_is_found_unless_only_headers_are_read(self):
        node = self.node()
        shard = next((self.data / "train").glob("*.tok"))
        raw = bytearray(shard.read_bytes())
        raw[len(raw) // 2] ^= 1
        shard.write_bytes(raw)
        code, found = self.doctor(node)
        self.assertEqual(code, 1)
        self.assertIn(shard.name, found["data"]["training"]["text"])
        self.assertIn("starling prepare", found["data"]["training"]["remedy"])
        node.command.append("--quick")
        self.assertEqual(self.doctor(node)[0], 0)

    def test_a_key_that_its_own_list_lacks_is_told(self):
        allow = self.path / "allow.txt"
        allow.write_text("")
        node = self.node(settings=[f"trust.allow={allow}"])
        code, found = self.doctor(node)
        self.assertEqual(code, 0)
        self.assertEqual(found["identity"]["allow-list"]["verdict"], "warning")
        allow.write_text(f"{1:016x}{0:048x}\n")
        code, found = self.doctor(node)
        self.assertEqual(code, 0)
        self.assertIn("this peer's own", found["identity"]["allow-list"]["text"])

    # --- with a seed ---

    def seed(self, settings=()):
        """The port of a peer that trains, and has something to give."""
        self.configure(steps=1000000)
        port = free_port_pair()
        peer = self.peer("seed", port, settings=[
            f"status.listen=127.0.0.1:{free_port_pair()}", *settings])
        peer.start()
        self.wait_until("the seed has written a checkpoint", lambda: peer.step() > 30)
        return port

    def greet(self, node, *settings):
        """The same, once the seed has had the time to answer."""
        outcome = []

        def answered():
            outcome[:] = self.doctor(node, *settings)
            return "no peer of this key" not in self.seed_group(outcome[1])["greeting"]["text"]

        self.wait_until("the seed answers", answered)
        return outcome

    def seed_group(self, found):
        return next(findings for name, findings in found.items() if name.startswith("seed "))

    def test_a_seed_welcomes_calls_back_and_hears_goodbye(self):
        port = self.seed()
        node = self.node(seeds=[port])
        code, found = self.greet(node)
        self.assertEqual(code, 0, found)
        told = self.seed_group(found)
        for check in ("connect", "greeting", "round trip", "clock", "way back"):
            self.assertEqual(told[check]["verdict"], "ok", told)
        self.assertIn(" ms", told["round trip"]["text"])
        self.assertIn(" this machine's, within", told["clock"]["text"])
        seed = self.peers[0]
        self.wait_until("the seed has heard the goodbye", lambda: seed.said("has left"))
        self.assertFalse(node.folder.exists())
        # What a run does next is welcome: it is no former life of the doctor's.
        node.start()
        self.wait_until("they exchange", lambda: (
            node.step() and node.metrics()[-1]["exchanges"] > 0))
        # And while it runs nobody speaks in its name.
        code, found = self.doctor(node)
        self.assertIn("not greeted", self.seed_group(found)["greeting"]["text"])
        self.assertEqual(found["identity"]["run folder"]["verdict"], "warning")

    def test_a_seed_that_cannot_call_back_is_worth_a_warning(self):
        port = self.seed()
        code, found = self.greet(self.node(seeds=[port]),
                                 f"gossip.advertise=127.0.0.1:{free_port_pair()}")
        self.assertEqual(code, 0, found)
        told = self.seed_group(found)
        self.assertEqual(told["greeting"]["verdict"], "ok", told)
        self.assertEqual(told["way back"]["verdict"], "warning", told)
        self.assertIn("gossip.advertise", told["way back"]["remedy"])

    def test_a_seed_that_is_silent_and_one_that_is_not_there_are_told_apart(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            port = silent.getsockname()[1]
            code, found = self.doctor(self.node(seeds=[port, free_port_pair()]))
        self.assertEqual(code, 1)
        groups = [found[name] for name in found if name.startswith("seed ")]
        self.assertEqual(groups[0]["connect"]["verdict"], "ok")
        self.assertIn("no peer of this key", groups[0]["greeting"]["text"])
        self.assertIn("gossip.seeds", groups[0]["greeting"]["remedy"])
        self.assertEqual(groups[1]["connect"]["verdict"], "warning")
        self.assertNotIn("greeting", groups[1])

    def test_another_run_model_or_cut_is_refused_with_the_setting_that_differs(self):
        port = self.seed()
        for name, setting, remedy in (("run", "run.name=other", "run.name"),
                                      ("model", "model.ffn=96", "[model]"),
                                      ("layout", "outer.fragments=2", "outer.fragments")):
            with self.subTest(setting=setting):
                code, found = self.greet(self.node(name, [port], [setting]))
                self.assertEqual(code, 1)
                greeting = self.seed_group(found)["greeting"]
                self.assertEqual(greeting["verdict"], "failed")
                self.assertIn(remedy, greeting["remedy"])

    def test_a_key_that_the_seed_does_not_let_in_is_told(self):
        allow = self.path / "allow.txt"
        allow.write_text("")
        port = self.seed([f"trust.allow={allow}"])
        code, found = self.greet(self.node(seeds=[port]))
        self.assertEqual(code, 1)
        greeting = self.seed_group(found)["greeting"]
        self.assertIn("allow-list", greeting["text"])
        self.assertIn("trust.allow names there", greeting["remedy"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
