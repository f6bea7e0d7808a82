#!/usr/bin/env python3
"""Two processes that hand over to each other: a turn lasts as long as the other sleeps in it.

usage: handover_test.py PHANTORA_RUN TURNS

However who waits is told, and whether it is blocked or looks at shared memory again and again, the turn is right. A loop
without any call is known to be wrong, or not to end: what becomes of it is printed, and once it is right it is to leave
the table.
"""

import os
import subprocess
import sys
import unittest

PHANTORA_RUN, TURNS = map(os.path.abspath, sys.argv[1:3])
MODES = ("fixed", "zero", "measured", "learned")
BLOCKED = ("pipe", "socket", "eventfd", "futex", "timed-futex", "semaphore")
LOOKING = ("yield", "yield-clock", "sleep-0", "short-sleeps", "poll-0")
KNOWN = ("bare",)
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
        for way in BLOCKED + LOOKING + KNOWN:
            with self.subTest(way=way):
                out = subprocess.run([TURNS, way, "3", "2000"], check=True, capture_output=True, timeout=60).stdout
                self.assertGreaterEqual(float(out), 2000)

    def check_turns(self, ways, tolerances):
        for way in ways:
            for mode in MODES:
                with self.subTest(way=way, mode=mode):
                    took = turn(way, mode, 60)
                    self.assertIsNotNone(took, "it did not end")
                    self.assertLess(abs(took / MICROSECONDS - 1), tolerances.get(mode, tolerances["*"]), took)

    def test_who_waits_is_blocked(self):
        self.check_turns(BLOCKED, {"*": 0.001, "measured": 0.05, "learned": 0.05})

    def test_who_waits_looks_again_and_again(self):
        self.check_turns(LOOKING, {"*": 0.05})

    def test_known_to_be_wrong(self):
        for way in KNOWN:
            for mode in MODES:
                took = turn(way, mode, LIMIT)
                print("known: %-12s %-8s %s" % (way, mode, "does not end" if took is None else
                                                "%+.1f %%" % (100 * (took / MICROSECONDS - 1))), flush=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
