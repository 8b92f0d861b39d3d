#!/usr/bin/env python3
"""The status server of real peers: what it tells while they train, and that nobody disturbs them.

    STARLING=build/dev/peer/starling tests/peer/processes_status_test.py [Watched.test_name]

PROMTOOL names Debian's promtool; without one that check is skipped, aloud.
"""

import json
import os
import random
import shutil
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

from processes_test import World, free_port_pair

PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")


def fetch(port, path, host=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if host:
        request.add_header("Host", host)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def samples(text):
    """Prometheus' text as {name and labels: value}."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


class Watched(World):
    def pair(self, steps=200000):
        """Two peers and the ports of their status servers."""
        self.configure(steps=steps)
        ports = [free_port_pair(), free_port_pair()]
        pages = [free_port_pair(), free_port_pair()]
        for i, port in enumerate(ports):
            self.peer(f"peer-{i}", port, [p for p in ports if p != port],
                      [f"status.listen=127.0.0.1:{pages[i]}"]).start()
        for peer in self.peers:
            self.wait_until("they have trained", lambda p=peer: p.step() > 20)
        return pages

    def test_a_peer_tells_how_it_is_while_it_trains(self):
        pages = self.pair()
        self.assertEqual(fetch(pages[0], "/healthz"), "ok\n")
        status = lambda: json.loads(fetch(pages[0], "/status"))
        self.wait_until("it has exchanged", lambda: status()["exchanges"] > 2)
        first = status()
        self.assertEqual(first["peer"], "peer-0")
        self.assertEqual(first["run"], "processes")
        self.assertEqual(first["partners"], 1)
        self.wait_until("it tells of more", lambda: status()["step"] > first["step"])
        told = samples(fetch(pages[0], "/metrics"))
        self.assertGreaterEqual(told["starling_steps_total"], first["step"])
        self.assertGreater(told["starling_sent_bytes_total"], 0)
        self.assertEqual(told['starling_peers{health="alive"}'], 1)
        line = self.peers[0].metrics()[-1]  # the same figures, a little later
        self.assertGreaterEqual(line["bytes_out"], told["starling_sent_bytes_total"])
        with self.assertRaises(urllib.error.HTTPError) as refused:
            fetch(pages[0], "/status", host="rebound.example")
        self.assertEqual(refused.exception.code, 403)
        refused.exception.close()

    def test_promtool_has_nothing_against_the_metrics(self):
        if not PROMTOOL:
            self.skipTest("no promtool: apt-get download prometheus, unpack it with dpkg-deb -x "
                          "(installing it starts a server) and name the program in PROMTOOL")
        text = fetch(self.pair()[0], "/metrics")
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), text)

    def test_bad_clients_do_not_disturb_training(self):
        pages = self.pair()
        rng = random.Random(11)
        held = []
        for i in range(64):  # twice as many as are let in
            client = socket.create_connection(("127.0.0.1", pages[0]))
            client.settimeout(30)
            held.append(client)
            try:
                if i % 3 == 0:
                    client.sendall(rng.randbytes(20000))
                elif i % 3 == 1:  # asks and never reads
                    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
            except OSError:
                pass  # it was hung up on
        before = [peer.step() for peer in self.peers]
        self.wait_until("both train on", lambda: all(
            peer.step() > step + 100 for peer, step in zip(self.peers, before)))
        for client in held:
            client.close()

        def answers():
            try:
                return fetch(pages[0], "/healthz") == "ok\n"
            except OSError:
                return False

        self.wait_until("it answers others again", answers)

    def test_a_port_in_use_costs_the_page_and_nothing_else(self):
        self.configure(steps=60)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            peer = self.peer("late", free_port_pair(), (),
                             [f"status.listen=127.0.0.1:{port}", "outer.method=local"])
            peer.start()
            self.finish(peer)
        self.assertTrue(peer.said(f"no status page at 127.0.0.1:{port} (status.listen)"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
