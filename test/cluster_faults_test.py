#!/usr/bin/env python3
"""Mistakes in programs on clusters: what ends them, and what the user is told.

usage: cluster_faults_test.py PHANTORA_RUN FAULTS_PY
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

PHANTORA_RUN, FAULTS = sys.argv[1:3]
# Of phantora-run (docs/COMMAND_LINE.md).
NCCL_FAILED = 71
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
TIMEOUT_SECONDS = 150


def start(mode, **environment):
    return subprocess.Popen(
        [PHANTORA_RUN, "--cluster", "dgx-h100:2", "--ranks-per-host", "1", "--", PYTHON, "-u", FAULTS, mode],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env=dict(os.environ, OMP_NUM_THREADS="1", **environment))


class FaultsTest(unittest.TestCase):
    def fails(self, mode, status, *said, **environment):
        run = start(mode, **environment)
        try:
            output, errors = run.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            run.terminate()
            output, errors = run.communicate(timeout=30)
            self.fail(f"{mode} did not end\n{output}\n{errors}")
        self.assertEqual(run.returncode, status, errors)
        self.assertNotIn("got to the end", output)
        for words in said:
            self.assertIn(words, errors)

    # --- A rank ends -------------------------------------------------------------

    def test_a_rank_that_raises(self):
        self.fails("raises", 1, "ValueError: a mistake in the middle of training",
                   "rank 1 (dgx-h100-1) failed with exit status 1; the others were ended for that")

    def test_a_rank_that_exits(self):
        self.fails("exits", 3, "rank 1 (dgx-h100-1) failed with exit status 3")

    def test_a_rank_that_is_killed_within_a_collective(self):
        self.fails("killed", 137, "rank 1 (dgx-h100-1) was ended by signal 9 (Killed)")

    # --- Ranks that do not agree ---------------------------------------------------

    def test_different_collectives(self):
        self.fails("different_collectives", NCCL_FAILED, "do not agree on collective 2",
                   "rank 0, call 2 with this communicator: AllReduce of 1000 float32, sum",
                   "rank 1, call 2 with this communicator: Broadcast of 1000 float32, root 0")

    def test_different_sizes(self):
        self.fails("different_sizes", NCCL_FAILED, "AllReduce of 1000 float32, sum", "AllReduce of 1001 float32, sum")

    def test_different_roots(self):
        self.fails("different_roots", NCCL_FAILED, "Broadcast of 1000 float32, root 0", "Broadcast of 1000 float32, root 1")

    # --- Ranks that wait in vain -----------------------------------------------------

    def test_two_communicators_in_different_orders(self):
        # PyTorch's own timeout, of which a minute's warning comes before.
        self.fails("two_communicators", 134, "ranks wait for others", "communicator 2 of 2 ranks, collective 2",
                   "communicator 3 of 2 ranks, collective 2", "Watchdog caught collective operation timeout",
                   TIMEOUT="120")

    def test_a_rank_that_leaves_early(self):
        self.fails("leaves_early", 134, "Watchdog caught collective operation timeout", TIMEOUT="30")

    # --- The user ------------------------------------------------------------------

    def test_ctrl_c(self):
        # Its waits are simulated, and soon over: it must not come to its timeout before it is interrupted.
        run = start("never_calls", TIMEOUT="10000000")
        for line in run.stdout:
            if "trains" in line:
                break
        time.sleep(2)
        os.killpg(run.pid, signal.SIGINT)
        before = time.monotonic()
        _, errors = run.communicate(timeout=60)
        self.assertLess(time.monotonic() - before, 20)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("KeyboardInterrupt", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
