#!/usr/bin/env python3
"""The judge of chaos is judged: records with planted debts, and schedules that must keep rules."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts/chaos"))

from check import (FAR_AHEAD_TOKENS, between_closed, both_sides, check,  # noqa: E402
                   judged_seconds)
from faults import GAP, KINDS, draw  # noqa: E402
from records import Records  # noqa: E402
from report import standard_error  # noqa: E402

IDS = ["a0", "b1", "c2"]


class Schedules(unittest.TestCase):
    def test_a_seed_has_one_schedule_and_another_seed_another(self):
        self.assertEqual(draw(7, 32, 1800, 64), draw(7, 32, 1800, 64))
        self.assertNotEqual(draw(7, 32, 1800, 64), draw(8, 32, 1800, 64))

    def test_a_schedule_keeps_its_rules(self):
        for seed in range(20):
            faults = draw(seed, 8, 75, 17)
            self.assertEqual({fault.kind for fault in faults}, set(KINDS))
            first = faults[0]
            self.assertEqual((first.kind, first.peers, first.seconds), ("kill", (0,), 0))
            self.assertEqual([f.after for f in faults], sorted(f.after for f in faults))
            self.assertTrue(all(f.after + f.seconds < 75 for f in faults))
            for peer in range(1, 8):
                own = [f for f in faults if f.peers == (peer,)]
                for one, other in zip(own, own[1:]):
                    self.assertLess(one.after + one.seconds + GAP, other.after)


class Debts(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        self.history = [{"at": 0, "event": "start", "peer": peer,
                         "id": IDS[peer], "life": 1, "metrics_from": 0,
                         "events_from": 0} for peer in range(3)]
        self.history += [{"at": 5, "event": "all train", "share": 0.1, "peers": 3},
                         {"at": 100, "event": "calm"}, {"at": 300, "event": "ending"}]
        self.metrics = [[self.line(t, 10 * t) for t in range(10, 300, 10)] for _ in range(3)]
        # Everybody exchanges with the next one, before the last fault and after it.
        self.events = [[], [], []]
        for peer in range(3):
            for at in (20, 150):
                self.exchange(peer, (peer + 1) % 3, at, f"{IDS[peer]}-1-{at}")

    def line(self, seconds, tokens, partners=2):
        return {"seconds": seconds, "tokens": tokens, "held_seconds": 0, "partners": partners}

    def exchange(self, initiator, responder, at, name, fragment=0):
        for peer, partner in ((initiator, responder), (responder, initiator)):
            self.events[peer].append(
                {"event": "exchange", "seconds": at, "exchange": name, "partner": IDS[partner],
                 "initiated": peer == initiator, "outcome": "completed", "stripes": 4,
                 "fragment": fragment})

    def death(self, teller, dead, at):
        self.events[teller].append({"event": "peer", "seconds": at, "peer": IDS[dead],
                                    "health": "dead"})

    def restart(self, peer, at, back, **how):
        self.history += [{"at": at, "peer": peer, **how},
                         {"at": back, "event": "start", "peer": peer, "id": IDS[peer], "life": 2,
                          "metrics_from": self.bytes_of(self.metrics[peer]),
                          "events_from": self.bytes_of(self.events[peer])}]

    def bytes_of(self, lines):
        return sum(len(json.dumps(line)) + 1 for line in lines)

    def records(self):
        write_lines(self.folder / "history.jsonl", self.history)
        for peer in range(3):
            home = self.folder / f"runs/chaos/peer-{peer}"
            home.mkdir(parents=True)
            write_lines(home / "metrics.jsonl", self.metrics[peer])
            write_lines(home / "events.jsonl", self.events[peer])
        return Records(self.folder, "chaos")

    def assert_debt(self, words):
        debts = list(check(self.records()))
        self.assertEqual(len(debts), 1, debts)
        self.assertIn(words, debts[0])

    def test_a_good_run_owes_nothing_and_counts_up_time_only(self):
        self.history += [{"at": 50, "event": "stopped", "peer": 1},
                         {"at": 70, "event": "went on", "peer": 1}]
        records = self.records()
        self.assertEqual(list(check(records)), [])
        self.assertEqual(records.trained(0), (2800, 280, 0))
        self.assertEqual(records.trained(1), (2800, 260, 0))

    def test_an_exchange_that_one_side_never_heard_of_is_found(self):
        self.events[1].pop(0)
        self.assert_debt("knows nothing")

    def test_an_exchange_with_different_stripes_is_found_from_both_sides(self):
        self.events[0][0]["stripes"] = 3
        debts = list(check(self.records()))
        self.assertEqual(len(debts), 2, debts)
        self.assertIn("stripes", debts[0])

    def test_a_peer_that_is_not_seen_again_is_found(self):
        self.metrics[2][-2]["partners"] = 1
        self.assert_debt("peer 2 counts 1 others and not 2")

    def test_a_peer_that_says_nothing_of_others_is_found(self):
        self.metrics[2] = [line for line in self.metrics[2] if line["seconds"] < 150]
        self.assert_debt("peer 2 tells nothing of others")

    def test_a_peer_that_no_longer_exchanges_is_found(self):
        for peer in range(3):
            self.events[peer] = [e for e in self.events[peer] if e["seconds"] < 100 or
                                 "c2" not in (IDS[peer], e["partner"])]
        self.assert_debt("peer 2 completed no exchange")

    def test_a_fragment_that_trains_alone_is_found(self):
        self.exchange(0, 1, 155, f"{IDS[0]}-1-155", fragment=3)
        self.assert_debt("peer 2 completed no exchange of fragment 3")

    def test_a_fragment_that_nobody_exchanges_any_more_is_found(self):
        self.exchange(0, 1, 20, f"{IDS[0]}-1-3", fragment=3)
        debts = list(check(self.records()))
        self.assertEqual(len([d for d in debts if "of fragment 3" in d]), 3, debts)

    def test_a_death_without_a_reason_is_found(self):
        self.death(0, 1, 200)
        self.assert_debt("peer 0 called peer 1 dead")

    def test_a_death_with_a_reason_is_none(self):
        self.history.append({"at": 80, "event": "fault", "number": 0, "kind": "alone",
                             "peers": [1], "seconds": 20})
        self.death(0, 1, 90)
        self.assertEqual(list(check(self.records())), [])

    def test_how_long_a_fault_may_be_felt_is_what_was_asked_for(self):
        self.history.append({"at": 80, "event": "fault", "number": 0, "kind": "alone",
                             "peers": [1], "seconds": 20})
        self.death(0, 1, 130)
        records = self.records()
        self.assertEqual(list(check(records)), [])
        self.assertEqual(len(list(check(records, grace=15))), 1)

    def test_who_left_with_a_word_and_is_called_dead_is_found(self):
        self.restart(1, 200, 230, event="left")
        self.death(0, 1, 215)
        self.assert_debt("which had left with a word")

    def test_who_was_killed_may_be_called_dead(self):
        self.restart(1, 200, 230, event="killed", for_ever=False)
        self.death(0, 1, 215)
        self.assertEqual(list(check(self.records())), [])

    def joins_anew(self, outcome, back=210, ahead=FAR_AHEAD_TOKENS):
        for peer in (0, 2):
            self.metrics[peer] = [line | {"tokens": ahead + line["tokens"]}
                                  for line in self.metrics[peer]]
        self.restart(1, 200, back, event="killed", for_ever=False)
        self.history.append({"at": 201, "event": "disk lost", "peer": 1, "life": 1})
        if outcome:
            self.events[1].append({"event": "joined", "seconds": 5, "outcome": outcome})

    def test_who_lost_its_disk_owes_that_it_fetched_the_weights_of_others(self):
        self.joins_anew("fetched")
        self.assertEqual(list(check(self.records())), [])

    def test_who_did_not_fetch_them_is_found(self):
        self.joins_anew("nobody to fetch from")
        self.assert_debt("peer 1 lost its disk and did not get the others' weights within 60 s: no")

    def test_who_has_no_word_of_them_is_found(self):
        self.joins_anew(None)
        self.assert_debt("no word of them")

    def test_who_has_not_had_the_time_owes_nothing(self):
        self.joins_anew(None, back=250)
        self.assertEqual(list(check(self.records())), [])

    def test_who_has_nobody_far_ahead_owes_nothing(self):
        self.joins_anew("not behind the others", ahead=FAR_AHEAD_TOKENS / 2)
        self.assertEqual(list(check(self.records())), [])

    def test_its_tokens_are_not_trained_again(self):
        self.restart(1, 200, 230, event="killed", for_ever=False)
        self.metrics[1].append(self.line(5, 50))
        self.assertEqual(self.records().trained_twice(), 2850)
        self.history.append({"at": 201, "event": "disk lost", "peer": 1, "life": 1})
        write_lines(self.folder / "history.jsonl", self.history)
        self.assertEqual(Records(self.folder, "chaos").trained_twice(), 0)

    def test_exchanges_between_two_that_cannot_be_called_are_counted_once(self):
        self.history[3]["closed"] = [1, 2]
        self.assertEqual(len(list(between_closed(self.records()))), 2)

    def test_what_is_judged_is_counted(self):
        records = self.records()
        # Each exchange is told by both; of 295 s a start takes the first ones.
        self.assertEqual(sum(1 for _ in both_sides(records)), 12)
        self.assertEqual(judged_seconds(records), 3 * 240)
        self.assertEqual(judged_seconds(records, grace=15), 3 * 285)

    def test_nothing_is_compared_where_all_were_killed_or_troubled(self):
        for peer in range(3):
            self.history.append({"at": 60, "event": "killed", "peer": peer, "for_ever": peer == 0})
            self.history.append({"at": 70, "event": "fault", "number": peer, "kind": "stop",
                                 "peers": [peer], "seconds": 250})
        records = self.records()
        for peer in (1, 2):
            records.lives[peer] *= 2
        self.assertEqual(list(both_sides(records)), [])
        self.assertEqual(judged_seconds(records), 0)

    def test_who_mutes_the_hostile_peer_is_counted_once_and_who_is_muted_by_it_is_not(self):
        def mute(peer, whom, by_us):
            self.events[peer].append({"event": "muted", "seconds": 30, "peer": whom,
                                      "by_us": by_us})
        mute(0, "bad", True)
        mute(0, "bad", True)
        mute(1, "bad", False)
        mute(2, IDS[0], True)  # a machine, not the hostile peer
        self.assertEqual(self.records().muted_strangers(), {0})

    def sample(self, peer, at, used, trained):
        self.history.append({"event": "sample", "peer": peer, "life": 1, "at": at,
                             "cpu_seconds": used, "trainer_seconds": trained})

    def test_a_trainer_that_waits_has_less_of_the_processor_while_it_trains(self):
        # Promised is a tenth. Of what came before the first line of the metrics nothing counts.
        for at, used, trained in ((6, 0, 0), (20, 1, 0.5), (120, 11, 8.5), (220, 21, 12.5)):
            self.sample(0, at, used, trained)
        self.history += [{"at": 119, "event": "stopped", "peer": 1},
                         {"at": 221, "event": "went on", "peer": 1}]
        for at, trained in ((20, 0), (120, 9), (220, 9)):
            self.sample(1, at, trained, trained)
        records = self.records()
        got, trained = records.processor_share([0])
        self.assertAlmostEqual(got, 1)
        self.assertAlmostEqual(trained, 0.6)
        self.assertEqual(records.processor_share([1]), (0, 0))  # it was stopped in both spans


class Scatter(unittest.TestCase):
    def test_the_error_of_two_means_is_by_the_scatter_within_both(self):
        # Pooled variance (2 * 0.01 + 1 * 0.02) / 3, over three machines and two controls.
        error = standard_error([0.9, 1.0, 1.1], [0.9, 1.1])
        self.assertAlmostEqual(error, (0.04 / 3 * (1 / 3 + 1 / 2)) ** 0.5)
        self.assertEqual(standard_error([1, 1, 1], [2, 2]), 0)


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    unittest.main()
