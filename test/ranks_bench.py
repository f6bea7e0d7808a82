#!/usr/bin/env python3
"""What ranks cost on this machine: the time until they train, the time of a step, and memory.

usage: ranks_bench.py PHANTORA_RUN TRAIN_DDP [RANKS...]     (bazel run //test:ranks_bench -- 1 2 4 8)

A small GPT with DistributedDataParallel over NCCL, a process per GPU of emulated DGX H100. Real seconds: until
rank 0's second step has ended, and the median of the steps after it. Memory in MiB, when the last step has
ended: private to a rank (mean), and the least that the machine had left. RUN_OPTIONS in the environment: more options
of phantora-run, as "--share-memory on".
"""

import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

PHANTORA_RUN, TRAIN = map(os.path.abspath, sys.argv[1:3])
PYTHON = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora") / "venv/bin/python"
STEPS = 12
GPUS_PER_HOST = 8
LEAST_LEFT = 600  # MiB: with less, the run is ended


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) >> 10


def private_memory():
    """Of each rank, MiB."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            if command[0] != os.fsencode(PYTHON) or os.fsencode(TRAIN) not in command:
                continue
            lines = (process / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has ended
        found += [int(line.split()[1]) >> 10 for line in lines if line.startswith("Private_Dirty:")]
    return found


def measure(ranks):
    hosts = -(-ranks // GPUS_PER_HOST)
    begin = time.monotonic()
    process = subprocess.Popen(
        [PHANTORA_RUN, "--no-status", *os.environ.get("RUN_OPTIONS", "").split(), "--cluster", f"dgx-h100:{hosts}",
         "--ranks-per-host", str(min(ranks, GPUS_PER_HOST)),
         "--", PYTHON, "-u", TRAIN, "--backend", "nccl", "--steps", str(STEPS)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, OMP_NUM_THREADS="1"))
    left = [available()]

    def watch():
        while process.poll() is None:
            left.append(available())
            if left[-1] < LEAST_LEFT:
                process.terminate()
            time.sleep(0.5)

    threading.Thread(target=watch, daemon=True).start()
    ends, memory, output = [], [], []
    for line in process.stdout:
        output.append(line)
        if line.startswith("[rank 0] step"):
            ends.append(time.monotonic())
            if len(ends) == STEPS:
                memory = private_memory()
    if process.wait() != 0 or len(ends) < STEPS:
        why = "out of memory" if min(left) < LEAST_LEFT else "".join(output[-5:])
        return f"{ranks:5d}   failed: {why}"
    steps = [b - a for a, b in zip(ends[1:], ends[2:])]
    mean = f"{statistics.mean(memory):.0f}" if memory else "?"
    return (f"{ranks:5d} {ends[1] - begin:10.1f} {statistics.median(steps):10.3f} {mean:>10} "
            f"{left[0] - min(left):10d} {min(left):10d}")


def main():
    print("ranks   until 2nd   per step    private  all took   was left\n"
          "               s          s        MiB       MiB        MiB", flush=True)
    for ranks in map(int, sys.argv[3:] or ["1", "2", "4", "8"]):
        print(measure(ranks), flush=True)


if __name__ == "__main__":
    main()
