#!/usr/bin/env python3
"""Checks what the peers of a chaos run wrote against what they owe each other.

    scripts/chaos/check.py FOLDER [GRACE]   one half of a run: FOLDER/history.jsonl and FOLDER/runs;
                                            seconds for which a fault may be felt: as it was run

Knows the peers' files and the history of the run, and nothing of the program. Exit status 1 if a
debt is found.
"""

import collections
import sys

from records import Records

SETTLED_SECONDS = 60  # after the last fault: all see each other again, and exchange
SETTLED_SECONDS_PEER = 6  # to exchange, or so long for each: five rounds, which share processors
LOOK_SECONDS = 15  # after that, in which each peer tells how many others it sees
IN_FLIGHT_SECONDS = 45  # before the end: what may still be open between two, with its repeats
FETCHED_SECONDS = 60  # after a start without checkpoints
FAR_AHEAD_TOKENS = 200_000  # four rounds: before, a newcomer hardly lacks anything
GRACE_SECONDS = 60  # a fault may be felt for so long after it is over


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    grace = float(sys.argv[2]) if len(sys.argv) == 3 else GRACE_SECONDS
    debts = check(Records(sys.argv[1], "chaos"), grace)
    print("\n".join(debts) or "nothing is owed")
    sys.exit(1 if debts else 0)


def check(records, grace=GRACE_SECONDS):
    """Sentences, one for each thing that should not be."""
    return [*exchanges(records), *views(records), *flow(records), *false_deaths(records, grace),
            *unheard_farewells(records, grace), *unfetched(records)]


def exchanges(records):
    """An exchange that one completed is known to the other; and both sides of a completed one
    count the same stripes."""
    for peer, partner, event, other in both_sides(records):
        name = event["exchange"]
        if other is None:
            yield (f"peer {peer} completed exchange {name} at {event['at']:.1f} s, of which "
                   f"peer {partner} knows nothing")
        elif other["outcome"] == "completed" and other["stripes"] != event["stripes"]:
            yield (f"exchange {name} has {event['stripes']} stripes at peer {peer} and "
                   f"{other['stripes']} at peer {partner}")


def both_sides(records):
    """Of every completed exchange: who tells of it, its partner, and what both say; None for a
    partner who knows nothing. Of peers with one life only: a kill may take the line with it."""
    whole = [p for p in records.peers if len(records.lives[p]) == 1 and not
             any(line["for_ever"] for line in records.all("killed", p))]
    by_id = {records.ids[p]: p for p in whole}
    ended = {p: {e["exchange"]: e for e in events_of(records, p, "exchange")} for p in whole}
    for peer in whole:
        for name, event in ended[peer].items():
            partner = by_id.get(event["partner"])
            late = event["at"] > records.ending - IN_FLIGHT_SECONDS
            if partner is None or late or event["outcome"] != "completed":
                continue
            yield peer, partner, event, ended[partner].get(name)


def between_closed(records):
    """Completed exchanges of two peers that cannot be called, which a third has to relay."""
    closed = {records.ids[peer] for peer in records.closed}
    for peer in records.closed:
        for event in events_of(records, peer, "exchange"):
            if (event["initiated"] and event["outcome"] == "completed" and
                    event["partner"] in closed):
                yield event


def settled_seconds(peers):
    return max(SETTLED_SECONDS, SETTLED_SECONDS_PEER * peers)


def views(records):
    """After the last fault every living peer counts all the others as alive, and goes on to."""
    alive = records.survivors()
    first, last = records.calm_from + SETTLED_SECONDS, records.ending - 1
    for peer in alive:
        seen = [m for life in records.lives[peer] for m in life.metrics if first < m["at"] < last]
        if not seen and last - first > LOOK_SECONDS / 2:
            yield (f"peer {peer} tells nothing of others from {SETTLED_SECONDS} s after the last "
                   f"fault on")
        wrong = [m for m in seen if m["partners"] != len(alive) - 1]
        if wrong:
            after = wrong[-1]["at"] - records.calm_from
            yield (f"peer {peer} counts {wrong[-1]['partners']} others and not {len(alive) - 1}, "
                   f"{after:.0f} s after the last fault")


def flow(records):
    """After the last fault every living peer exchanges every fragment again."""
    settled = settled_seconds(len(records.peers))
    last = records.calm_from + settled
    if last > records.ending:
        return  # the run was over before
    done = {peer: {e["fragment"] for e in events_of(records, peer, "exchange")
                   if e["outcome"] == "completed" and records.calm_from < e["at"] < last}
            for peer in records.survivors()}
    fragments = {e["fragment"] for peer in records.peers
                 for e in events_of(records, peer, "exchange")}
    for peer in done:
        for fragment in sorted(fragments - done[peer]):
            yield (f"peer {peer} completed no exchange of fragment {fragment} for "
                   f"{settled} s after the last fault")
        if not fragments:
            yield f"peer {peer} completed no exchange at all"


def troubles(records, grace):
    """Of each peer when something was wrong with it, or was a moment ago, as (from, to)."""
    troubled = collections.defaultdict(list)
    for fault in records.all("fault"):
        for peer in records.peers if fault["kind"] == "halves" else fault["peers"]:
            troubled[peer].append((fault["at"], fault["at"] + fault["seconds"] + grace))
    for life in records.all("start"):  # a machine that is booting
        troubled[life["peer"]].append((life["at"] - grace, life["at"] + grace))
    for line in records.all("killed"):
        troubled[line["peer"]].append((line["at"], records.ending if line["for_ever"] else
                                       line["at"] + grace))
    return troubled


def judged_seconds(records, grace=GRACE_SECONDS):
    """For how long nothing was wrong with a peer, the sum over all: only then a death is false."""
    troubled, judged = troubles(records, grace), 0
    for peer in records.peers:
        good = records.measured_from
        for begin, end in sorted(troubled[peer]):
            judged += max(0, min(begin, records.ending) - good)
            good = max(good, end)
        judged += max(0, records.ending - good)
    return judged


def false_deaths(records, grace):
    """Nobody calls one dead of whom nothing was wrong, and neither with himself."""
    troubled = troubles(records, grace)
    for peer, about, at in deaths_told(records, troubled):
        if fine(troubled, about, at):
            yield f"peer {peer} called peer {about} dead at {at:.1f} s for no reason"


def unheard_farewells(records, grace):
    """Who leaves with a word is not called dead, by anybody with whom nothing was wrong."""
    for peer, about, at in deaths_told(records, troubles(records, grace)):
        lives = records.lives[about]
        left = [line["at"] for line in records.all("left", about)]
        if any(one.ended in left and one.ended < at < other.began
               for one, other in zip(lives, lives[1:])):
            yield f"peer {peer} called peer {about} dead at {at:.1f} s, which had left with a word"


def deaths_told(records, troubled):
    """By machines with which nothing was wrong then: who told it, of whom, and when."""
    by_id = {identity: peer for peer, identity in records.ids.items()}
    for peer in records.peers:
        for event in events_of(records, peer, "peer"):
            about = by_id.get(event["peer"])
            if (event["health"] == "dead" and about is not None and
                    event["at"] < records.ending and fine(troubled, peer, event["at"])):
                yield peer, about, event["at"]


def fine(troubled, peer, at):
    return not any(begin <= at <= end for begin, end in troubled[peer])


def unfetched(records):
    """A machine whose checkpoints were lost gets the weights of others, if it is given the time and
    they are far ahead."""
    for line in records.all("disk lost"):
        life = next((life for life in records.lives[line["peer"]]
                     if life.number == line["life"] + 1), None)
        if (life is None or life.ended - life.began < FETCHED_SECONDS or
                records.median_tokens(life.began) < FAR_AHEAD_TOKENS):
            continue
        outcomes = [e["outcome"] for e in life.events if e["event"] == "joined"]
        if outcomes != ["fetched"]:
            yield (f"peer {line['peer']} lost its disk and did not get the others' weights within "
                   f"{FETCHED_SECONDS} s: {', '.join(outcomes) or 'no word of them'}")


def events_of(records, peer, kind):
    return [e for life in records.lives[peer] for e in life.events if e["event"] == kind]


if __name__ == "__main__":
    main()
