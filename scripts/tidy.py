#!/usr/bin/env python3
"""Checks the rules of the house, and says `file:line: rule: message` for each thing found.

    scripts/tidy.py                     every rule, and clang-format where it is installed
    scripts/tidy.py --headers           instead: does every header compile alone? (some minutes)
    scripts/tidy.py --clang-tidy BUILD  instead: clang-tidy over the files changed since HEAD

Exit status: 0 clean, 1 something was found. An exception is a line of tidy_exceptions.txt with its
reason; an exception that excuses nothing is itself a finding. Standard library only.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tidy_rules import RULES
from tidy_source import Finding, load_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXCEPTIONS = "scripts/tidy_exceptions.txt"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the project to check")
    parser.add_argument("--headers", action="store_true", help="compile every header alone")
    parser.add_argument("--clang-tidy", metavar="BUILD", help="lint changed files with BUILD's")
    arguments = parser.parse_args()
    if arguments.clang_tidy:
        return clang_tidy(arguments.root, arguments.clang_tidy)

    tree = load_tree(arguments.root)
    if arguments.headers:
        findings = check_headers_alone(arguments.root, tree)
    else:
        findings = [finding for rule in RULES for finding in rule(tree)]
        findings += check_format(arguments.root, tree)
    findings = apply_exceptions(tree, findings, arguments.headers)
    for finding in sorted(findings):
        print(finding)
    print(f"tidy: {len(findings)} findings in {len(tree)} files", file=sys.stderr)
    return 1 if findings else 0


def apply_exceptions(tree, findings, headers_only):
    """The findings without the excused ones, and one for each exception that excuses nothing."""
    text = next((s.text for s in tree if s.path == EXCEPTIONS), "")
    left = list(findings)
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+) (\S+): (.{10,})", line)
        if not match:
            left.append(Finding(EXCEPTIONS, number, "exception", "write `rule path: reason`"))
            continue
        rule, pattern, _ = match.groups()
        if (rule == "header-alone") != headers_only:
            continue  # this run has not looked
        kept = [f for f in left if f.rule != rule or not fnmatch.fnmatch(f.path, pattern)]
        if len(kept) == len(left):
            left.append(Finding(EXCEPTIONS, number, "exception", f"excuses nothing: {line}"))
        else:
            left = kept
    return left


def check_format(root, tree):
    files = [s.path for s in tree if s.is_cpp]
    if not files or not shutil.which("clang-format"):
        print("tidy: SKIPPED formatting: clang-format is not installed", file=sys.stderr)
        return []
    command = ["clang-format", "--dry-run", *files]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True).stderr
    first = {}
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: (?:warning|error):", output, re.MULTILINE):
        first.setdefault(path, int(line))
    return [Finding(p, n, "format", f"run clang-format -i {p}") for p, n in first.items()]


def check_headers_alone(root, tree):
    """A header that needs its includer's includes breaks when somebody sorts them. The build sees
    to those that a source file includes before all others; the rest is compiled here."""
    first = {first_include(source) for source in tree if is_always_built(source.path)}
    headers = [s.path for s in tree if s.path.endswith(".h") and s.path not in first]

    def compile_alone(path):
        command = ["g++", "-std=c++20", "-fsyntax-only", "-I.", "-x", "c++", path]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True)
        errors = re.findall(r"error: (.*)", run.stderr)
        text = f"does not compile alone: {(errors or [run.stderr])[0]}"
        return [Finding(path, 1, "header-alone", text)] if run.returncode else []

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [finding for found in pool.map(compile_alone, headers) for finding in found]


def is_always_built(path):
    """Not where a toolkit or a library for benchmarks is missing."""
    return path.endswith(".cpp") and not path.startswith(("cuda/", "tests/cuda/")) and \
        not path.rpartition("/")[2].startswith("bench_")


def first_include(source):
    found = re.search(r'^\s*#\s*include\s*["<]([^">]*)[">]', source.text, re.MULTILINE)
    return found[1] if found else None


def clang_tidy(root, build):
    git = ["git", "-C", str(root)]
    changed = subprocess.run(
        [*git, "diff", "--name-only", "--diff-filter=d", "HEAD"],
        capture_output=True, text=True, check=True,
    ).stdout.split()
    added = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    ).stdout.split()
    files = sorted(path for path in changed + added if path.endswith(".cpp"))
    print(f"clang-tidy: {len(files)} files changed since HEAD", file=sys.stderr)
    if not files:
        return 0
    command = ["clang-tidy", "-p", build, "--quiet", "--extra-arg=-Wno-unknown-warning-option"]
    return subprocess.run([*command, *files], cwd=root).returncode


if __name__ == "__main__":
    sys.exit(main())
