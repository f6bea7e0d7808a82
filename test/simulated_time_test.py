#!/usr/bin/env python3
"""Clocks, sleeps, timeouts and GPU time under --host-time.

usage: simulated_time_test.py PHANTORA_RUN CLOCKS_PY STEP_TIME_PY GPT2_PY SMALL_KERNELS_PY
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, CLOCKS, STEP_TIME, GPT2, SMALL_KERNELS = sys.argv[1:6]
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")


def phantora(*command, options=()):
    return subprocess.run([PHANTORA_RUN, *options, "--", *map(str, command)], text=True,
                          check=False, capture_output=True, timeout=150)


class ClocksTest(unittest.TestCase):
    """The same program on real clocks, which shows that it is right itself."""

    def test_real_clocks_are_no_shorter_than_asked_for(self):
        output = subprocess.run([sys.executable, CLOCKS, "0.01"], check=True, capture_output=True,
                                text=True, timeout=120).stdout
        for way, (asked, took, _) in json.loads(output).items():
            self.assertGreater(took, asked - 0.01, way)

    def check_simulated(self, mode, tolerance):
        # 308 simulated seconds, of which this waits for less than 150 real ones.
        result = phantora(sys.executable, CLOCKS, "1", options=["--host-time", mode])
        self.assertEqual(result.returncode, 0, result)
        results = json.loads(result.stdout)
        self.assertEqual(len(results), 22)
        for way, (asked, took, processor) in results.items():
            self.assertGreaterEqual(took, asked - 1e-6, (mode, way))
            extra = processor if mode == "measured" else 0
            self.assertLess(took, asked + extra + tolerance, (mode, way))
        return results

    def test_fixed(self):
        self.check_simulated("fixed", 0.001)

    def test_zero(self):
        self.check_simulated("zero", 0.001)

    def test_measured_adds_processor_time(self):
        results = self.check_simulated("measured", 0.1)
        # And it does add: a loop of 3 ms is one of processor time.
        self.assertTrue(any(took > asked + 1e-4 for asked, took, _ in results.values()))


class StepTimeTest(unittest.TestCase):
    def steps(self, gpu, mode="fixed", options=()):
        result = phantora(PYTHON, STEP_TIME,
                          options=["--gpu", gpu, "--host-time", mode, *options])
        self.assertEqual(result.returncode, 0, result)
        return result.stdout

    def test_host_and_events_agree(self):
        with tempfile.NamedTemporaryFile() as file:
            times = json.loads(self.steps("h100-sxm5-80gb", options=["--trace", file.name]))
            trace = json.load(file)
        for host, events in list(zip(times["perf_counter"], times["events"]))[1:]:
            # The host reads its clock before the first event and after the last.
            self.assertGreater(host, events - 0.001)
            self.assertLess(host, events + 0.02)
        kernels = [event for event in trace if event["ph"] == "X" and "grid" in event["args"]]
        self.assertGreater(len(kernels), 200)
        self.assertTrue(any(event["name"] == "wait" for event in trace))
        for event in kernels:
            self.assertGreater(event["dur"], 1)

    def check_same(self, program, runs):
        # The last one while both processors have other things to do.
        def run(folder):
            folder.mkdir()
            trace, report = folder / "trace.json", folder / "report"
            result = phantora(PYTHON, *program,
                              options=["--gpu", "a100-sxm4-80gb", "--host-time", "fixed",
                                       "--trace", trace, "--report", report])
            self.assertEqual(result.returncode, 0, result)
            return [result.stdout, trace.read_bytes(), (report / "report.json").read_bytes(),
                    (report / "report.html").read_bytes()]
        with tempfile.TemporaryDirectory() as folder:
            results = [run(pathlib.Path(folder, str(number))) for number in range(runs - 1)]
            hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    for _ in range(os.cpu_count())]
            try:
                results.append(run(pathlib.Path(folder, "loaded")))
            finally:
                for hog in hogs:
                    hog.kill()
                    hog.wait()
        for other in results[1:]:
            for one, two in zip(results[0], other):
                self.assertEqual(one, two)

    def test_fixed_runs_are_the_same_byte_for_byte(self):
        self.check_same([STEP_TIME], runs=3)

    def test_also_with_a_backward_thread(self):
        self.check_same([GPT2, "--layers", "6", "--steps", "3"], runs=3)

    def test_small_kernels_have_their_results(self):
        for gpu in ("a100-sxm4-80gb", "h100-sxm5-80gb"):
            result = phantora(PYTHON, SMALL_KERNELS, options=["--gpu", gpu, "--host-time", "fixed"])
            self.assertIn("PASSED small_kernels", result.stdout, result)

    def test_a_slower_gpu_takes_longer(self):
        # Without host time, the GPU is all that counts.
        h100 = json.loads(self.steps("h100-sxm5-80gb", "zero"))["events"]
        a100 = json.loads(self.steps("a100-sxm4-80gb", "zero"))["events"]
        self.assertGreater(a100[-1], h100[-1] * 1.05)


class OptionsTest(unittest.TestCase):
    def test_a_trace_needs_simulated_time(self):
        result = phantora("true", options=["--host-time", "real", "--trace", "/dev/null"])
        self.assertEqual(result.returncode, 125)
        self.assertIn("--host-time", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
