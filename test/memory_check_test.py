#!/usr/bin/env python3
"""--check memory finds what programs do wrong with GPU memory, where it is, and nothing else.

usage: memory_check_test.py PHANTORA_RUN MISTAKES PYTORCH_PROGRAM STREAMS_EVENTS GRAPHS_EXPLICIT
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

PHANTORA_RUN, MISTAKES, PYTORCH, STREAMS_EVENTS, GRAPHS_EXPLICIT = sys.argv[1:6]
VENV = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora", "venv")
FOUND = 73

# What is said of each mistake: of the access, and of where the memory was allocated.
MISTAKES_FOUND = {
    "writes_behind": (r"kernel scale writes 4 bytes at 0x\w+, directly behind the end of an allocation of 4,000 bytes "
                      r".*thread 104,0,0 of block 7,0,0", 1),
    "reads_behind": (r"kernel scale reads 4 bytes at 0x\w+, directly behind the end of an allocation of 4,000 bytes", 24),
    "wide_behind": (r"kernel scale_wide reads 16 bytes at 0x\w+, directly behind the end of an allocation of 1,024 bytes", 2),
    "writes_before": (r"kernel before writes 4 bytes at 0x\w+, 8 bytes before an allocation of 400 bytes", 2),
    "counts_behind": (r"kernel count reads 4 bytes at 0x\w+, directly behind the end of an allocation of 64 bytes", 1),
    "uses_freed": (r"kernel scale reads 4 bytes at 0x\w+, in memory that was freed: an allocation of 400 bytes", 100),
    "reads_unwritten": (r"kernel scale reads 4 bytes at 0x\w+ that nobody has written, 3,600 bytes into an allocation of "
                        r"4,000 bytes", 100),
    "counts_unwritten": (r"kernel count reads 4 bytes at 0x\w+ that nobody has written, 0 bytes into", 32),
    "copies_unwritten": (r"a copy reads 4,096 bytes at 0x\w+ that nobody has written", 1),
    "copies_copied_unwritten": (r"a copy reads 4,096 bytes at 0x\w+ that nobody has written", 1),
    "fills_behind": (r"fill writes 480 bytes at 0x\w+, the last 80 bytes behind the end of an allocation of 400 bytes", 1),
    "fills_far_behind": (r"CUDA refuses cuMemsetD32 \(error 1\)", 1),
    "copies_behind": (r"a copy writes 480 bytes at 0x\w+, the last 80 bytes behind the end of an allocation of 400", 1),
    "uploads_behind": (r"a copy or fill writes 480 bytes at 0x\w+, the last 80 bytes behind the end of an allocation of "
                       r"400 bytes", 1),
    "frees_twice": (r"frees 0x\w+, which CUDA refuses \(error 1\): it was freed before, an allocation of 400 bytes", 1),
    "frees_middle": (r"frees 0x\w+, which CUDA refuses \(error 1\): it is 16 bytes into an allocation of 400 bytes", 1),
    "in_order_behind": (r"kernel scale writes 4 bytes at 0x\w+, directly behind the end of an allocation of 4,000 bytes", 1),
    "managed_behind": (r"kernel scale writes 4 bytes at 0x\w+, directly behind the end of a managed allocation", 1),
    "unmapped": (r"kernel scale ends its context: an address that is not mapped", 1),
}


def run(*words, options=()):
    return run_program(VENV / "bin/python", *words, options=options)


def run_program(*words, options=()):
    command = [PHANTORA_RUN, "--no-status", "--check", "memory", *options, "--", *words]
    return subprocess.run(command, text=True, capture_output=True, check=False, timeout=200)


class MemoryCheckTest(unittest.TestCase):
    def found(self, result, what, errors, case):
        lines = [line for line in result.stderr.splitlines() if "check memory: [1] " in line]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertRegex(lines[0], what)
        if case != "unmapped":  # next to nothing
            self.assertRegex(lines[0], rf"programs/memory_mistakes.py:\d+ in {case}")
        self.assertRegex(result.stderr, rf"check memory: {errors} error")
        self.assertEqual(result.returncode, FOUND, result.stderr)

    def test_mistakes_are_found_where_they_are(self):
        for case, (what, errors) in MISTAKES_FOUND.items():
            with self.subTest(case):
                result = run(MISTAKES, case)
                self.assertIn(f"done {case}", result.stdout)
                self.found(result, what, errors, case)

    def test_what_is_right_is_not_found(self):
        for options in ((), ("--gpu", "a100-sxm4-80gb"), ("--host-time", "fixed")):
            with self.subTest(options):
                result = run(MISTAKES, "right", "in_order", options=options)
                self.assertIn("done in_order", result.stdout)
                self.assertIn("check memory: 0 errors in 12 kernels", result.stderr)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_is_not_freed_is_told_and_is_no_error(self):
        result = run(MISTAKES, "leaks")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"not freed at the end: 12,000 bytes, 3 x an allocation of process \d+, made in "
                                        r".*memory_mistakes.py:\d+ in leaks")

    def test_each_rank_has_its_name(self):
        result = run(MISTAKES, "writes_behind", options=("--cluster", "dgx-h100:1", "--ranks-per-host", "2"))
        for rank in (0, 1):
            self.assertRegex(result.stderr, rf"check memory: \[[12]\] rank {rank}: kernel scale writes 4 bytes")
        self.assertEqual(result.returncode, FOUND, result.stderr)

    def test_pytorch(self):
        """Training, sorting, attention make no mistakes; a kernel that goes beyond a tensor does."""
        result = run(PYTORCH)
        self.assertRegex(result.stderr, r"check memory: 0 errors in \d+ kernels")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run(PYTORCH, "beyond")
        self.assertRegex(result.stderr, r"kernel beyond reads 4 bytes at 0x\w+, directly behind the end of an allocation "
                                        r"of 4,000 bytes at 0x\w+ \(.*memory_check_pytorch.py:\d+ in beyond")
        self.assertRegex(result.stderr, "check memory: 1 error ")
        self.assertEqual(result.returncode, FOUND, result.stderr)

    def test_programs_that_are_linked_with_libcuda(self):
        """Copies, graphs and streams that are right, but that the first of many copies reads what nobody has written."""
        result = run_program(GRAPHS_EXPLICIT)
        self.assertRegex(result.stderr, r"check memory: 0 errors in \d{4} kernels")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run_program(STREAMS_EVENTS)
        self.assertRegex(result.stderr, r"a copy reads 4 bytes at 0x\w+ that nobody has written, 0 bytes into an allocation of "
                                        r"4 bytes at 0x\w+ \(tracees/streams_events\+0x")
        self.assertRegex(result.stderr, "check memory: 1 error in")
        self.assertEqual(result.returncode, FOUND, result.stderr)

    def test_what_is_not_executed_is_said(self):
        result = run(MISTAKES, "right", options=("--execute", "100000"))
        self.assertRegex(result.stderr, r"check memory: 0 errors in 7 kernels; what 2 others access")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
