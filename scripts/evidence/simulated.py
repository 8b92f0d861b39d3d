"""What the questions answered by `starling simulate` share: runs side by side, their results as
lines of JSON, and how a table tells of several seeds."""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STARLING = ROOT / "build/release/peer/starling"


def run_all(one, wanted):
    """[one(run) for run in wanted], as many at once as there are processors."""
    if not STARLING.exists():
        sys.exit(f"{STARLING} is missing: build it with ./scripts/run")
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        return list(workers.map(one, wanted))


def commit():
    """Of which version a result is; "-dirty" with changes of more than results and pages."""
    def git(*what):
        return subprocess.run(["git", *what], cwd=ROOT, capture_output=True, text=True)

    named = git("rev-parse", "--short", "HEAD").stdout.strip() or "unknown"
    made = (":!*.jsonl", ":!*.md", ":!*.png")
    clean = git("diff", "--quiet", "HEAD", "--", ".", *made).returncode == 0
    return named if clean else f"{named}-dirty"


def simulate(name, config, settings):
    """One simulated swarm. Losses are of the held-out text, in nats per token, at the end."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
        command = [STARLING, "simulate", config]
        for setting in [*settings, f"simulate.out={out.name}"]:
            command += ["--set", setting]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr}")
        lines = [json.loads(line) for line in Path(out.name).read_text().splitlines()]
    losses = [line for line in lines if line.get("event") == "loss"]
    last = losses[-1]
    single = [peer["loss"] for peer in last["single"]]
    peers = [line for line in lines if line.get("event") == "peer"]
    print(f"{name}: {last['loss']:.4f}", file=sys.stderr, flush=True)
    begun = sum(peer["begun"] for peer in peers)
    return {"commit": commit(), "tokens": last["tokens"], "bytes": last["bytes"],
            "weight_bytes": last["weight_bytes"], "weights_away": last["weights_away"],
            "mean_model": last["loss"], "first": single[0], "best": min(single),
            "worst": max(single),
            "goodput": min(peer["goodput"] for peer in peers),
            "exchanges": sum(peer["exchanges"] for peer in peers) / len(peers),
            "least_asked": min(peer["exchanges"] - peer["begun"] for peer in peers),
            "exchange_seconds": sum(peer["begun_seconds"] for peer in peers) / max(begun, 1),
            "disagreement": statistics.mean(line["disagreement"]
                                            for line in losses[len(losses) // 4:]),
            "curve": [[line["seconds"], round(line["loss"], 4)] for line in losses]}


def collect(folder, key, order, one, wanted, known):
    """The results that are known and those of `wanted`, which replace them; sorted by `order`, and
    written as each ends, so that what is known survives an end before the last run.
    key(result): the run that it is of; one(run): its result."""
    results = list(known)
    saving = threading.Lock()

    def run_and_save(run):
        result = one(run)
        with saving:
            results[:] = [other for other in results if key(other) != run] + [result]
            results.sort(key=order)
            save(folder, results)

    run_all(run_and_save, wanted)
    return sorted(results, key=order)


def compare(here, doc, variants, make_table, draw):
    """The program of a question whose answers differ in settings alone. variants: their names and
    settings, beside config.toml. make_table(results) and draw(axes, results) tell of them."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--seeds", type=int,
                        help="default: as many as are known of a variant, at least three")
    parser.add_argument("--out", type=Path, default=here)
    parser.add_argument("--only", nargs="+", metavar="VARIANT", choices=list(variants),
                        help="run these, and keep what is known of the others")
    parser.add_argument("--missing", action="store_true",
                        help="run only those of which nothing is known, of each seed: also what "
                             "a run that was ended has left")
    args = parser.parse_args()
    names = list(variants)
    only = args.only or names
    known = [result for result in read(args.out) if result["variant"] in names]
    seeds = {name: args.seeds or max([3, *values(known, name, "seed")]) for name in only}
    wanted = [(name, seed) for seed in range(1, max(seeds.values()) + 1) for name in only
              if seed <= seeds[name]]

    def run_of(result):
        return result["variant"], result["seed"]

    def one(run):
        name, seed = run
        result = simulate(f"{name}, seed {seed}", here / "config.toml",
                          [f"run.seed={seed}", f"data.seed={seed}", *variants[name]])
        return {"variant": name, "seed": seed, **result}

    if args.missing:
        found = set(map(run_of, known))
        wanted = [run for run in wanted if run not in found]
    else:  # nothing older stays of what is made again
        known = [result for result in known
                 if result["variant"] not in only or run_of(result) in wanted]
    results = collect(args.out, run_of,
                      lambda result: (names.index(result["variant"]), result["seed"]), one, wanted,
                      known)
    missing = [name for name in names if not values(results, name, "seed")]
    if missing:
        return write(args.out, results, f"No table yet; to be run: {', '.join(missing)}\n")
    counts = sorted({len(values(results, name, "seed")) for name in names})
    write(args.out, results, f"{' or '.join(map(str, counts))} seeds; validation loss, mean (least "
          "to most)\n\n" + make_table(results))
    plt = pyplot()
    if plt is None:
        return
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    draw(axes, results)
    axes.set_ylabel("validation loss of the mean model, nats per byte")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(args.out / "loss.png", dpi=130)


def values(results, name, key):
    return [result[key] for result in of(results, name)]


def ratios(results, base, key="mean_model"):
    """Of each result its value over that of the base of the same seed; who has none is left out."""
    bases = {other["seed"]: other[key] for other in base}
    return [result[key] / bases[result["seed"]] for result in results if result["seed"] in bases]


def of(results, name):
    return [result for result in results if result["variant"] == name]


def read(folder):
    """The results that lie there already."""
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def save(folder, results):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.jsonl"
    whole = path.with_suffix(".part")
    whole.write_text("".join(json.dumps(result) + "\n" for result in results))
    whole.replace(path)


def write(folder, results, table):
    save(folder, results)
    (folder / "table.md").write_text(table)
    print(table)


def spread(values):
    """Mean, least and most."""
    if max(values) == min(values):
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def pyplot():
    """matplotlib's, without a screen; None where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        return print("matplotlib is not installed: no figure", file=sys.stderr)
    matplotlib.use("Agg")
    import matplotlib.pyplot
    return matplotlib.pyplot
