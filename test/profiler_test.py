#!/usr/bin/env python3
"""Kernels without a measured price are measured, here on an emulated GPU: the list of them, their
replay at their own addresses, and prices from what was measured.

usage: profiler_test.py PHANTORA_RUN PHANTORA_PROFILE GPT2_PY
"""

import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, PHANTORA_PROFILE, GPT2 = map(os.path.abspath, sys.argv[1:4])
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
GPU = "h100-sxm5-80gb"
STEP = [PYTHON, GPT2, "--layers", "2", "--steps", "2"]
# The emulated GPU stands for the real one: what is measured there are its prices.
EMULATED = [PHANTORA_RUN, "--gpu", GPU, "--host-time", "fixed", "--model-only"]
PROFILE = [PHANTORA_PROFILE, "--pool-mib", "32"]


def run(command, status=0):
    result = subprocess.run(list(map(str, command)), text=True, capture_output=True, timeout=600,
                            check=False)
    if result.returncode != status:
        raise AssertionError(f"exit status {result.returncode}, not {status}:\n"
                             f"{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def lines(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def sources(kernel_log):
    """Launches by where their price comes from."""
    count = collections.Counter()
    for launch in lines(kernel_log):
        count[launch["source"]] += launch["launches"]
    return count


class ProfilerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        path = pathlib.Path(cls.folder.name)
        cls.missing, cls.rows, cls.results, cls.log, cls.own = (
            path / name for name in ("missing.jsonl", "rows.tsv", "results.jsonl", "log.jsonl",
                                     "own.tsv"))
        run([*EMULATED, "--missing", cls.missing, "--", *STEP])
        cls.said = run([*EMULATED, "--", *PROFILE, cls.missing, "-o", cls.rows, "--results",
                        cls.results])

    def test_everything_is_on_the_list(self):
        header, *others = lines(self.missing)
        self.assertEqual(header["product"], "NVIDIA H100 80GB HBM3")
        launches = [line for line in others if "launch" in line]
        self.assertGreater(len(launches), 40)
        self.assertEqual([launch["kernel"] for launch in launches if launch["image"] is None], [])
        # What takes most comes first.
        times = [launch["modelled_us"] * launch["launches"] for launch in launches]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_nearly_all_are_measured_and_take_what_they_take(self):
        requests = {line["launch"]: line for line in lines(self.missing) if "launch" in line}
        results = [line for line in lines(self.results) if "launch" in line]
        self.assertEqual(len(results), len(requests))
        measured = [result for result in results if "us" in result]
        self.assertGreaterEqual(len(measured), 0.95 * len(requests), self.said)
        self.assertNotIn("illegal", self.said)
        ratios = sorted(result["us"] / requests[result["launch"]]["modelled_us"]
                        for result in measured)
        self.assertAlmostEqual(statistics.median(ratios), 1, delta=0.02)
        # Starting one after the other takes a little of a short kernel.
        odd = [ratio for ratio in ratios if not 0.95 < ratio < 1.15]
        self.assertLess(len(odd), 0.05 * len(ratios), odd)

    def test_measured_rows_are_prices(self):
        run([PHANTORA_RUN, "--gpu", GPU, "--host-time", "fixed", "--rows", self.rows,
             "--log-kernels", self.log, "--", *STEP])
        count = sources(self.log)
        self.assertGreater(count["measured"], 0.95 * sum(count.values()), count)

    def test_at_once(self):
        said = run([PHANTORA_RUN, "--gpu", GPU, "--host-time", "fixed", "--rows", self.own,
                    "--gpu-profiler", "--gpu-profiler-command",
                    " ".join(map(str, [*EMULATED, "--", *PROFILE, "-", "--results", "-"])),
                    "--log-kernels", self.log, "--", *STEP])
        self.assertIn("kernels were measured on the GPU here, 0 could not be", said)
        count = sources(self.log)
        self.assertGreater(count["measured"], 0.99 * sum(count.values()), count)
        names = [{line.rsplit("\t", 3)[0] for line in
                  file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")}
                 for file in (self.rows, self.own)]
        self.assertGreater(len(names[0] & names[1]), 0.9 * len(names[0]))
        # And they are there the next time, without a profiler.
        run([PHANTORA_RUN, "--gpu", GPU, "--host-time", "fixed", "--rows", self.own,
             "--log-kernels", self.log, "--", *STEP])
        count = sources(self.log)
        self.assertGreater(count["measured"], 0.95 * sum(count.values()), count)

    def test_refusals(self):
        other = [PHANTORA_RUN, "--gpu", "a100-sxm4-80gb", "--", *PROFILE]
        self.assertIn("the GPU here is an NVIDIA A100", run([*other, self.missing], status=1))
        self.assertIn("there is no NVIDIA driver here",
                      run(["env", "LD_LIBRARY_PATH=/nowhere", *PROFILE, self.missing], status=1)
                      if not pathlib.Path("/dev/nvidia0").exists() else
                      "there is no NVIDIA driver here")
        self.assertIn("cannot read", run([PHANTORA_RUN, "--rows", "/nowhere", "--", "true"],
                                         status=125))
        self.assertIn("uses no measured prices", run(
            [PHANTORA_RUN, "--model-only", "--rows", self.rows, "--", "true"], status=125))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
