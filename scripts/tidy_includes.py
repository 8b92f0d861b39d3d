"""Who may include whom: the arrows between rooms, and the headers of others. check_includes is one
of the rules of tidy_rules.py.
"""

import posixpath
import re

from tidy_source import Finding

# gossip has parts: the sans-I/O core, and on shelves the frames, the drivers that do real I/O and
# the simulator. So has model: its tokenizers are strangers to it.
PARTS = {"gossip/wire/": "gossip-wire", "gossip/net/": "gossip-driver", "gossip/sim/": "gossip-sim",
         "model/tokenizers/": "model-tokenizers"}

MAY_INCLUDE = {
    "base": {"base"},
    "optim": {"base", "optim"},
    "model": {"base", "model"},
    "model-tokenizers": {"base", "model-tokenizers"},
    "gossip": {"base", "gossip"},
    "gossip-wire": {"base", "gossip", "gossip-wire"},
    "gossip-driver": {"base", "gossip", "gossip-wire", "gossip-driver"},
    "gossip-sim": {"base", "gossip", "gossip-wire", "gossip-sim"},
    "cuda": {"base", "cuda"},
    "peer": {"base", "optim", "model", "model-tokenizers", "cuda", "gossip", "gossip-wire",
             "gossip-driver", "peer"},
}
# Folders of a room, each of which may include itself and those before it; "" is what lies in the
# room itself.
SHELVES = {
    "model": ("", "cpu"),
    "peer": ("io", "config", "machine", "files", "states", "status", "roles", "models", "simulate",
             "swarm", "watch", "doctor", "bench", "commands", ""),
}
# The seams that cuda implements, and the formulas it shares with the CPU.
CUDA_SEAMS = re.compile(r"optim/(?:flat_ops|\w+_math)\.h|model/(?:layer_ops|tensor)\.h")
# Tests of whole swarms drive everything there is.
TESTS_OF_EVERYTHING = ("peer", "fuzz", "support")
# The tests of cuda are those of the seams that it implements, against the same references.
TESTS_OF_SEAMS = {"optim", "model", "tests/optim", "tests/model"}

# Headers of others: what their names begin with, and the rooms, or shelves, that may know them.
EVERY_ROOM = set(MAY_INCLUDE)
STANDARD = r"[a-z_]+$"
POSIX = (
    r"(?:sys|net|netinet|arpa)/|"
    r"(?:dirent|dlfcn|fcntl|glob|netdb|poll|pthread|pty|sched|setjmp|signal|spawn|stdlib|"
    r"string|termios|ucontext|unistd)\.h"
)
THIRD_PARTIES = [
    (STANDARD, EVERY_ROOM),
    (r"dlfcn\.h", {"cuda"}),
    (r"malloc\.h", {"base"}),
    (POSIX, {"base", "gossip-driver", "peer"}),
    (r"fmt/", EVERY_ROOM - {"cuda"}),  # stands in for std::format
    (r"spdlog/|xxhash\.h|xxh_x86dispatch\.h", {"base"}),
    (r"omp\.h|oneapi/dnnl/", {"model/cpu"}),
    (r"immintrin\.h", {"model/cpu", "optim"}),
    (r"sentencepiece|utf8proc\.h", {"model/tokenizers"}),
    (r"cuda|cublas|cub/", {"cuda"}),
    (r"cereal/", {"gossip-wire"}),
    (r"zmq\.|linux/(filter|tcp)\.h", {"gossip-driver"}),
    (r"boost/", {"gossip-driver", "peer"}),
    (r"sodium\.h", {"gossip-driver", "peer/states", "peer/status"}),
    (r"nlohmann/", {"model/tokenizers", "peer"}),
    (r"uv\.h", {"peer/io", "peer/files"}),
    (r"toml\+\+/", {"peer/config", "peer/swarm"}),
    (r"zlib\.h|zstd\.h", {"peer/files"}),
    (r"CLI/", {"peer/commands"}),
    (r"doctest/|benchmark/|linux/if_tun\.h", set()),  # tests only
]
IN_EVERY_TEST = re.compile(rf"{STANDARD}|{POSIX}|doctest/|benchmark/|linux/if_tun\.h|fmt/")


def room_of(path):
    if path.startswith("tests/"):
        return "/".join(path.split("/")[:2])
    for folder, part in PARTS.items():
        if path.startswith(folder):
            return part
    return path.split("/")[0]


def rooms_under_test(room):
    """What tests/X may know: X and what X may include; the tests of swarms, everything."""
    under = room.removeprefix("tests/")
    if under in TESTS_OF_EVERYTHING:
        return EVERY_ROOM
    if under == "gossip":
        return {"base", "gossip", "gossip-wire", "gossip-driver", "gossip-sim"}
    if under == "model":
        return {"base", "model", "model-tokenizers"}
    if under == "cuda":
        return MAY_INCLUDE["cuda"] | TESTS_OF_SEAMS
    return MAY_INCLUDE.get(under, {"base"})


def is_above(path, target):
    """Whether the target lies on a shelf of the same room that comes later."""
    room, *shelf = path.split("/")[:-1] or [""]
    other, *upper = target.split("/")[:-1] or [""]
    if room != other or room not in SHELVES or shelf == upper:
        return False
    place = {name: number for number, name in enumerate(SHELVES[room])}
    return place.get((upper or [""])[0], len(place)) > place.get((shelf or [""])[0], -1)


def may_include(path, target):
    room, other = room_of(path), room_of(target)
    if is_above(path, target):
        return False
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
                known = {place.split("/")[0] for place in rooms}
                return bool(IN_EVERY_TEST.match(header) or known & rooms_under_test(room))
            return room in rooms or posixpath.dirname(path) in rooms
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
        what = posixpath.dirname(source.path) or source.path
        return f"{what} may not include {target} (arrows and shelves: README.md)"
    return None


def _theirs(source, header):
    allowed = may_know(source.path, header)
    if allowed is None:
        return f"<{header}> has no place yet: add it to THIRD_PARTIES in scripts/tidy_includes.py"
    return None if allowed else f"<{header}> may not be known to {posixpath.dirname(source.path)}"
