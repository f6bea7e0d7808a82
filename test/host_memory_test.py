#!/usr/bin/env python3
"""What GPUs' memory takes of this machine's, and what becomes of who wants more than there is.

usage: host_memory_test.py PHANTORA_RUN FILL_MEMORY_PY
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, FILL_MEMORY = sys.argv[1:3]
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
MIB, GIB = 1 << 20, 1 << 30


def run(*arguments, options=()):
    """The result, with what it took of this machine."""
    with tempfile.TemporaryDirectory() as directory:
        result = subprocess.run(
            [PHANTORA_RUN, "--gpus", "2", "--host-time", "fixed", "--report", directory, *options,
             "--", PYTHON, FILL_MEMORY, *map(str, arguments)],
            text=True, check=False, capture_output=True, timeout=240)
        host = json.loads((pathlib.Path(directory) / "host.json").read_text())
    return result, host


class HostMemoryTest(unittest.TestCase):
    def test_zeros_take_nothing_however_they_are_copied(self):
        result, taken = run("zeros")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "zeros 60\n")
        self.assertGreaterEqual(taken["gpus_allocated_at_most"], 120 * GIB)
        self.assertLess(taken["gpus_at_most"], 64 * MIB)

    def test_equal_bytes_are_there_once_and_stay_right(self):
        result, taken = run("equal", 256, options=["--check-gpu-memory"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "equal 256\n")
        # Of four copies on the GPUs two came from the host, which are found to be equal in time.
        self.assertLess(taken["gpus_at_most"], 640 * MIB)

    def test_allocations_fail_as_on_a_full_gpu_when_the_limit_is_near(self):
        result, taken = run("different", 4096, options=["--memory-limit", "1536M"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, "kept 16\n(.|\n)*refused: CUDA out of memory\n$")
        self.assertEqual(result.stderr.count("GPU memory is refused from now on"), 1)
        self.assertIn("--memory-limit", result.stderr)
        self.assertLess(taken["memory_at_most"]["total"], 1536 * MIB)

    def test_else_who_takes_the_last_is_ended_and_told(self):
        result, taken = run("different", 4096,
                            options=["--memory-limit", "1536M", "--out-of-memory", "kill"])
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertNotIn("refused", result.stdout)
        self.assertTrue(re.search(r"error: the run has taken the 1\.5 GiB of memory that it may "
                                  r"\(--memory-limit\); .*process \d+ is ended\. Taken are ",
                                  result.stderr), result.stderr)
        self.assertLess(taken["memory_at_most"]["total"], 1700 * MIB)

    def test_what_programs_take_by_themselves_counts_too(self):
        with tempfile.TemporaryDirectory() as directory:
            script = pathlib.Path(directory) / "take.py"
            script.write_text("kept = []\nwhile True: kept.append(bytearray(b'x' * (8 << 20)))\n")
            result = subprocess.run([PHANTORA_RUN, "--memory-limit", "512M", "--", PYTHON, script],
                                    text=True, check=False, capture_output=True, timeout=120)
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertRegex(result.stderr, "the largest process, process .* is ended")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
