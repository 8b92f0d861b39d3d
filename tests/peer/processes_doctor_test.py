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
        self.assertEqual(code, 1)
        self.assertIn(f"echo '{node.key}", found["identity"]["allow-list"]["remedy"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
