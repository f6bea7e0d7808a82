#!/usr/bin/env python3
"""Two processes that hand over to each other: a turn lasts as long as the other sleeps in it.

usage: handover_test.py PHANTORA_RUN TURNS

Ways in which who waits is blocked are right in every mode. Ways in which it looks at shared memory again and again are
known to be wrong, or never to end: what becomes of them is printed, and a way that is right now is to leave the table.
"""

import os
import subprocess
import sys
import unittest

PHANTORA_RUN, TURNS = map(os.path.abspath, sys.argv[1:3])
MODES = ("fixed", "zero", "measured")
BLOCKED = ("pipe", "socket", "eventfd", "futex", "timed-futex", "semaphore")
LOOKING = ("yield", "yield-clock", "sleep-0", "short-sleeps", "poll-0", "bare")
# What is within 5 % in these modes already.
RIGHT = {("sleep-0", "fixed"), ("sleep-0", "zero"), ("sleep-0", "measured"),
         ("short-sleeps", "fixed"), ("short-sleeps", "zero"), ("short-sleeps", "measured"),
         ("yield-clock", "fixed"), ("yield-clock", "zero")}
COUNT, MICROSECONDS = 10, 8000
LIMIT = 5  # seconds of real time, for those that may never end


def turn(way, mode, limit):
    """Simulated microseconds of a turn; None if the run did not end."""
    command = [PHANTORA_RUN, "--no-status", "--host-time", mode, "--", TURNS, way, str(COUNT), str(MICROSECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            out, errors = run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            run.terminate()
            run.communicate(timeout=30)  # it must end when it is told to
            return None
    if run.returncode != 0:
        raise AssertionError("%s in %s: exit status %d: %s" % (way, mode, run.returncode, errors))
    return float(out)


class HandoverTest(unittest.TestCase):
    def test_real_time(self):
        for way in BLOCKED + LOOKING:
            with self.subTest(way=way):
                out = subprocess.run([TURNS, way, "3", "2000"], check=True, capture_output=True, timeout=60).stdout
                self.assertGreaterEqual(float(out), 2000)

    def test_who_waits_is_blocked(self):
        for way in BLOCKED:
            for mode in MODES:
                with self.subTest(way=way, mode=mode):
                    took = turn(way, mode, 60)
                    tolerance = 0.05 if mode == "measured" else 0.001
                    self.assertLess(abs(took / MICROSECONDS - 1), tolerance, took)

    def test_who_waits_looks_again_and_again(self):
        for way in LOOKING:
            for mode in MODES:
                with self.subTest(way=way, mode=mode):
                    is_right = (way, mode) in RIGHT
                    took = turn(way, mode, 60 if is_right else LIMIT)
                    within = took is not None and abs(took / MICROSECONDS - 1) < 0.05
                    if is_right:
                        self.assertTrue(within, took)
                    print("known: %-12s %-8s %s" % (way, mode, "does not end" if took is None else
                                                    "%+.1f %%" % (100 * (took / MICROSECONDS - 1))), flush=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
