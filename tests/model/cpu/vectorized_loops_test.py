#!/usr/bin/env python3
"""Are the loops that compute an exponential made of vectors, for AVX2 as for AVX-512?

    tests/model/cpu/vectorized_loops_test.py OBJECT...

A flag that is missing makes them scalar, several times slower and as right as before, so that no
other test sees it. Reads what the compiler wrote, of the objects of model/ (base/vector_clones.h).
"""

import re
import subprocess
import sys
import unittest

# Where a name has several meanings, with the type that tells them apart.
LOOPS = (("swiglu_rows", ""), ("swiglu_backward_rows", ""), ("softmax_rows", "ScoreRows"),
         ("weights_again", ""), ("attend_row", ""), ("cross_entropy_rows", ""))
REGISTERS = {"arch_x86_64_v3": "%ymm", "arch_x86_64_v4": "%zmm"}
FUSED_MIN = 5  # of the polynomial of vector_exp() alone
FUSED = re.compile(r"\tvfn?m(add|sub)\d+ps\b")

objects = []


def functions(path):
    """Their names, and their lines."""
    listing = subprocess.run(["objdump", "-dC", "--no-show-raw-insn", path], capture_output=True,
                             text=True, check=True).stdout
    for part in listing.split("\n\n"):
        head, _, body = part.strip().partition("\n")
        if head.endswith(">:"):
            yield head, body.splitlines()


class Loops(unittest.TestCase):
    def test_exponentials_are_computed_in_vectors(self):
        seen = set()
        for path in objects:
            for name, lines in functions(path):
                loop = next((loop for loop in LOOPS
                             if f"::{loop[0]}(" in name and loop[1] in name), None)
                clone = next((clone for clone in REGISTERS if clone in name), None)
                if loop is None or clone is None:
                    continue
                seen.add((loop, clone))
                fused = sum(1 for line in lines
                            if FUSED.search(line) and REGISTERS[clone] in line)
                with self.subTest(name):
                    self.assertGreaterEqual(fused, FUSED_MIN)
        if not seen:
            self.skipTest("no function is compiled for several instruction sets here")
        self.assertEqual(seen, {(loop, clone) for loop in LOOPS for clone in REGISTERS})


if __name__ == "__main__":
    objects = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
