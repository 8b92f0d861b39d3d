"""The rules of the house, as tables and small functions. Each rule takes the whole tree and yields
Findings; RULES at the end lists them all. tidy_exceptions.txt names the exceptions.
"""

import fnmatch
import posixpath
import re

from tidy_includes import EVERY_ROOM, check_includes, room_of
from tidy_source import Finding, captured_bindings, cpp_functions, python_functions

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400


# ---- words with a replacement --------------------------------------------------------------------

# Tests with the label net: real sockets have no virtual time.
NET_TESTS = r"tests/gossip/net/(?!envelope|identity|payload_queues|trust)|tests/peer/"

# (rule, pattern, what to write instead, where it is allowed). Comments and strings do not count.
BANNED = [
    (
        "thread",
        r"std::(?:j?thread|(?:\w+_)?mutex|condition_variable|(?:scoped|unique|shared)_lock|"
        r"lock_guard|async|future|promise)\b",
        "threads and locks live in peer/; hand a parcel over a ring",
        r"peer/|tests/",
    ),
    (
        "atomic",
        r"std::atomic|<atomic>",
        "use Counter, Gauge and Flag (base/metrics.h) or a ring",
        r"base/|tests/",
    ),
    (
        "clock",
        r"(?:steady|system|high_resolution)_clock\b|\b(?:std::)?(?:time|clock_gettime)\s*\(",
        "time is an argument (base/time.h); clocks are for drivers and peer/io/clock.h",
        rf"gossip/net/|peer/(?:io/clock|roles/held_clock)\.|{NET_TESTS}|tests/\w+/bench_",
    ),
    (
        "chance",
        r"random_device|std::\w+_distribution|std::(?:mt19937|default_random_engine)|\brand\s*\(",
        "use Rng (base/rng.h), whose sequences are the same everywhere",
        r"base/rng\.",
    ),
    (
        "sleep",
        r"\bsleep_(?:for|until)\b|\bu?sleep\s*\(",
        "wait on a doorbell or a timer; in a test, move virtual time",
        rf"peer/|{NET_TESTS}",
    ),
    (
        "shared-ptr",
        r"\b(?:shared_ptr|make_shared|enable_shared_from_this)\b",
        "one owner: a value, unique_ptr, or FrozenSlot",
        r"$^",
    ),
    ("using-namespace", r"using\s+namespace\s+std\b", "write std::", r"$^"),
    ("assert", r"\bassert\s*\(|<cassert>", "use STARLING_ASSERT, which is always on", r"$^"),
    ("volatile", r"\bvolatile\b", "it orders nothing; see base/spsc_ring.h", r"$^"),
    (
        "print",
        r"\b(?:f|v|vf)?printf\s*\(|\bputs\s*\(|std::(?:cout|cerr)\b|fmt::print\b|<iostream>",
        "use the log (base/log.h), or return text for peer/commands/cli to print",
        r"base/assert\.cpp|peer/(?:main|commands/cli)|tests/",
    ),
]


def check_banned(tree):
    for source in filter(lambda s: s.is_cpp, tree):
        code = source.code.split("\n")
        for rule, pattern, instead, allowed in BANNED:
            if re.match(allowed, source.path):
                continue
            for number, line in enumerate(code, 1):
                if match := re.search(pattern, line):
                    yield Finding(source.path, number, rule, f"{match.group()}: {instead}")


# ---- the shape of a file -------------------------------------------------------------------------


def check_lines(tree):
    unfinished = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    machine = re.compile(r"(?<![\w.$}/])/(?:ho" r"me|ro" r"ot|wo" r"rk)/\w")
    for source in tree:
        measured = source.is_cpp or source.is_cmake or source.is_script
        for number, line in enumerate(source.lines, 1):
            if measured and len(line) > COLUMNS_MAX:
                text = f"{len(line)} columns; at most {COLUMNS_MAX}"
                yield Finding(source.path, number, "columns", text)
            if line != line.rstrip():
                yield Finding(source.path, number, "space", "white space ends the line")
            if measured and "\t" in line:
                yield Finding(source.path, number, "tab", "indent with spaces")
            if match := unfinished.search(line):
                text = f"{match.group()}: finish it, or open an issue"
                yield Finding(source.path, number, "unfinished", text)
            if machine.search(line):
                yield Finding(source.path, number, "machine", "a path of one machine")


def check_lengths(tree):
    for source in tree:
        python = source.path.endswith(".py")
        lines = len(source.lines) - 1
        if source.text and (source.lines[-1] or source.text.endswith("\n\n")):
            text = "the file ends with exactly one newline"
            yield Finding(source.path, lines, "newline", text)
        if (source.is_cpp or source.is_cmake or source.is_script) and lines > FILE_LINES_MAX:
            text = f"{lines} lines; at most {FILE_LINES_MAX}"
            yield Finding(source.path, 0, "file-length", text)
        functions = cpp_functions(source.code) if source.is_cpp else ()
        for function in python_functions(source.text) if python else functions:
            if function.length > FUNCTION_LINES_MAX:
                text = f"{function.name} has {function.length} lines; at most {FUNCTION_LINES_MAX}"
                yield Finding(source.path, function.line, "function-length", text)


def check_headers(tree):
    for source in tree:
        if not source.path.endswith((".h", ".cuh")):
            continue
        first = next((line for line in source.code.split("\n") if line.strip()), "")
        if first.strip() != "#pragma once":
            yield Finding(source.path, 1, "pragma-once", "the first code line is #pragma once")
        if not re.match(r"// \S.{20,}", source.text):
            text = "opens with its contract: what it is, units, errors, thread, ownership"
            yield Finding(source.path, 1, "contract", text)


def check_test_names(tree):
    for source in tree:
        if not (source.is_cpp and source.path.startswith("tests/")):
            continue
        for match in re.finditer(r'TEST_CASE\w*\(\s*"([^"]*)"', source.text):
            number = source.text.count("\n", 0, match.start()) + 1
            if ";" in match.group(1):
                text = "a semicolon splits the name into tests that run nothing"
                yield Finding(source.path, number, "test-name", text)
            elif " " not in match.group(1).strip():
                yield Finding(source.path, number, "test-name", "the name is a sentence")


# ---- files and each other ------------------------------------------------------------------------


def check_built(tree):
    """Every source and every .cmake file is named by a CMake file; a loop's ${x}.cpp counts."""
    named = set()
    for source in filter(lambda s: s.is_cmake, tree):
        folder = posixpath.dirname(source.path)
        text = re.sub(r"#[^\n]*", "", source.text)
        for word in re.findall(r"[\w./${}-]+", text):
            word = re.sub(r"\$\{PROJECT_SOURCE_DIR\}/", "/", word)
            word = re.sub(r"\$\{CMAKE_CURRENT_\w+_DIR\}/", "", word)
            path = word.lstrip("/") if word.startswith("/") else posixpath.join(folder, word)
            named.add(posixpath.normpath(path))
        for prefix, suffix in re.findall(r"([\w/]*)\$\{\w+\}(\w*\.(?:cpp|cu))\b", text):
            words = re.findall(r"\w+", text)
            named |= {posixpath.join(folder, prefix + word + suffix) for word in words}
    for source in tree:
        if source.path.endswith((".cpp", ".cu", ".cmake")) and source.path not in named:
            yield Finding(source.path, 0, "not-built", "no CMake file names it")


def check_tested(tree):
    """A source has a test of its name, or a test or its helper includes its header."""
    tests = [s for s in tree if s.path.startswith("tests/") and s.is_cpp]
    tested = {t.path.removeprefix("tests/").removesuffix("_test.cpp") for t in tests}
    for test in tests:
        tested |= set(re.findall(r'#include "([\w/]+)\.h"', test.text))
    for source in tree:
        stem, suffix = posixpath.splitext(source.path)
        if suffix not in (".cpp", ".cu") or room_of(source.path) not in EVERY_ROOM:
            continue
        if stem not in tested:
            text = f"no test includes {stem}.h and tests/{stem}_test.cpp is missing"
            yield Finding(source.path, 0, "untested", text)


def check_links(tree):
    known = {s.path for s in tree}
    folders = {posixpath.dirname(path) for path in known}
    for source in tree:
        if not source.path.endswith(".md"):
            continue
        for match in re.finditer(r"\]\(([^)#\s]+)[^)]*\)", source.text):
            if re.match(r"\w+:", match.group(1)):
                continue
            target = posixpath.join(posixpath.dirname(source.path), match.group(1))
            if posixpath.normpath(target) not in known | folders:
                number = source.text.count("\n", 0, match.start()) + 1
                yield Finding(source.path, number, "dead-link", f"{match.group(1)} is not there")


def check_paths(tree):
    """What prose and comments call by its path is there."""
    known = {s.path for s in tree}
    rooms = "|".join([*sorted({room.split("-")[0] for room in EVERY_ROOM}), "tests", "scripts"])
    path = re.compile(rf"(?<![\w/.\"])(?:{rooms})/[\w/]+\.(?:h|cuh|cpp|cu|py|cmake|toml)\b")
    for source in filter(lambda s: s.is_cpp or s.path.endswith(".md"), tree):
        for match in path.finditer(source.text):
            if match.group() not in known:
                number = source.text.count("\n", 0, match.start()) + 1
                yield Finding(source.path, number, "dead-path", f"{match.group()} is not there")


def check_listed(tree):
    """A room's own pages name each of its headers, perhaps by a pattern (`sim_*`), so that whoever
    looks for something finds the file."""
    listed = {}
    for source in filter(lambda s: s.path.endswith(".md"), tree):
        room = source.path.split("/")[0]
        text = re.sub(r"```.*?```", "", source.text, flags=re.DOTALL)
        names = re.findall(rf"`(?:{room}/(?:\w+/)?)?(\w{{2,}}\*?)(?:\.\w+)?`", text)
        listed.setdefault(room, set()).update(names)
    for source in tree:
        room = source.path.split("/")[0]
        stem, suffix = posixpath.splitext(posixpath.basename(source.path))
        if suffix not in (".h", ".cuh") or room not in EVERY_ROOM:
            continue
        if not any(fnmatch.fnmatch(stem, name) for name in listed.get(room, ())):
            text = f"neither {room}/README.md nor another page of the room has `{stem}`"
            yield Finding(source.path, 0, "unlisted", text)


def check_type_names(tree):
    """Two types with one name in one namespace would be taken for each other, and a program that
    has both is broken without a word from the linker."""
    first = {}
    kind = r"(namespace|class|struct|union|enum(?: class)?)"
    for source in tree:
        if not source.path.endswith((".h", ".cuh")) or source.path.startswith("tests/"):
            continue
        namespace = ""
        for number, line in enumerate(source.code.split("\n"), 1):
            match = re.match(rf"{kind}(?:\s*\[\[\w+\]\])?\s+([\w:]+)[^;<>()]*(?:\{{|$)", line)
            if not match:
                continue
            if match[1] == "namespace":
                namespace = match[2]
                continue
            other = first.setdefault((namespace, match[2]), source.path)
            if other != source.path:
                text = f"{namespace}::{match[2]} is defined in {other}, too"
                yield Finding(source.path, number, "same-name", text)


def check_captures(tree):
    """clang 14, which builds the fuzz targets, knows no lambda that captures a structured binding
    but as another variable."""
    for source in tree:
        if not source.is_cpp:
            continue
        for name, at in captured_bindings(source.code):
            line = source.code.count("\n", 0, at) + 1
            text = f"clang cannot capture `{name}` of a structured binding: [&{name} = {name}]"
            yield Finding(source.path, line, "capture", text)


RULES = [
    check_includes,
    check_banned,
    check_lines,
    check_lengths,
    check_headers,
    check_test_names,
    check_built,
    check_tested,
    check_links,
    check_paths,
    check_listed,
    check_type_names,
    check_captures,
]
