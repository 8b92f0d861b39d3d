#!/usr/bin/env python3
"""What `cmake --install` installs of a finished build: everything is there, and works from there.

    BUILD=build/dev tests/install_test.py [Case.test_name]

Nothing is built, and nothing is written outside of scratch folders.
"""

import gzip
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("BUILD", "build/dev")).resolve()

PROGRAM = """
bin/starling
lib/systemd/system/starling.service
lib/sysusers.d/starling.conf
lib/tmpfiles.d/starling.conf
share/bash-completion/completions/starling
share/doc/starling/README.md
share/doc/starling/examples/configs/peer.toml
share/doc/starling/examples/deploy/README.md
share/doc/starling/examples/deploy/kubernetes/keys
share/doc/starling/examples/deploy/slurm/starling.sbatch
share/man/man1/starling.1.gz
""".split()
PLAIN = """
share/doc/starling/CHANGELOG.md
share/doc/starling/LICENSE
share/zsh/site-functions/_starling
""".split()
DEBIAN = """
share/doc/starling/changelog.gz
share/doc/starling/copyright
share/zsh/vendor-completions/_starling
""".split()

# A line as it was typed until the tab, and some of what must be offered; "!" before what must not.
COMPLETED = [
    ("starling ge", ["generate"]),
    ("starling --v", ["--version"]),
    ("starling tokenizer ", ["train", "!peer"]),
    ("starling tokenizer train --ty", ["--type"]),
    ("starling tokenizer train --type ", ["unigram", "bpe", "!train"]),
    ("starling eval --weights = s", ["slow", "!fast"]),
    ("starling peer x.toml --set run.na", ["run.name="]),
    ("starling peer share/do", ["share/doc"]),
    ("starling coverage share/doc/starling/R", ["!share/doc/starling/README.md"]),
    ("starling top ", ["!share"]),
]
COMPLETE = """
compopt() { :; }
source share/bash-completion/completions/starling
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_starling
printf '%s\\n' "${COMPREPLY[@]}"
"""


def install(prefix, *options):
    command = ["cmake", "--install", BUILD, "--prefix", prefix, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def files_in(folder):
    return {p.relative_to(folder).as_posix() for p in Path(folder).rglob("*") if p.is_file()}


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="starling-install-")
        cls.prefix = Path(cls.folder.name)
        install(cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_installed(self, *arguments):
        command = [self.prefix / "bin" / "starling", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def test_all_of_it_is_there_and_only_what_belongs_outside_of_a_package(self):
        found = files_in(self.prefix)
        self.assertEqual(set(PROGRAM + PLAIN) - found, set())
        self.assertEqual(found & set(DEBIAN), set())
        self.assertTrue(os.access(self.prefix / PROGRAM[0], os.X_OK))

    def test_a_cuda_module_that_was_built_is_installed_where_the_program_finds_it(self):
        if not (BUILD / "peer/libstarling_cuda.so").exists():
            self.skipTest("this build has no CUDA module")
        self.assertIn("lib/starling/libstarling_cuda.so", files_in(self.prefix))
        config = self.prefix / "small.toml"
        config.write_text("")
        command = [self.prefix / "bin/starling", "doctor", config, "--set", "device.name=cuda"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        config.unlink()
        self.assertIn("device", done.stdout)
        self.assertNotIn("no CUDA module", done.stdout)

    def test_the_package_has_what_debian_wants_instead(self):
        with tempfile.TemporaryDirectory(prefix="starling-install-") as prefix:
            install(prefix, "--component", "debian")
            self.assertEqual(files_in(prefix), set(DEBIAN))

    def test_the_program_runs_from_its_prefix_and_its_pages_are_its_own(self):
        self.assertRegex(self.run_installed("--version"), r"^starling \d+\.\d+")
        with gzip.open(self.prefix / "share/man/man1/starling.1.gz", "rt") as page:
            self.assertEqual(page.read(), self.run_installed("manual"))
        for shell, place in (("bash", "bash-completion/completions/starling"),
                             ("zsh", "zsh/site-functions/_starling")):
            text = (self.prefix / "share" / place).read_text()
            self.assertEqual(text, self.run_installed("completion", shell))

    def test_the_formatter_has_nothing_against_the_manual_page(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        command = ["groff", "-man", "-Tutf8", "-ww"]
        made = subprocess.run(command, input=self.run_installed("manual"), capture_output=True,
                              text=True, check=True)
        self.assertEqual(made.stderr, "")
        text = re.sub(r"\x1b\[\d*m|.\x08", "", made.stdout)
        self.assertIn("starling tokenizer train [OPTION...] TEXT...", text)
        self.assertIn("--validation-fraction FLOAT", text)

    def test_bash_completes_commands_options_words_keys_and_files(self):
        for line, expected in COMPLETED:
            words = line.split(" ")
            made = subprocess.run(["bash", "-c", COMPLETE, "bash", *words], cwd=self.prefix,
                                  capture_output=True, text=True, check=True)
            offered = made.stdout.split("\n")
            for word in expected:
                with self.subTest(line=line, word=word):
                    self.assertEqual(made.stderr, "")
                    found = word.lstrip("!") in offered
                    self.assertEqual(found, not word.startswith("!"), offered)

    def test_zsh_reads_its_completion(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        script = self.prefix / "share/zsh/site-functions/_starling"
        loaded = subprocess.run(
            ["zsh", "-fc", f"autoload -U compinit; compinit -D -u; source {script}; "
             "print $_comps[starling]"], capture_output=True, text=True, check=True)
        self.assertEqual((loaded.stdout.strip(), loaded.stderr), ("_starling", ""))


if __name__ == "__main__":
    unittest.main()
