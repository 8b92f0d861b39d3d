"""What is compared, for real.py and for run: methods, their settings, and who is how fast."""

TOKENS_A_STEP = 1024
SPEEDS = (1, 0.5, 0.25, 0.1) * 2
SHARES = [0.2 * speed for speed in SPEEDS]  # of a processor; 0.74 in all
DELAY_MS, MBIT = 10, 100  # of a line: two machines are 20 ms apart
EVERY_STEP = ["outer.fragments=1", "outer.steps_per_round=1"]
ROUNDS = ["outer.fragments=1", "outer.steps_per_round=25"]
ALONE, OURS, ALIKE = "the fastest alone", "pair-gossip", "pair-gossip, all count alike"
# A name, its settings, and the steps of all peers together in that time, from which the learning
# rate's schedule follows: whoever waits for the slowest comes to a tenth of the fastest's each.
ALL, WAITING = sum(SPEEDS), len(SPEEDS) * min(SPEEDS)
METHODS = {
    ALONE: (["outer.method=local"], 1),
    OURS: ([], ALL),
    ALIKE: (["outer.rate_power=0"], ALL),
    "diloco": (["outer.method=diloco", "outer.momentum=0.9", "outer.learning_rate=0.7", *ROUNDS],
               WAITING),
    "all-reduce": (["outer.method=all-reduce", *EVERY_STEP], WAITING),
}
SYNCHRONOUS = ("diloco", "all-reduce")


def tokens_of(method, seconds, pace):
    return round(METHODS[method][1] * seconds / pace["step_seconds"] * TOKENS_A_STEP)


def settings_of(method, seed, seconds, pace):
    """The same for real and for simulated peers."""
    tokens = tokens_of(method, seconds, pace)
    return [f"run.seed={seed}", f"data.seed={seed}", f"run.total_tokens={tokens}",
            f"run.tokens={tokens}", f"schedule.warmup_tokens={tokens // 20}", *METHODS[method][0]]
