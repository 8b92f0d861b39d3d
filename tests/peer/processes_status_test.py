#!/usr/bin/env python3
"""What real peers show of themselves: on their status servers, which nobody disturbs, and in event
files for TensorBoard.

    STARLING=build/dev/peer/starling tests/peer/processes_status_test.py [Watched.test_name]

PROMTOOL names Debian's promtool; without one, or without the Python package tensorboard, that check
is skipped, aloud.
"""

import fcntl
import json
import os
import pty
import random
import shutil
import socket
import struct
import subprocess
import termios
import unittest
import urllib.error
import urllib.request

from processes_test import STARLING, World, free_port_pair

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


def top(*arguments):
    return subprocess.run([STARLING, "top", *arguments], capture_output=True, text=True, timeout=60)


class Screen:
    """A command of the binary on a terminal of its own."""

    def __init__(self, arguments, rows, columns):
        self.end_of_ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen([STARLING, *arguments], stdin=subprocess.DEVNULL,
                                        stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.set_blocking(self.end_of_ours, False)
        self.heard = b""

    def text(self):
        """All that was ever written."""
        try:
            while part := os.read(self.end_of_ours, 65536):
                self.heard += part
        except OSError:
            pass
        return self.heard.decode()

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.end_of_ours)


def accumulated(folder):
    """What TensorBoard shows of a folder of event files; None without the package."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return None
    shown = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    shown.Reload()
    return {tag: [(event.step, event.value) for event in shown.Scalars(tag)]
            for tag in shown.Tags()["scalars"]}


class Boarded(World):
    def test_tensorboard_reads_the_event_files_over_a_restart(self):
        self.configure(steps=1000)
        peer = self.peer("board", free_port_pair(), (),
                         ["outer.method=local", "metrics.validate_every_steps=500"])
        peer.start()
        self.wait_until("there is a checkpoint", lambda: peer.step() > 30)
        peer.kill()
        peer.start()
        self.finish(peer)
        files = sorted((peer.folder / "tensorboard").iterdir())
        self.assertEqual(len(files), 2)
        self.assertTrue(all(file.name.startswith("events.out.tfevents.") for file in files))
        shown = accumulated(peer.folder / "tensorboard")
        if shown is None:
            self.skipTest("no tensorboard: pip install tensorboard")
        # The steps that were trained again are shown as they were trained last.
        self.assertEqual([step for step, _ in shown["loss"]], list(range(1, 1001)))
        last = {line["step"]: line for line in peer.metrics()}
        for key, tag in (("loss", "loss"), ("learning_rate", "learning_rate"),
                         ("gradient_norm", "gradient_norm"),
                         ("tokens_per_second", "throughput/tokens_per_second")):
            for step, value in shown[tag]:
                self.assertAlmostEqual(value, last[step][key], delta=1e-6 * abs(value))
        self.assertEqual([step for step, _ in shown["validation_loss"]], [500, 1000])


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
        self.wait_until("the run's folder tells the same figures", lambda: (
            self.peers[0].metrics()[-1]["bytes_out"] >= told["starling_sent_bytes_total"]))
        self.wait_until("it knows how its partner stands", lambda: "loss" in status()["peers"][0])
        first = status()
        self.assertRegex(first["peers"][0]["device"], "^cpu, 1 thread(, bf16)?$")
        self.assertGreater(first["swarm_loss"], 0)
        self.assertTrue(1 <= first["equal_peers"] <= 2, first["equal_peers"])
        self.assertGreater(first["drift"], 0)
        self.wait_until("a fragment has been averaged",
                        lambda: any("age_seconds" in f for f in status()["fragments"]))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            fetch(pages[0], "/status", host="rebound.example")
        self.assertEqual(refused.exception.code, 403)
        refused.exception.close()

    def test_a_model_that_drifts_raises_an_alarm(self):
        self.configure(steps=200000)
        ports = [free_port_pair(), free_port_pair()]
        for i, port in enumerate(ports):
            self.peer(f"peer-{i}", port, [ports[1 - i]],
                      ["outer.mixing=0.001", "outer.clip_factor=0"]).start()

        def told(peer):
            return [event for event in peer.events()
                    if event["event"] == "alarm" and event["kind"] == "drifting"]

        for peer in self.peers:
            self.wait_until("it is told of its drift", lambda p=peer: told(p))
            self.assertTrue(told(peer)[0]["up"])
            self.wait_until("the log says it", lambda p=peer: p.said("Your model is drifting"))

    def test_checkpoints_that_fail_are_an_alarm_until_one_is_written(self):
        self.configure(steps=200000)
        page = free_port_pair()
        peer = self.peer("full", free_port_pair(), (),
                         [f"status.listen=127.0.0.1:{page}", "outer.method=local"])
        peer.start()
        self.wait_until("it has written one", lambda: list(
            (peer.folder / "checkpoints").glob("*.ckpt")))
        status = lambda: json.loads(fetch(page, "/status"))
        kinds = lambda: [alarm["kind"] for alarm in status().get("alarms", [])]
        self.wait_until("it tells of it", lambda: status().get("checkpoints", 0) > 0)
        self.assertEqual(kinds(), [])
        (peer.folder / "checkpoints").rename(peer.folder / "away")
        self.wait_until("it says that they fail", lambda: kinds() == ["disk"])
        self.wait_until("one is counted", lambda: status()["checkpoints_failed"] > 0)
        told = samples(fetch(page, "/metrics"))
        self.assertGreater(told["starling_checkpoints_failed_total"], 0)
        self.assertEqual(told['starling_alarm{kind="disk"}'], 1)
        (peer.folder / "away").rename(peer.folder / "checkpoints")
        self.wait_until("it is over", lambda: kinds() == [])
        self.wait_until("its events tell both", lambda: [
            event["up"] for event in peer.events()
            if event["event"] == "alarm" and event["kind"] == "disk"] == [True, False])

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

    def test_top_shows_a_peer_and_its_swarm(self):
        pages = self.pair()
        self.wait_until("it has exchanged", lambda: json.loads(
            fetch(pages[0], "/status"))["exchanges"] > 2)
        shown = top("--once", f"127.0.0.1:{pages[0]}")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertTrue(shown.stdout.startswith("peer-0 of processes: training, step "))
        other = json.loads(fetch(pages[1], "/status"))["id"]
        self.assertIn(f"\n{other[:12]} alive ", shown.stdout)
        self.assertIn("completed", shown.stdout)
        self.assertLessEqual(max(map(len, shown.stdout.splitlines())), 80)
        told = json.loads(top("--json", f"http://127.0.0.1:{pages[0]}/").stdout)
        self.assertEqual((told["peer"], told["peers"][0]["id"]), ("peer-0", other))

    def test_top_follows_a_peer_and_says_when_it_is_gone(self):
        pages = self.pair()
        screen = Screen(["top", f"127.0.0.1:{pages[0]}"], rows=24, columns=80)
        self.addCleanup(screen.end)
        self.wait_until("three pictures are painted",
                        lambda: screen.text().count("peer-0 of processes") >= 3)
        first, *_, last = [line.split(",")[1] for line in screen.text().splitlines()
                           if "peer-0 of processes" in line]
        self.assertNotEqual(first, last)
        self.peers[0].kill()
        self.wait_until("its end is told", lambda: "! no answer for" in screen.text())
        self.assertIn("nobody listens there", screen.text())

    def test_top_says_what_is_wrong_with_an_address(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            silent = taken.getsockname()[1]
            for address, complaint in ((f"127.0.0.1:{silent}", "status.listen"),
                                       ("127.0.0.1", "has no port"), ("", "has no port")):
                with self.subTest(address=address):
                    shown = top(address)
                    self.assertEqual((shown.returncode, shown.stdout), (1, ""))
                    self.assertIn(complaint, shown.stderr)
        self.configure(steps=200000)
        peer = self.peer("other", free_port_pair())
        peer.start()
        self.wait_until("it trains", lambda: peer.step() > 0)
        port = next(word for word in map(str, peer.command) if "gossip.listen" in word)
        self.assertIn("no status server", top(port.split("=")[1]).stderr)

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
