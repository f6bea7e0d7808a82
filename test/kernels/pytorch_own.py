#!/usr/bin/env python3
"""How many of PyTorch's own tests, and of Triton's tutorials, pass on an emulated GPU?

Runs those tests of test_torch.py, test_nn.py and test_cuda.py that use cuda, some per process: another one where one
died, was slow, or left cuda unusable. What failed runs once more, alone, so that it is known whether a kernel of it
was not executed. Slow is what took more than a minute and ended when phantora-run was told to; else it hung. Tests
that want gigabytes skip themselves, as on a GPU that has little memory left: they take a processor hours. Tutorials
run up to their benchmarks, with each configuration of autotuned kernels.

usage: pytorch_own.py --source DIR [--triton DIR] [--gpu NAME] [--every K] [--suites torch nn cuda] ...

DIR of --source is a checkout of PyTorch at the version of this Python's torch, that of --triton python/tutorials of
one of Triton at the version of its triton. PYTHONPATH must have what they import: expecttest, hypothesis, psutil,
scipy; tabulate. Exits with 1 if less than 80 % of a suite passes or something hung.
"""

import argparse
import collections
import importlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import unittest

# Without classes of which few tests use cuda, and TestCudaMallocAsync: another allocator than the default.
SUITES = {"torch": ("test_torch", ["TestTorchDeviceTypeCUDA", "TestDevicePrecisionCUDA", "TestVitalSignsCudaCUDA"]),
          "nn": ("test_nn", ["TestNNDeviceTypeCUDA", "TestNN"]),
          "cuda": ("test_cuda", ["TestCuda", "TestCudaAutocast", "TestCudaOptimsCUDA", "TestMemPool",
                                 "TestBlockStateAbsorption"])}
TUTORIALS = "01-vector-add 02-fused-softmax 03-matrix-multiplication 04-low-memory-dropout 05-layer-norm".split()
TESTS_PER_PROCESS = 200
SECONDS = {"tests": 60, "tutorial": 600, "list": 120}
SECONDS_TO_END = 20
LARGEST, ENOUGH = 1 << 31, 0.8
BAD = ("failed", "error", "crash", "slow", "hung")


class Suite:
    """The tests of one of PyTorch's files, or Triton's tutorials."""

    def __init__(self, options, name):
        self.options, self.name = options, name
        self.results, self.unexecuted = {}, set()

    def run(self):
        tests = TUTORIALS if self.name == "triton" else self.all_tests()[::self.options.every]
        most = 1 if self.name == "triton" else TESTS_PER_PROCESS
        while tests:
            self.some(tests[:most])
            tests = [test for test in tests if test not in self.results]
        first = dict(self.results)
        for test, (status, details) in first.items():
            if status in ("failed", "error", "crash"):
                not_executed = self.some([test])
                first[test] = status, "; ".join([f"{details}; alone: {self.results[test][0]}", *not_executed])
        self.results = first

    def all_tests(self):
        said = []
        _, printed = self.process("list", [], said.append)
        return said[0]["tests"] if said else sys.exit(printed)

    def some(self, tests):
        """Runs tests in one process, which may not come to all. Returns what was not executed."""
        said, now = [], []

        def heard(message):
            said.append(message)
            now[:] = [message["begins"]] if "begins" in message else []
            if "test" in message:
                self.keep(message["test"], message["status"], message["details"])
        ended, printed = self.process("tutorial" if self.name == "triton" else "tests", tests, heard)
        if not said:
            sys.exit(f"nothing ran: {printed}")
        for test in now:
            self.keep(test, ended, printed[-2000:])
        not_executed = re.findall("not executed: .*", printed) if ended == "crash" else []
        self.unexecuted.update(not_executed)
        return not_executed

    def keep(self, test, status, details):
        self.results[test] = status, details
        if status in BAD and self.options.verbose:
            print(f"{test}: {status}: {details[-800:]}", file=sys.stderr, flush=True)

    def process(self, what, tests, heard):
        """Runs `inside` below phantora-run, calls `heard` with what it says. Returns (how it ended, its output)."""
        folder = os.path.abspath(self.options.triton if self.name == "triton" else self.options.source)
        options = ["--gpu", self.options.gpu, "--host-time", "fixed", "--no-status", "--execute", self.options.execute]
        with tempfile.NamedTemporaryFile("r", suffix=".json") as said, tempfile.TemporaryFile("w+") as printed, \
                tempfile.NamedTemporaryFile("w", suffix=".json") as wanted:
            json.dump(tests, wanted)
            wanted.flush()
            process = subprocess.Popen([*self.options.phantora.split(), *options, "--", sys.executable,
                                        os.path.abspath(__file__), "--inside", said.name, self.name, folder,
                                        wanted.name], stdout=printed, stderr=printed,
                                       env=dict(os.environ, PYTORCH_TESTING_DEVICE_ONLY_FOR="cuda"))
            since, ended, running = time.monotonic(), "crash", True
            while running:
                time.sleep(0.1)
                running = process.poll() is None
                for line in said:
                    since = time.monotonic()
                    heard(json.loads(line))
                late = time.monotonic() - since - SECONDS[what]
                if running and late > 0:  # phantora-run gives up a kernel if it is told to end
                    ended = "slow" if late < SECONDS_TO_END else "hung"
                    process.send_signal(signal.SIGTERM if ended == "slow" else signal.SIGKILL)
            printed.seek(0)
            return ended, printed.read()


def report(suite, seconds):
    """Prints its numbers. Returns whether they are good enough."""
    counts = collections.Counter(status for status, _ in suite.results.values())
    ran = sum(counts.values()) - counts["skipped"]
    share = counts["passed"] / max(1, ran)
    print(f"{suite.name}: " + ", ".join(f"{counts[status]} {status}" for status in ("passed", *BAD, "skipped")) +
          f"; {100 * share:.1f} % of {ran} passed, in {seconds:.0f} s")
    for test, (status, details) in suite.results.items():
        if status in BAD:
            details = re.sub(r"(?s)\n+To execute this test.*REPRO_ON_FAILURE=0\n*", "", details)
            print(f"  {status} {test}: {' '.join(details[-400:].split())}")
    print("".join(f"  {line}\n" for line in sorted(suite.unexecuted)), end="")
    return share >= ENOUGH and not counts["hung"]


def inside(path, name, folder, wanted):
    """Below phantora-run: runs tests, or says which there are if none are wanted."""
    with open(wanted) as file:
        wanted = json.load(file)
    with open(path, "w") as file:
        def say(**what):
            file.write(json.dumps(what) + "\n")
            file.flush()
        if name == "triton":
            return inside_tutorial(say, folder, *wanted)
        tests = tests_of(name, os.path.join(folder, "test"))
        if not wanted:
            return say(tests=list(tests))
        unittest.TestSuite(tests[test] for test in wanted).run(Result(say))


def tests_of(name, folder):
    """By name."""
    file, classes = SUITES[name]
    os.chdir(folder)
    sys.path[0], sys.argv = folder, [file + ".py"]
    module = importlib.import_module(file)
    from torch.testing._internal import common_device_type, common_utils
    common_utils.TestCase._default_dtype_check_enabled = True
    enough = common_device_type._has_sufficient_memory
    common_device_type._has_sufficient_memory = lambda device, size: size <= LARGEST and enough(device, size)
    tests = {f"{kind}.{test._testMethodName}": test for kind in classes
             for test in unittest.defaultTestLoader.loadTestsFromTestCase(getattr(module, kind))}
    return {name: test for name, test in tests.items() if not name.startswith("TestNN.") or "cuda" in name.lower()}


class Result(unittest.TestResult):
    """Says at once how each test ended; ends the process after one that left cuda unusable."""

    def __init__(self, say):
        super().__init__()
        self.say, self.status = say, None

    def startTest(self, test):
        super().startTest(test)
        self.status = "passed", ""
        self.say(begins=test.id().split(".", 1)[1])

    def stopTest(self, test):
        super().stopTest(test)
        status, details = self.status
        self.say(test=test.id().split(".", 1)[1], status=status, details=details)
        if status in BAD and re.search("CUDA error|CUDA driver error|device-side assert", details):
            os._exit(3)

    def addFailure(self, test, err):
        self.status = "failed", self._exc_info_to_string(err, test)

    def addError(self, test, err):
        self.status = "error", self._exc_info_to_string(err, test)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(subtest, err)

    def addSkip(self, test, reason):
        self.status = "skipped", reason

    def addUnexpectedSuccess(self, test):
        self.status = "failed", "succeeded, which was not expected"


def inside_tutorial(say, folder, name):
    """Runs one without its benchmarks; compares what it compares, or only prints."""
    say(begins=name)
    import torch
    import triton
    agree, allclose = [], torch.allclose

    def watched(*values, **named):
        agree.append(allclose(*values, **named))
        return agree[-1]

    def once(call, **_):
        call()
        return [1, 1, 1]
    torch.allclose, triton.testing.do_bench, triton.testing.Mark.run = watched, once, lambda *_, **__: None
    found = runpy.run_path(os.path.join(folder, name + ".py"), run_name="__main__")
    if "output_triton" in found:
        agree.append(found["output_triton"].equal(found["output_torch"]))
    if "seeded_dropout" in found:
        x, output = found["x"], found["output"]
        agree += [output.equal(found["output2"]), bool(((output == 0) | (output == 2 * x)).all())]
    torch.cuda.synchronize()
    say(test=name, status="passed" if agree and all(agree) else "failed", details=f"agrees: {agree}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", help="a checkout of PyTorch")
    parser.add_argument("--triton", help="python/tutorials of a checkout of Triton")
    parser.add_argument("--phantora", default="bazel-bin/tools/phantora-run")
    parser.add_argument("--gpu", default="h100-sxm5-80gb")
    parser.add_argument("--execute", default="all", help="as phantora-run's")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th test, by name")
    parser.add_argument("--suites", nargs="*", choices=list(SUITES), default=list(SUITES))
    parser.add_argument("--verbose", action="store_true", help="say what did not pass at once")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(*options.inside)
    good = True
    for name in options.suites * bool(options.source) + ["triton"] * bool(options.triton):
        suite, began = Suite(options, name), time.monotonic()
        suite.run()
        good = report(suite, time.monotonic() - began) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
