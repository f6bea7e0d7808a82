#!/usr/bin/env python3
"""Every call that reads a clock or can wait, natively and in simulated time.

usage: timeouts_test.py PHANTORA_RUN TIMEOUTS TIMEOUTS_STATIC GO_SOURCE RUST_SOURCE
       timeouts_test.py --each native|fixed|zero|measured PHANTORA_RUN TIMEOUTS [WAY...]

Each way runs in a process of its own, with a limit, so that one that hangs hides no other; all
that fail are listed. The second form shows every way, and runs those that are named.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

# Real seconds for a way. What waits 10 simulated seconds in real time does not pass.
LIMIT = 9
# How far a row may be off: units less, units more, and more as a share of what was asked for.
Tolerance = collections.namedtuple("Tolerance", "less more share")
SIMULATED = {
    # A runtime that spins on the clock before it sleeps pays for that (Go's: 1 ms).
    "fixed": Tolerance(1e-6, 5e-3, 0),
    "zero": Tolerance(1e-6, 5e-3, 0),
    # Two clocks are read one after the other, in processor time.
    "measured": Tolerance(1e-3, 0.3, 0),
}
# What simulated time does not do (docs/LIMITATIONS.md).
CARRIES_NO_TIME = "this carries no time from one process to another"
REAL_TIME = "its timeout is kept in real time"
# Ways that are right or wrong by chance: they run, and what they make is told, but decides nothing.
BY_CHANCE = {
    "eventfd_from_a_child": CARRIES_NO_TIME,
    "end_of_file_from_a_child": CARRIES_NO_TIME,
    "lock_released_by_a_child": CARRIES_NO_TIME,
    "a_full_pipe_that_a_child_empties": CARRIES_NO_TIME,
    "mq_from_a_child": CARRIES_NO_TIME,
    "msgrcv_from_a_child": CARRIES_NO_TIME,
}
# Ways that are always wrong. One that is right has been mended, and is to leave this table.
WRONG = {
    "rcvtimeo_of_a_part": REAL_TIME,
    "sndtimeo_unix_connect": REAL_TIME,
    "futex_lock_pi": REAL_TIME,
    "setitimer_once": "SIGALRM comes with si_code SI_USER instead of SI_KERNEL",
    "timer_overruns": "si_overrun is that of the time when the signal was sent",
}
# And where processor time is measured, these too.
WRONG_MEASURED = {"futex_woken_with_the_old_value": "a wake that leaves the word as it was is not noticed"}
KNOWN = BY_CHANCE | WRONG
NATIVE = Tolerance(0.01, 60, 1)
# A kernel with 100 ticks a second: two units of 5 ms.
NATIVE_COARSE = Tolerance(2.1, 60, 1)
NATIVE_UNIT = 0.005


running = set()


def end(number, _frame):
    """Leaves nothing behind when it is told to end."""
    for process in list(running):
        process.terminate()
    os._exit(128 + number)


def run(command, limit):
    """Exit status ("timeout" past the limit) and output. Ends all that it has started."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                              start_new_session=True) as process:
            running.add(process)
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = "timeout"
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    pass
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            running.discard(process)
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


def off(rows, tolerance_of):
    """What is wrong with the rows of a way."""
    problems = []
    for name, row in rows.items():
        if row is None or row[0] is None:
            continue
        asked, took = row
        tolerance = tolerance_of(name)
        if not (asked - tolerance.less <= took
                <= asked + tolerance.more + tolerance.share * asked):
            problems.append("%s took %.6f instead of %.6f" % (name, took, asked))
    return problems


def native_tolerance(name):
    return NATIVE_COARSE if name.endswith("coarse") else NATIVE


class Runner:
    """Runs ways of one program in one mode."""

    def __init__(self, mode, phantora_run, program):
        self.mode = mode
        self.program = program
        native = mode == "native"
        self.prefix = [] if native else [phantora_run, "--host-time", mode, "--"]
        self.unit = NATIVE_UNIT if native else 1
        self.tolerance_of = native_tolerance if native else lambda name: SIMULATED[mode]

    def names(self):
        return subprocess.run([self.program, "--list"], check=True, capture_output=True,
                              text=True).stdout.split()

    def once(self, ways, unit, limit=LIMIT):
        """The rows of the ways, and what is wrong with them."""
        status, out, err = run([*self.prefix, self.program, str(unit), *ways], limit)
        if status == "timeout":
            return {}, ["not over after %g real seconds" % limit]
        if status != 0:
            return {}, ["exit status %s: %s" % (status, err.strip()[-300:])]
        rows = json.loads(out)
        if not rows:
            return {}, ["no such way"]
        return rows, off(rows, self.tolerance_of)

    def way(self, name):
        rows, problems = self.once([name], self.unit)
        if problems and self.mode == "native":
            # A loaded machine is late; with longer units it matters less.
            rows, problems = self.once([name], 4 * self.unit, 4 * LIMIT)
        return rows, problems

    def ways(self, names=()):
        """{way: (rows, problems)} for those named, or all."""
        names = list(names) or self.names()
        with concurrent.futures.ThreadPoolExecutor(2 if self.mode == "native" else 4) as pool:
            return dict(zip(names, pool.map(self.way, names)))


def missing(results):
    return {name for rows, _ in results.values() for name, row in rows.items() if row is None}


def report(title, results, verbose=False):
    """Prints what failed. Returns the ways that did."""
    failed = [name for name, (_, problems) in results.items() if problems]
    for name, (rows, problems) in results.items():
        if problems:
            print("FAILED %-45s %s" % (name, "; ".join(problems)))
        elif verbose:
            print("ok     %-45s %s" % (name, json.dumps(rows)))
    print("%s: %d of %d ways pass" % (title, len(results) - len(failed), len(results)),
          flush=True)
    return failed


def each(mode, phantora_run, program, *names):
    failed = report(mode, Runner(mode, phantora_run, program).ways(names), verbose=True)
    return 1 if failed else 0


class TimeoutsTest(unittest.TestCase):
    native = {}  # program: results

    @classmethod
    def setUpClass(cls):
        for program in (TIMEOUTS, TIMEOUTS_STATIC):
            cls.native[program] = Runner("native", PHANTORA_RUN, program).ways()

    def check_native(self, program):
        self.assertGreater(len(self.native[program]), 200)
        self.assertEqual(report("native", self.native[program]), [])

    def check_simulated(self, mode, program):
        results = Runner(mode, PHANTORA_RUN, program).ways(self.simulated_ways(program, mode))
        self.assertEqual(report(mode, results), [])
        self.assertEqual(missing(results), missing(self.native[program]))

    @staticmethod
    def simulated_ways(program, mode):
        names = Runner("native", PHANTORA_RUN, program).names()
        assert KNOWN.keys() <= set(names)
        known = KNOWN | (WRONG_MEASURED if mode == "measured" else {})
        return [name for name in names if name not in known]

    def test_native(self):
        self.check_native(TIMEOUTS)

    def test_native_static(self):
        self.check_native(TIMEOUTS_STATIC)

    def test_what_is_known_to_be_wrong(self):
        for mode, known, wrong in (("fixed", KNOWN, WRONG), ("measured", WRONG_MEASURED, WRONG_MEASURED)):
            results = Runner(mode, PHANTORA_RUN, TIMEOUTS).ways(known)
            for name, (_, problems) in results.items():
                state = "still wrong" if problems else "right now" if name in wrong else "right this time"
                print("known: %-12s %-40s %s" % (state, name, known[name]), flush=True)
            self.assertEqual([name for name in wrong if not results[name][1]], [])

    def test_fixed(self):
        self.check_simulated("fixed", TIMEOUTS)

    def test_fixed_static(self):
        self.check_simulated("fixed", TIMEOUTS_STATIC)

    def test_zero(self):
        self.check_simulated("zero", TIMEOUTS)

    def test_measured(self):
        self.check_simulated("measured", TIMEOUTS)

    def test_all_in_one_process(self):
        # What one way leaves behind must not disturb the next.
        rows, problems = Runner("fixed", PHANTORA_RUN, TIMEOUTS).once(
            self.simulated_ways(TIMEOUTS, "fixed"), 1, limit=120)
        self.assertEqual(problems, [])
        self.assertGreater(len(rows), 250)


class OtherLanguagesTest(unittest.TestCase):
    """Programs whose language brings its own runtime, where its compiler is installed."""

    def check(self, compiler, command, source):
        if not shutil.which(compiler):
            print("SKIPPED: nothing is known of %s's programs: it is not installed" % compiler, flush=True)
            self.skipTest("no %s" % compiler)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            # Static, as Go's programs are unless they need the C library.
            environment = dict(os.environ, GOCACHE=folder, GO111MODULE="off", CGO_ENABLED="0")
            subprocess.run([*command, "-o", program, os.path.realpath(source)], check=True,
                           env=environment)
            for mode, unit in (("native", 0.01), ("fixed", 1), ("zero", 1), ("measured", 1)):
                with self.subTest(mode):
                    rows, problems = Runner(mode, PHANTORA_RUN, program).once([], unit, 60)
                    self.assertEqual(problems, [], rows)
                    self.assertGreater(len(rows), 5)

    def test_go(self):
        self.check("go", ["go", "build"], GO_SOURCE)

    def test_rust(self):
        self.check("rustc", ["rustc", "--edition", "2021", "-O"], RUST_SOURCE)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    if sys.argv[1] == "--each":
        sys.exit(each(*sys.argv[2:]))
    PHANTORA_RUN, TIMEOUTS, TIMEOUTS_STATIC, GO_SOURCE, RUST_SOURCE = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
