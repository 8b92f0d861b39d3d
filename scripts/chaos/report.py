"""What a chaos run has to show: figures of the half with faults beside those of the quiet half,
and whether each goal was reached."""

import collections
import math
import statistics

from check import between_closed, both_sides, check, judged_seconds

RSS_GOAL_KIB, FILES_GOAL, THREADS_GOAL = 16 * 1024, 32, 0  # files: an attacker may hold some
# What the network counts, and the faults that leave it behind.
TRACES = {"lost": ["lossy link"], "blocked": ["halves", "alone", "one-way"], "damaged": ["damage"]}
LIFE_SECONDS_MIN = 60  # a shorter life says nothing about growth


class Report:
    """Lines of a table, and of those the goals that were missed."""

    def __init__(self):
        self.lines, self.missed = [], []

    def say(self, what, value):
        self.lines.append(f"| {what} | {value} |")

    def demand(self, what, value, good):
        self.say(what, f"{value}{'' if good else '  **missed**'}")
        if not good:
            self.missed.append(what)

    def text(self):
        return "\n".join(["| | |", "|---|---|", *self.lines])


def make_report(quiet, chaos, goals):
    """goals: of throughput, at least, and of loss, at most, both with faults over quiet; and for
    how long a fault may be felt."""
    report = Report()
    report.say("machines, and those among them that cannot be called",
               f"{len(chaos.peers)}, {len(chaos.closed)}")
    tell_faults(report, chaos)
    tell_rates(report, quiet, chaos, goals.throughput_goal)
    tell_losses(report, quiet, chaos, goals.loss_goal)
    hands = [f"peer {line['peer']} {line['how']}" for line in
             quiet.all("needs a hand") + chaos.all("needs a hand")]
    report.demand("processes that needed a hand (goal: 0)", "; ".join(hands) or 0, not hands)
    tell_exchanges(report, "quiet", quiet)
    tell_exchanges(report, "faults", chaos)
    tell_growth(report, quiet, chaos)
    for name, records in (("quiet", quiet), ("faults", chaos)):
        compared = sum(1 for _ in both_sides(records))
        report.demand(f"exchanges of which both sides were compared, {name} (goal: 1 or more)",
                      compared, compared > 0)
        relayed = sum(1 for _ in between_closed(records))
        wanted = len(records.closed) >= 2
        report.demand(f"exchanges between two that cannot be called, {name}" +
                      (" (goal: 1 or more)" if wanted else ""), relayed, relayed > 0 or not wanted)
        judged = judged_seconds(records, goals.grace)
        report.demand(f"seconds in which a peer had to be known as alive, {name} (goal: 1 or more)",
                      f"{judged:.0f}", judged >= 1)
        debts = check(records, goals.grace)
        shown = "; ".join(debts[:5]) + (f"; and {len(debts) - 5} more" if len(debts) > 5 else "")
        report.demand(f"debts found by check.py, {name} (goal: 0)", shown or 0, not debts)
    return report


def tell_faults(report, chaos):
    kinds = collections.Counter(line["kind"] for line in chaos.all("fault"))
    done = ", ".join(f"{kind} {times}" for kind, times in sorted(kinds.items()))
    report.say("faults", f"{sum(kinds.values())}: {done}")
    left_out = [line["kind"] for line in chaos.all("fault left out")]
    report.say("faults that found no process", ", ".join(left_out) or 0)
    never = sorted(set(left_out) - set(kinds))
    report.demand("kinds of faults that never came (goal: 0)", ", ".join(never) or 0, not never)
    blows = collections.Counter()
    for line in chaos.all("attacked"):
        blows.update(line["did"])
    if blows:
        welcomes = blows.pop("welcome", 0)
        report.say("hostile frames and connections", sum(blows.values()))
        report.say("times that the hostile peer was welcomed as a member", welcomes)
        muters = len(chaos.muted_strangers())
        report.demand("machines that muted the hostile peer (goal: 1 or more)", muters, muters > 0)
    for name in ("carried", "over_queue"):
        report.say(f"packets {name.replace('_', ' ')}", chaos.all("ended")[0]["link"][name])
    for name, of in TRACES.items():
        packets = chaos.all("ended")[0]["link"][name]
        wanted = any(kind in kinds for kind in of)
        report.demand(f"packets {name}" + (" (goal: 1 or more)" if wanted else ""), packets,
                      packets > 0 or not wanted)


def tell_rates(report, quiet, chaos, goal):
    """Two goals. How fast machines are scatters from process to process and from minute to minute,
    so throughput misses its goal by more than that can explain. What part of the processor time
    trainers had hardly scatters: waiting and the work of other threads show there."""
    alive = chaos.survivors()
    untouched = [p for p in alive if len(chaos.lives[p]) == 1]

    def ratio(peers):
        return chaos.rate(peers) / quiet.rate(peers)

    controls = ratio(chaos.controls)
    report.say("tokens per second of up-time, mean machine, quiet and with faults",
               f"{quiet.rate(alive):.1f} and {chaos.rate(alive):.1f}, ratio {ratio(alive):.4f}")
    report.say("the same of the controls, which train alone",
               f"{quiet.rate(quiet.controls):.1f} and {chaos.rate(chaos.controls):.1f}, ratio "
               f"{controls:.4f}")
    throughput = ratio(alive) / controls
    error = standard_error(*([ratio([p]) for p in group] for group in (alive, chaos.controls)))
    report.demand(f"swarm throughput with faults / quiet, over the controls' (goal: {goal}, within "
                  "two standard errors)", f"{throughput:.4f} +- {error:.4f}",
                  throughput + 2 * error >= goal)
    if untouched:
        report.say(f"of the {len(untouched)} that were never killed",
                   f"{ratio(untouched) / controls:.4f}")
    each = [ratio([p]) / controls for p in alive]
    report.say("of one machine, least and most", f"{min(each):.4f} to {max(each):.4f}")
    for name, records in (("quiet", quiet), ("faults", chaos)):
        report.say(f"trainers held, {name}", f"{100 * records.held(alive):.4f} %")
        got, trained = records.processor_share(alive)
        report.say(f"processor time that machines got of what they were promised, {name}",
                   f"{100 * got:.1f} %, trainers {100 * trained:.1f} %")
    share = chaos.processor_share(alive)[1] / quiet.processor_share(alive)[1]
    report.demand(f"processor time of trainers with faults / quiet (goal: {goal})", f"{share:.4f}",
                  share >= goal)
    report.say("tokens trained again after a kill", chaos.trained_twice())


def standard_error(machines, controls):
    """Of the ratio of the two groups' means, by the scatter within both."""
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in (machines, controls)
                  if len(group) > 1)
    variance = squares / max(1, len(machines) + len(controls) - 2)
    return math.sqrt(variance * (1 / len(machines) + 1 / len(controls)))


def tell_losses(report, quiet, chaos, goal):
    """What a swarm has learned is its average model: at a constant learning rate those of single
    peers scatter by some percent around theirs, with faults or without."""
    before, after = (r.all("losses")[0] for r in (quiet, chaos))
    report.say("tokens of all machines but the first, quiet and with faults",
               " and ".join(str(r.all("ending")[0]["tokens"]) for r in (quiet, chaos)))
    both = sorted(set(before["losses"]) & set(after["losses"]))
    means = [statistics.mean(losses["losses"][p] for p in both) for losses in (before, after)]
    report.say(f"validation loss, mean of {len(both)} peers, quiet and with faults",
               f"{means[0]:.4f} and {means[1]:.4f}, ratio {means[1] / means[0]:.4f}")
    report.say("validation loss of the average model, quiet and with faults",
               f"{before['average']:.4f} and {after['average']:.4f}")
    ratio = after["average"] / before["average"]
    report.demand(f"loss with faults / quiet (goal: {goal})", f"{ratio:.4f}", ratio <= goal)


def tell_exchanges(report, name, records):
    ends = collections.Counter()
    for peer in records.peers:
        for life in records.lives[peer]:
            ends.update(e["outcome"] for e in life.events
                        if e["event"] == "exchange" and e["initiated"] and
                        e["at"] < records.ending)
    text = ", ".join(f"{outcome} {times}" for outcome, times in ends.most_common())
    report.say(f"exchanges begun, {name}", text)


def tell_growth(report, quiet, chaos):
    """In peace nothing grows; under faults nothing is larger in the end than in peace."""
    grown, level = most_used(quiet)
    report.demand("most growth in one life, quiet: memory, files, threads", shown(grown),
                  within(grown))
    later_grown, later_level = most_used(chaos)
    report.say("the same with faults, of which reconnecting is a part", shown(later_grown))
    report.say("most at the end of a life, quiet", shown(level))
    report.demand("the same with faults", shown(later_level),
                  within({key: later_level[key] - level[key] for key in level}))


def most_used(records):
    """The most growth, from the second third of a life to its last (in the first it connects to
    everybody and caches fill up), and the most in a last third."""
    grown, level = ({"kib": 0, "files": 0, "threads": 0} for _ in range(2))
    for samples in (life.samples for peer in records.peers for life in records.lives[peer]):
        if not samples or samples[-1]["at"] - samples[0]["at"] < LIFE_SECONDS_MIN:
            continue
        third = len(samples) // 3
        for key in grown:
            early = statistics.median(s[key] for s in samples[third:2 * third])
            late = statistics.median(s[key] for s in samples[-third:])
            grown[key] = max(grown[key], late - early)
            level[key] = max(level[key], late)
    return grown, level


def within(used):
    return (used["kib"] <= RSS_GOAL_KIB and used["files"] <= FILES_GOAL and
            used["threads"] <= THREADS_GOAL)


def shown(used):
    return f"{used['kib'] / 1024:.1f} MiB, {used['files']:.0f}, {used['threads']:.0f}"
