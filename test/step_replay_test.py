#!/usr/bin/env python3
"""Records steps of parallel training and replays them, on the same cluster and on larger ones.

usage: step_replay_test.py PHANTORA_RUN PHANTORA_REPLAY PROGRAM...
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, PHANTORA_REPLAY = sys.argv[1:3]
PLAN = next(path for path in sys.argv[3:] if path.endswith("plan.py"))
PROGRAMS = {pathlib.Path(path).stem: path for path in sys.argv[3:]}
VENV = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora") / "venv/bin"
TIMEOUT_SECONDS = 240
TOLERANCE = 0.02
# FSDP1's work on a rank's shard: AdamW, norms of gradients, and conversions between its types.
SHARDED = "multi_tensor_apply,NormTwoOps,bfloat16_copy,LoadWithCast"


class StepReplayTest(unittest.TestCase):
    def record(self, name, *arguments, hosts=1, ranks=2):
        """The file with what the program did in `ranks` ranks per host."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        file = pathlib.Path(directory.name) / "step.json"
        result = subprocess.run(
            [PHANTORA_RUN, "--cluster", f"dgx-h100:{hosts}", "--ranks-per-host", str(ranks), "--host-time", "fixed",
             "--record-step", file, "--", VENV / "python", PROGRAMS[name], *map(str, arguments)],
            text=True, check=False, capture_output=True, timeout=TIMEOUT_SECONDS,
            env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return file

    def replay(self, file, *hosts, options=()):
        """NCCL operations of a step, how often they repeat, its recorded time, and a row for each cluster."""
        clusters = ",".join(f"dgx-h100:{number}" for number in hosts)
        result = subprocess.run([PHANTORA_REPLAY, file, "--cluster", clusters, *options], text=True, check=False,
                                capture_output=True, timeout=TIMEOUT_SECONDS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        print(result.stdout)
        operations, times, recorded = re.match(r"(\d+) NCCL operations repeat (\d+) times: .* took ([\d.]+) ms",
                                               result.stdout).groups()
        rows = [tuple(map(float, row)) for row in
                re.findall(r"^\| dgx-h100:\d+ \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| \d+ % "
                           r"\| (\d+) \|", result.stdout, re.M)]
        self.assertEqual(len(rows), len(hosts), result.stdout)
        return int(operations), int(times), float(recorded), rows

    def check(self, recorded, rows):
        self.assertAlmostEqual(rows[0][1] / recorded, 1, delta=TOLERANCE)
        for smaller, larger in zip(rows, rows[1:]):
            self.assertGreater(larger[0], smaller[0])
            self.assertGreater(larger[3], smaller[3])  # NCCL takes longer

    def test_fsdp(self):
        layers, steps = 3, 4
        program = ("mpt_fsdp", "--layers", layers, "--dim", 2048, "--heads", 16, "--vocab", 4096, "--batch", 2,
                   "--seq", 2048, "--steps", steps)
        smaller = self.record(*program)
        operations, times, recorded, rows = self.replay(smaller, 1, 2, 16, options=["--sharded", SHARDED])
        # Gathers before forward and backward, a reduction for each: but the root stays, and the
        # last layer is still there. And the norm of gradients.
        self.assertGreaterEqual(operations, 3 * layers)
        self.assertLessEqual(operations, 3 * (layers + 1) + 2)
        self.assertEqual(times, steps)
        self.check(recorded, rows)
        larger = self.record(*program, hosts=2)
        _, _, recorded, larger_rows = self.replay(larger, 2)
        self.check(recorded, larger_rows)
        self.assertAlmostEqual(rows[1][1] / recorded, 1, delta=TOLERANCE)
        # Both together know what is sharded, also in memory.
        *_, fitted = self.replay(smaller, 2, 16, options=["--second", larger])
        self.assertAlmostEqual(fitted[0][1] / recorded, 1, delta=TOLERANCE)
        self.assertEqual(fitted[0][5], larger_rows[0][5])
        self.assertLess(fitted[1][5], fitted[0][5])

    def test_ddp_on_more_hosts_is_what_they_record(self):
        steps = ("--backend", "nccl", "--steps", 5)
        _, times, recorded, rows = self.replay(self.record("train_ddp", *steps), 1, 2, 8)
        self.assertGreaterEqual(times, 3)
        self.check(recorded, rows)
        _, _, recorded, larger_rows = self.replay(self.record("train_ddp", *steps, hosts=2), 2, 8)
        self.check(recorded, larger_rows)
        self.assertAlmostEqual(rows[1][1] / recorded, 1, delta=TOLERANCE)
        self.assertAlmostEqual(rows[2][1] / larger_rows[1][1], 1, delta=TOLERANCE)


    def test_pipelines_with_more_replicas_are_what_they_record(self):
        program = ("train_3d", "--tp", 1, "--pp", 2, "--layers", 2, "--dim", 1024, "--heads", 8, "--vocab", 8192,
                   "--steps", 4)
        file = self.record(*program, ranks=4)
        _, times, recorded, rows = self.replay(file, 1, 2, 256)
        self.assertEqual(times, 4)
        _, _, larger, _ = self.replay(self.record(*program, hosts=2, ranks=4), 2)
        self.assertAlmostEqual(rows[0][1] / recorded, 1, delta=0.001)
        self.assertAlmostEqual(rows[1][1] / larger, 1, delta=0.01)
        self.assertGreater(larger, recorded)
        self.assertEqual(rows[2][0], 1024)
        # What cannot be scaled is refused, with the reason.
        for options, reason in ((("--scale", "pp=4"), "pp cannot be scaled: with another size each rank computes"),
                                (("--scale", "ep=4"), "there is no axis ep: they are dp=2,pp=2"),
                                (("--axes", "dp=4"), "dp cannot be scaled: ranks 1 and 2 differ along it only"),
                                (("--axes", "dp=8"), "dp=8 are 8 ranks, and 4 were recorded")):
            result = subprocess.run([PHANTORA_REPLAY, file, "--cluster", "dgx-h100:2", *options], text=True,
                                    check=False, capture_output=True, timeout=TIMEOUT_SECONDS)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(reason, result.stderr)

    def test_a_plan_compares_layouts(self):
        result = subprocess.run(
            [PLAN, "--gpus", "64", "--global-batch", "64", "--layouts", "1x2", "2x1", "3x1", "--sequence", "1024",
             "--phantora-run", PHANTORA_RUN, "--phantora-replay", PHANTORA_REPLAY, "--", VENV / "python",
             PROGRAMS["train_3d"], "--tp", "{tp}", "--pp", "{pp}", "--micro-batches", "{micro}", "--layers", "2",
             "--dim", "1024", "--heads", "8", "--vocab", "8192", "--steps", "4"],
            text=True, check=False, capture_output=True, timeout=2 * TIMEOUT_SECONDS,
            env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        print(result.stdout)
        rows = re.findall(r"^\| (\dx\d) \| 32 \| 2 \| ([\d.]+) \|.*\| ([\d,]+) \|$", result.stdout, re.M)
        self.assertEqual({row[0] for row in rows}, {"1x2", "2x1"}, result.stdout)
        for _, milliseconds, tokens in rows:
            self.assertAlmostEqual(float(tokens.replace(",", "")) * float(milliseconds) / 1000 / 1024, 1, places=2)
        self.assertIn("3x1: 64 GPUs are no multiple of 3", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
