#!/usr/bin/env python3
"""Runs the PyTorch programs of test/programs on one personality and driver.

usage: programs_test.py PHANTORA_RUN GPU DRIVER PROGRAM...

The programs know nothing of Phantora; their Python is the one that tools/setup.sh
installs from PyPI.
"""

import os
import pathlib
import sys

import program_runner

GPUS = {"nccl_init": 2, "train_ddp": 2}
SAYS = {"train_ddp": "2 x NVIDIA"}
TIMEOUT_SECONDS = 120


def cache():
    return pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")


def command_of(name, program):
    python = cache() / "venv/bin/python"
    if name == "train_ddp":
        return [str(python.with_name("torchrun")), "--standalone", "--nproc-per-node", "2", program]
    return [str(python), program]


def main():
    phantora_run, gpu, driver = sys.argv[1:4]
    passed = []
    for program in sys.argv[4:]:
        name = pathlib.Path(program).stem
        passed.append(program_runner.run(
            phantora_run, gpu, driver, GPUS.get(name, 1), name, command_of(name, program),
            SAYS.get(name, "PASS " + name), TIMEOUT_SECONDS))
    program_runner.finish(passed)


if __name__ == "__main__":
    main()
