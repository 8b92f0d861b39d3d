#!/usr/bin/env python3
"""Tests of scripts/tidy.py: each rule must find the violation planted for it, and only that, in a
small project that is otherwise clean. A check that cannot fail checks nothing.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))

import tidy  # noqa: E402
import tidy_rules  # noqa: E402
from tidy_source import captured_bindings, cpp_functions, load_tree, scrub  # noqa: E402

EMPTY = "// Thing: a header of the small project, with its contract.\n#pragma once\n"
CONTRACT = EMPTY + "\n"
TYPE = "namespace a {\nclass Twice {};\n} // namespace a\n"
CLEAN = {
    "CMakeLists.txt": "include(tests/all.cmake)\n",
    "README.md": "See [the header](base/thing.h) or [elsewhere](https://example.org).\n",
    "base/thing.h": CONTRACT + "#include <string>\n\nint thing();\n",
    "base/thing.cpp": '#include "base/thing.h"\n\nint thing() { return 1; }\n',
    "base/README.md": "What `thing` is.\n",
    "base/CMakeLists.txt": "add_library(thing ${CMAKE_CURRENT_SOURCE_DIR}/thing.cpp)\n",
    "gossip/core.h": EMPTY,
    "gossip/net/link.h": CONTRACT + TYPE,
    "gossip/README.md": "| `core.h` | the core |\n| `link*` | the link |\n",
    "model/words.h": EMPTY,
    "model/cpu/ops.h": CONTRACT + '#include "model/words.h"\n',
    "model/tokenizers/bytes.h": EMPTY,
    "model/README.md": "`words.h`, `ops.h` and `bytes.h`.\n",
    "peer/roles/peer.h": CONTRACT + '#include "gossip/net/link.h"\n',
    "peer/main.h": CONTRACT + '#include "peer/roles/peer.h"\n',
    "peer/README.md": "See `peer/roles/peer.h` and `main.h`.\n",
    "tests/all.cmake": "foreach(name thing)\n  build(base/${name}_test.cpp)\nendforeach()\n",
    "tests/base/thing_test.cpp": 'TEST_CASE("a thing is one") {}\n',
}
LONG_BODY = "int f() {\n" + "  g();\n" * 69 + "}\n"
TWICE = "namespace b {\nclass Twice {};\n}\nnamespace a {\nstruct Twice {};\n}\n"
BINDING = "void f() {\n  const auto& [a, b] = g();\n"
UNFINISHED = "// TO" + "DO: finish\n"

# rule, file, its new text, the line where the rule must find it
SEEDED = [
    ("include", "gossip/core.h", CONTRACT + '#include "gossip/net/link.h"\n', 4),
    ("include", "base/thing.h", CONTRACT + '#include "peer/roles/peer.h"\n', 4),
    ("include", "base/thing.h", CONTRACT + '#include "thing.h"\n', 4),
    ("include", "gossip/core.h", CONTRACT + "#include <zmq.hpp>\n", 4),
    ("include", "peer/roles/peer.h", CONTRACT + "#include <cuda_runtime.h>\n", 4),
    ("include", "peer/files/peer.h", CONTRACT + '#include "peer/roles/peer.h"\n', 4),
    ("include", "peer/files/peer.h", CONTRACT + '#include "peer/main.h"\n', 4),
    ("include", "peer/attic/peer.h", CONTRACT + '#include "peer/roles/peer.h"\n', 4),
    ("include", "model/words.h", CONTRACT + '#include "model/cpu/ops.h"\n', 4),
    ("include", "model/words.h", CONTRACT + '#include "model/tokenizers/bytes.h"\n', 4),
    ("include", "model/cpu/ops.h", CONTRACT + '#include "model/tokenizers/bytes.h"\n', 4),
    ("include", "model/words.h", CONTRACT + "#include <utf8proc.h>\n", 4),
    ("include", "peer/roles/peer.h", CONTRACT + "#include <unheard/of.h>\n", 4),
    ("include", "peer/roles/peer.h", CONTRACT + "#include <CLI/CLI.hpp>\n", 4),
    ("include", "gossip/sim/core.h", CONTRACT + '#include "gossip/net/link.h"\n', 4),
    ("include", "tests/base/thing_test.cpp", '#include "peer/roles/peer.h"\n', 1),
    ("thread", "gossip/core.h", CONTRACT + "std::thread runner;\n", 4),
    ("thread", "gossip/core.h", CONTRACT + "std::shared_mutex lock;\n", 4),
    ("atomic", "peer/roles/peer.h", CONTRACT + "std::atomic<int> count;\n", 4),
    ("clock", "gossip/core.h", CONTRACT + "auto t = std::chrono::steady_clock::now();\n", 4),
    ("chance", "peer/roles/peer.h", CONTRACT + "std::random_device device;\n", 4),
    ("chance", "peer/roles/peer.h", CONTRACT + "std::normal_distribution<float> normal;\n", 4),
    ("sleep", "tests/base/thing_test.cpp", "void f() { std::this_thread::sleep_for(1s); }\n", 1),
    ("shared-ptr", "peer/roles/peer.h", CONTRACT + "std::shared_ptr<int> everywhere;\n", 4),
    ("using-namespace", "base/thing.cpp", "using namespace std;\n", 1),
    ("assert", "base/thing.cpp", "void f() { assert(true); }\n", 1),
    ("volatile", "base/thing.cpp", "volatile int flag;\n", 1),
    ("print", "base/thing.cpp", 'void f() { std::printf("x"); }\n', 1),
    ("columns", "base/thing.cpp", "// " + "x" * 98 + "\n", 1),
    ("columns", "base/CMakeLists.txt", "# thing.cpp\n# " + "x" * 99 + "\nfind(thing.cpp)\n", 2),
    ("space", "README.md", "Ends in a space. \n", 1),
    ("tab", "base/thing.cpp", "\tint x;\n", 1),
    ("unfinished", "base/thing.cpp", UNFINISHED, 1),
    ("machine", "README.md", "Look into /ho" "me/somebody/project.\n", 1),
    ("newline", "README.md", "No newline at the end", 0),
    ("newline", "README.md", "One line too many.\n\n", 2),
    ("file-length", "base/thing.cpp", "int x;\n" * 401, 0),
    ("function-length", "base/thing.cpp", "\n" + LONG_BODY, 2),
    ("function-length", "scripts/long.py", "def f():\n" + "    g()\n" * 70, 1),
    ("pragma-once", "base/thing.h", "// Thing: a header of the small project.\nint x;\n", 1),
    ("contract", "base/thing.h", "#pragma once\n", 1),
    ("test-name", "tests/base/thing_test.cpp", 'TEST_CASE("one; two") {}\n', 1),
    ("test-name", "tests/base/thing_test.cpp", 'TEST_CASE("ThingTest") {}\n', 1),
    ("not-built", "tests/base/forgotten_test.cpp", "int x;\n", 0),
    ("not-built", "tests/forgotten.cmake", "set(x 1)\n", 0),
    ("untested", "tests/base/thing_test.cpp", None, 0),
    ("dead-link", "README.md", "See [nothing](nothing.md).\n", 1),
    ("dead-path", "README.md", "As base/nothing.h tells.\n", 1),
    ("dead-path", "base/thing.cpp", '#include "base/thing.h"\n// See peer/thing.h.\n', 2),
    ("unlisted", "base/unlisted_thing.h", EMPTY, 0),
    ("unlisted", "cuda/core.h", EMPTY, 0),  # which is no page of gossip/
    ("capture", "base/thing.cpp", BINDING + "  call([&] { return a; });\n}\n", 3),
    ("same-name", "peer/roles/peer.h", CONTRACT + TWICE, 8),
]


def write(folder, files):
    for path, text in files.items():
        target = pathlib.Path(folder) / path
        if text is None:
            target.unlink()
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def findings(files):
    with tempfile.TemporaryDirectory() as folder:
        write(folder, CLEAN)
        write(folder, files)
        tree = load_tree(folder)
        return [finding for rule in tidy_rules.RULES for finding in rule(tree)]


def functions(text):
    return [(f.name, f.line, f.length) for f in cpp_functions(scrub(text))]


class Rules(unittest.TestCase):
    def test_a_clean_project_has_no_findings(self):
        self.assertEqual(findings({}), [])

    def test_every_rule_finds_its_seeded_violation(self):
        for rule, path, text, line in SEEDED:
            with self.subTest(rule=rule, path=path, text=(text or "")[-60:]):
                found = findings({path: text})
                self.assertEqual({f.rule for f in found}, {rule}, found)
                where = "base/thing.cpp" if rule == "untested" else path
                self.assertEqual([(f.path, f.line) for f in found], [(where, line)])

    def test_every_rule_has_a_seeded_violation(self):
        files = ("tidy_rules.py", "tidy_includes.py")
        text = "".join((SCRIPTS / file).read_text() for file in files)
        rules = set(re.findall(r'Finding\(source\.path, [^"]*?"([a-z-]+)"', text))
        rules |= {rule for rule, *_ in tidy_rules.BANNED}
        self.assertGreater(len(rules), 20)
        self.assertEqual(rules - {rule for rule, *_ in SEEDED}, set())

    def test_comments_and_strings_are_free(self):
        text = '// std::mutex\n/* volatile\n assert(x) */\nauto s = "std::cout";\n'
        raw = 'auto r = R"x(std::shared_ptr " // )x";\nint many = 1\'000\'000;\n'
        self.assertEqual(findings({"base/thing.cpp": text + raw}), [])

    def test_code_after_a_string_or_a_comment_is_not_free(self):
        text = 'auto s = "\\"//"; volatile int x = \'"\'; /* " */ std::mutex m;\n'
        found = findings({"base/thing.cpp": text})
        self.assertEqual({f.rule for f in found}, {"volatile", "thread"})

    def test_rooms_keep_their_rights(self):
        allowed = {
            "base/thing.h": CONTRACT + "#include <atomic>\nstd::atomic<int> count;\n",
            "gossip/net/link.h": CONTRACT + '#include <zmq.hpp>\n\n#include "gossip/core.h"\n',
            "peer/roles/peer.h": CONTRACT + "#include <boost/asio.hpp>\nstd::mutex lock;\n",
            "tests/base/thing_test.cpp": '#include "base/thing.h"\n',
        }
        self.assertEqual(findings(allowed), [])

    def test_a_function_of_seventy_lines_is_allowed(self):
        self.assertEqual(findings({"base/thing.cpp": LONG_BODY.replace("  g();\n", "", 1)}), [])


class Functions(unittest.TestCase):
    def test_functions_are_found_where_they_are(self):
        text = (
            "namespace a::b {\n"
            "template <class T, class U = X<T>>\n"
            "class [[nodiscard]] Box final : public Base<T> {\n"
            " public:\n"
            "  explicit Box(int x, Options o = {}) noexcept : x_{x}, o_{o} {\n"
            "    if (x) { y(); }\n"
            "  }\n"
            "  Box& operator=(const Box& b) { return *this; }\n"
            " private:\n"
            "  int x_{0};\n"
            "};\n"
            "constexpr int kTable[] = {\n  f(1),\n  2,\n};\n"
            "enum class Color { kRed };\n"
            "auto twice = [](int x) {\n  return 2 * x;\n};\n"
            "#define MACRO(x) \\\n  { x }\n"
            "static Result<int>\nlong_name(int a,\n          int b) {\n}\n"
            "}\n"
        )
        expected = [("Box", 5, 3), ("operator=", 8, 1), ("twice", 17, 3), ("long_name", 22, 4)]
        self.assertEqual(functions(text), expected)

    def test_names_that_a_lambda_makes_anew_or_has_itself_are_not_captured(self):
        def captured(line):
            loop = "  for (auto& [a, b] : m) {\n    " + line + "\n  }\n"
            text = "void f() {\n" + loop + "  [&] { a(); }();\n}"
            return [name for name, _ in captured_bindings(text)]

        self.assertEqual(captured("g([&](int x) { return x + a; });"), ["a"])
        self.assertEqual(captured("g([&b] { b(); });"), ["b"])
        for line in ("g([&, a = a] { a(); });", "g([](int a) { a(); });", "g([&] { c.a(); });",
                     "g([&] { int a = 1; });", "g([this] { a(); });"):
            self.assertEqual(captured(line), [], line)


class Program(unittest.TestCase):
    def run_on(self, files, *options):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, {**CLEAN, **files})
            command = [sys.executable, str(SCRIPTS / "tidy.py"), "--root", folder, *options]
            return subprocess.run(command, capture_output=True, text=True)

    def test_a_finding_is_said_with_its_place_and_fails_the_run(self):
        run = self.run_on({"base/thing.cpp": "\nvolatile int flag;\n"})
        self.assertEqual(run.returncode, 1)
        self.assertIn("base/thing.cpp:2: volatile: volatile: it orders nothing", run.stdout)

    def test_an_exception_with_a_reason_excuses(self):
        for path in ("base/thing.cpp", "base/th*.cpp"):
            excuse = f"volatile {path}: a register of a device is read here\n"
            files = {"base/thing.cpp": "volatile int flag;\n", tidy.EXCEPTIONS: excuse}
            run = self.run_on(files)
            self.assertEqual((run.returncode, run.stdout), (0, ""))

    def test_an_exception_without_use_or_reason_is_a_finding(self):
        useless = "volatile base/thing.cpp: nothing of that kind is there\n"
        for text, message in ((useless, "excuses nothing"), ("volatile base/thing.cpp\n", "write")):
            run = self.run_on({tidy.EXCEPTIONS: text})
            self.assertEqual(run.returncode, 1)
            self.assertIn(message, run.stdout)

    def test_a_header_that_leans_on_its_includer_is_found(self):
        run = self.run_on({"peer/roles/peer.h": CONTRACT + "std::string name();\n"}, "--headers")
        self.assertEqual(run.returncode, 1)
        self.assertIn("peer/roles/peer.h:1: header-alone:", run.stdout)
        self.assertEqual(self.run_on({}, "--headers").returncode, 0)


if __name__ == "__main__":
    unittest.main()
