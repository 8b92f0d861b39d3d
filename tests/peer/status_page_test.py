#!/usr/bin/env python3
"""The status page of a small real swarm in a real headless Chromium.

    STARLING=build/dev/peer/starling tests/peer/status_page_test.py [Shown.test_name]

Needs Debian's chromium, chromium-driver and python3-selenium; skipped, aloud, where they are not.
SCREENSHOTS names a folder to keep pictures in.
"""

import json
import os
import shutil
import signal
import time
import unittest
from pathlib import Path

from processes_test import World, free_port_pair

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
SCREENSHOTS = os.environ.get("SCREENSHOTS")

# (width, height, scheme): a desk and a phone, by day and by night.
SCREENS = [(1280, 1400, "light"), (1280, 1400, "dark"), (360, 740, "light"), (360, 740, "dark")]


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--no-first-run", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


@unittest.skipUnless(webdriver and CHROMIUM and DRIVER,
                     "no chromium, chromium-driver or python3-selenium here: apt-get install them")
class Shown(World):
    def setUp(self):
        super().setUp()
        self.chromium = browser()
        self.addCleanup(self.chromium.quit)

    def swarm(self, count=3):
        """Peers that all have exchanged, and the port of the first one's page."""
        self.configure(steps=2000000)
        ports = [free_port_pair() for _ in range(count)]
        page = free_port_pair()
        allow = self.path / "allow.txt"
        for i, port in enumerate(ports):
            listen = f"status.listen={f'127.0.0.1:{page}' if i == 0 else ''}"
            self.peer(f"peer-{i}", port, [p for p in ports if p != port],
                      [listen, "metrics.validate_every_steps=50",
                       "bandwidth.upload_mbit=80", f"trust.allow={allow}"])
        allow.write_text("".join(f"{peer.key} {peer.folder.name} of the upper attic\n"
                                 for peer in self.peers))
        for peer in self.peers:
            peer.start()
        self.wait_until("they exchange", lambda: all(
            peer.metrics() and peer.metrics()[-1]["exchanges"] > 5 for peer in self.peers))
        return page

    def text(self, selector):
        return self.chromium.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def show(self, width, height, scheme):
        self.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def keep_picture(self, name):
        if not SCREENSHOTS:
            return
        folder = Path(SCREENSHOTS)
        folder.mkdir(parents=True, exist_ok=True)
        height = self.chromium.execute_script("return document.documentElement.scrollHeight")
        width = self.chromium.execute_script("return window.innerWidth")
        self.chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.chromium.save_screenshot(str(folder / f"{name}.png"))

    def assert_clean(self, page):
        """Nothing in the console, and no request to anybody else."""
        self.assertEqual([entry for entry in self.chromium.get_log("browser")], [])
        asked = [json.loads(entry["message"])["message"] for entry in
                 self.chromium.get_log("performance")]
        urls = [message["params"]["request"]["url"] for message in asked
                if message["method"] == "Network.requestWillBeSent"]
        self.assertTrue(urls)
        for url in urls:
            self.assertTrue(url.startswith((f"http://127.0.0.1:{page}/", "data:")), url)

    def test_the_page_follows_the_run(self):
        page = self.swarm()
        self.chromium.get(f"http://127.0.0.1:{page}/")
        self.wait_until("it is live", lambda: self.text("#live") == ["live"])
        self.assertEqual(self.text("#peer"), ["peer-0"])
        # What is shown is up to a second old: each sight is waited for.
        self.wait_until("it trains", lambda: self.text("#phase") == ["training"])
        self.wait_until("it knows both others", lambda:
            len(self.text("#peers tbody tr:not(.narrow)")) == 2)
        self.assertIn("peer-1 of the upper atti", self.text("#peers td.id"))  # cut short
        self.wait_until("exchanges completed", lambda: self.text("#exchanges tbody td.good"))
        self.wait_until("it shows fragments", lambda: len(self.text("#fragments .bar")) == 3)
        self.wait_until("it tells how much was read", lambda: any(
            "% of data read" in text for text in self.text("#tiles .more")))
        self.wait_until("and how its partners stand", lambda: all(
            "cpu, 1 thread" in row for row in self.text("#peers tbody tr:not(.narrow)")))

        def step():
            return int(self.text("#tiles .more")[1].removeprefix("step "))

        first = step()
        self.wait_until("the figures go on", lambda: step() > first)
        self.wait_until("there are curves", lambda: len(self.text("#loss-chart path")) == 3)
        # A page that is opened later shows what was before.
        points = "return document.querySelector('#loss-chart .first').getAttribute('d').length"
        self.wait_until("the curve grows", lambda: self.chromium.execute_script(points) > 150)
        self.chromium.refresh()
        self.wait_until("it is live again", lambda: self.text("#live") == ["live"])
        self.wait_until("the whole curve is back", lambda: self.text("#loss-chart path"))
        self.assertGreater(self.chromium.execute_script(points), 100)
        self.assert_clean(page)

    def test_it_fits_a_phone_and_a_desk_by_day_and_by_night(self):
        page = self.swarm()
        self.chromium.get(f"http://127.0.0.1:{page}/")
        self.wait_until("it is live", lambda: self.text("#live") == ["live"])
        self.wait_until("there are curves", lambda: len(self.text("#loss-chart path")) == 3)
        grounds = set()
        for width, height, scheme in SCREENS:
            with self.subTest(width=width, scheme=scheme):
                self.show(width, height, scheme)
                time.sleep(2.5)  # it is drawn anew with the next report
                wide = "return [document.documentElement.scrollWidth, window.innerWidth]"
                needed, there = self.chromium.execute_script(wide)
                self.assertEqual(there, width)
                # Round trip and device are a column, or a row of their own on a phone.
                below = self.chromium.execute_script(
                    "return [...document.querySelectorAll('#peers .narrow')].map("
                    "row => getComputedStyle(row).display !== 'none')")
                self.assertEqual(below, [width < 600] * 2)
                overfull = self.chromium.execute_script(
                    "return [...document.querySelectorAll('.card')].filter("
                    "card => card.scrollWidth > card.clientWidth).map(card => card.innerText)")
                self.assertEqual(overfull, [])
                self.assertLessEqual(needed, there)
                grounds.add(self.chromium.execute_script(
                    "return getComputedStyle(document.body).backgroundColor"))
                self.keep_picture(f"{width}-{scheme}")
        self.assertEqual(len(grounds), 2)
        self.assert_clean(page)

    def test_a_peer_left_alone_and_a_peer_that_ended_are_shown_as_such(self):
        page = self.swarm(count=2)
        self.chromium.get(f"http://127.0.0.1:{page}/")
        self.wait_until("it is live", lambda: self.text("#live") == ["live"])
        self.peers[1].kill()
        self.wait_until("it says so", lambda: any("Alone" in t for t in self.text("#alarms li")))
        self.wait_until("the other is dead", lambda: "dead" in self.text("#peers tbody td"))
        self.keep_picture("alone")
        self.peers[0].process.send_signal(signal.SIGTERM)
        self.finish(self.peers[0])
        self.wait_until("the page notices", lambda: self.text("#live") == ["not connected"])
        self.keep_picture("ended")


if __name__ == "__main__":
    unittest.main(verbosity=2)
