"""The rules of the house, as tables and small functions. Each rule takes the whole tree and yields
Findings; RULES at the end lists them all. tidy_exceptions.txt names the exceptions.
"""

import dataclasses
import fnmatch
import posixpath
import re

from tidy_source import cpp_functions, python_functions

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int  # from 1; 0 for the file as a whole
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


# ---- who may include whom ------------------------------------------------------------------------

# gossip has three parts: the sans-I/O core, the drivers that do real I/O, the simulator.
DRIVER = re.compile(
    r"gossip/(?:link|asio_driver|name_resolver|payload_queues|real_clock|identity|trust|envelope)"
    r"(?:_\w+)?\."
)
WIRE = re.compile(r"gossip/wire(?:_\w+)?\.")
SIMULATOR = re.compile(r"gossip/sim_")

MAY_INCLUDE = {
    "base": {"base"},
    "optim": {"base", "optim"},
    "model": {"base", "model"},
    "gossip": {"base", "gossip"},
    "gossip-wire": {"base", "gossip", "gossip-wire"},
    "gossip-driver": {"base", "gossip", "gossip-wire", "gossip-driver"},
    "gossip-sim": {"base", "gossip", "gossip-wire", "gossip-sim"},
    "cuda": {"base", "cuda"},
    "peer": {"base", "optim", "model", "cuda", "gossip", "gossip-wire", "gossip-driver", "peer"},
}
# The seams that cuda implements, and the formulas it shares with the CPU.
CUDA_SEAMS = re.compile(r"optim/(?:flat_ops|\w+_math)\.h|model/(?:layer_ops|tensor)\.h")
# Tests of whole swarms drive everything there is.
TESTS_OF_EVERYTHING = ("peer", "sim", "fuzz", "support")
# The tests of cuda are those of the seams that it implements, against the same references.
TESTS_OF_SEAMS = {"optim", "model", "tests/optim", "tests/model"}

# Headers of others: what their names begin with, and the rooms that may know them.
EVERY_ROOM = set(MAY_INCLUDE)
STANDARD = r"[a-z_]+$"
POSIX = (
    r"(?:sys|net|netinet|arpa)/|"
    r"(?:dirent|dlfcn|fcntl|glob|netdb|poll|pthread|sched|setjmp|signal|spawn|stdlib|string|"
    r"ucontext|unistd)\.h"
)
THIRD_PARTIES = [
    (STANDARD, EVERY_ROOM),
    (r"dlfcn\.h", {"cuda"}),
    (r"malloc\.h", {"base"}),
    (POSIX, {"base", "gossip-driver", "peer"}),
    (r"fmt/", EVERY_ROOM - {"cuda"}),  # stands in for std::format
    (r"spdlog/|xxhash\.h|xxh_x86dispatch\.h", {"base"}),
    (r"omp\.h", {"model"}),
    (r"immintrin\.h", {"model", "optim"}),
    (r"oneapi/dnnl/|sentencepiece|utf8proc\.h", {"model"}),
    (r"cuda|cublas|cub/", {"cuda"}),
    (r"cereal/", {"gossip-wire"}),
    (r"zmq\.|linux/tcp\.h", {"gossip-driver"}),
    (r"boost/|sodium\.h", {"gossip-driver", "peer"}),
    (r"nlohmann/", {"model", "peer"}),
    (r"uv\.h|toml\+\+/|CLI/|zlib\.h|zstd\.h", {"peer"}),
    (r"doctest/|benchmark/|linux/if_tun\.h", set()),  # tests only
]
IN_EVERY_TEST = re.compile(rf"{STANDARD}|{POSIX}|doctest/|benchmark/|linux/if_tun\.h|fmt/")


def room_of(path):
    if path.startswith("tests/"):
        return "/".join(path.split("/")[:2])
    if DRIVER.match(path):
        return "gossip-driver"
    if WIRE.match(path):
        return "gossip-wire"
    if SIMULATOR.match(path):
        return "gossip-sim"
    return path.split("/")[0]


def rooms_under_test(room):
    """What tests/X may know: X and what X may include; the tests of swarms, everything."""
    under = room.removeprefix("tests/")
    if under in TESTS_OF_EVERYTHING:
        return EVERY_ROOM
    if under == "gossip":
        return {"base", "gossip", "gossip-wire", "gossip-driver", "gossip-sim"}
    if under == "cuda":
        return MAY_INCLUDE["cuda"] | TESTS_OF_SEAMS
    return MAY_INCLUDE.get(under, {"base"})


def may_include(path, target):
    room, other = room_of(path), room_of(target)
    if room.startswith("tests/"):
        return other in rooms_under_test(room) | {room, "tests/support"}
    if room == "cuda" and CUDA_SEAMS.fullmatch(target):
        return True
    return other in MAY_INCLUDE.get(room, set())


def may_know(path, header):
    """Whether a file may include <header>; None when nobody has placed that header yet."""
    room = room_of(path)
    for pattern, rooms in THIRD_PARTIES:
        if re.match(pattern, header):
            if room.startswith("tests/"):
                return bool(IN_EVERY_TEST.match(header) or rooms & rooms_under_test(room))
            return room in rooms
    return None


def check_includes(tree):
    known = {s.path for s in tree}
    for source in filter(lambda s: s.is_cpp, tree):
        for number, line in enumerate(source.code.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*(?:"([^"]*)"|<([^>]*)>)', line)
            if not match:
                continue
            ours, theirs = match.groups()
            message = _ours(source, ours, known) if ours else _theirs(source, theirs)
            if message:
                yield Finding(source.path, number, "include", message)


def _ours(source, target, known):
    if target not in known:
        return f'"{target}" is no file of ours; write the path from the root'
    if not may_include(source.path, target):
        return f"{room_of(source.path)} may not include {target} (arrows: README.md)"
    return None


def _theirs(source, header):
    allowed = may_know(source.path, header)
    if allowed is None:
        return f"<{header}> has no place yet: add it to THIRD_PARTIES in scripts/tidy_rules.py"
    return None if allowed else f"<{header}> may not be known to {room_of(source.path)}"


# ---- words with a replacement --------------------------------------------------------------------

# Tests with the label net: real sockets have no virtual time.
NET_TESTS = r"tests/gossip/(?:link|asio_driver|net_)|tests/peer/"

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
        "time is an argument (base/time.h); clocks are for drivers and peer/",
        rf"{DRIVER.pattern}|peer/|{NET_TESTS}|tests/\w+/bench_",
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
        "use the log (base/log.h), or return text for peer/cli to print",
        r"base/assert\.cpp|peer/(?:main|cli)|tests/",
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


def check_listed(tree):
    """A room's own pages name each of its headers, perhaps by a pattern (`sim_*`), so that whoever
    looks for something finds the file."""
    listed = {}
    for source in filter(lambda s: s.path.endswith(".md"), tree):
        room = posixpath.dirname(source.path)
        text = re.sub(r"```.*?```", "", source.text, flags=re.DOTALL)
        names = re.findall(rf"`(?:{room}/)?(\w{{2,}}\*?)(?:\.\w+)?`", text)
        listed.setdefault(room, set()).update(names)
    for source in tree:
        room, file = posixpath.split(source.path)
        stem, suffix = posixpath.splitext(file)
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
    check_listed,
    check_type_names,
]
