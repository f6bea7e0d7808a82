#!/usr/bin/env python3
"""Runs the driver-API programs of test/tracees on one personality and driver.

usage: conformance_test.py PHANTORA_RUN GPU DRIVER HOST_TIME[+checked] PROGRAM...
"""

import os
import sys

import program_runner

# What each program needs beyond one GPU, and what the personality must report.
GPUS = {"peer": 2, "multi_gpu": 16, "visible_devices": 4, "multi_process": 8}
ARGUMENTS = {
    "multi_gpu": ["--gpus", "16"],
    "multi_process": ["--processes", "8"],
}
# Microseconds that a kernel takes.
ENGINE_SHARING_KERNEL = "20000"
EXPECTED = {
    "a100-sxm4-80gb": "sm=108,cc=8.0,mem_gib_min=79,name=NVIDIA A100-SXM4-80GB",
    "h100-sxm5-80gb": "sm=132,cc=9.0,mem_gib_min=79,name=NVIDIA H100 80GB HBM3",
    "h200-sxm5-141gb": "sm=132,cc=9.0,mem_gib_min=139,name=NVIDIA H200",
}
# Longer than the programs' own watchdog.
TIMEOUT_SECONDS = 150


def main():
    phantora_run, gpu, driver, mode = sys.argv[1:5]
    host_time, _, checked = mode.partition("+")
    passed = []
    for program in sys.argv[5:]:
        name = os.path.basename(program)
        command = [program, *ARGUMENTS.get(name, [])]
        if name == "init_attributes":
            command += ["--expect", EXPECTED[gpu]]
        options = ["--host-time", host_time, *(["--check-gpu-memory"] if checked else [])]
        if name == "engine_sharing":
            options += ["--kernel-time", ENGINE_SHARING_KERNEL]
            command += ["--kernel-us", ENGINE_SHARING_KERNEL]
            if host_time == "fixed":
                command.append("--simulated")
        passed.append(program_runner.run(phantora_run, gpu, driver, GPUS.get(name, 1), name,
                                         command, "PASS " + name, TIMEOUT_SECONDS,
                                         options))
    program_runner.finish(passed)


if __name__ == "__main__":
    main()
