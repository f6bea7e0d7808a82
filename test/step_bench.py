#!/usr/bin/env python3
"""Measures how fast simulated time passes, and prints a Markdown table.

usage: bazel run //test:step_bench

Real time is taken from when the program's lines arrive: its own clocks are simulated. Medians.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PHANTORA_RUN, GPT2, LAUNCH_SYNC = map(os.path.abspath, sys.argv[1:4])
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")


def lines(command):
    """Lines of output, each with the real time since the one before, in ms."""
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        last = time.perf_counter()
        for line in process.stdout:
            now = time.perf_counter()
            yield line, (now - last) * 1e3
            last = now
    if process.returncode != 0:
        sys.exit("%s: exit status %d" % (command, process.returncode))


def gpt2(layers, mode, steps=12):
    """Kernels of a step, simulated and real ms of a step."""
    with tempfile.TemporaryDirectory() as folder:
        report = [] if mode == "real" else ["--report", folder]
        executes = [] if mode == "real" else ["--execute", "off"]
        steps_seen = [(float(line.split()[2]), real) for line, real in lines(
            [PHANTORA_RUN, "--gpu", "a100-sxm4-80gb", "--host-time", mode, *executes, *report, "--", PYTHON,
             GPT2, "--layers", layers, "--steps", steps])][3:]
        kernels = 0
        if report:
            text = pathlib.Path(folder, "report.json").read_text(encoding="utf-8")
            kernels = json.loads(text)["ranks"][0]["kernels"] / steps
    return kernels, *(statistics.median(values) for values in zip(*steps_seen))


def launch_sync(options, hogs):
    """Real us of a launch and the wait for it."""
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(hogs)]
    try:
        *_, (_, real) = lines([PHANTORA_RUN, *options, "--", PYTHON, LAUNCH_SYNC])
    finally:
        for hog in load:
            hog.kill()
            hog.wait()
    return real / 2000 * 1e3


def main():
    print("| GPT-2, batch 12 x 1024, A100 | kernels | simulated | real | per kernel |")
    print("|---|---|---|---|---|")
    for layers in (6, 12, 24):
        for mode in ("fixed", "measured", "real"):
            kernels, simulated, real = gpt2(layers, mode)
            print("| %d layers, %s | %s | %.1f ms | %.1f ms | %s |"
                  % (layers, mode, "%d" % kernels if kernels else "", simulated, real,
                     "%.0f us" % (real / kernels * 1e3) if kernels else ""), flush=True)
    print("\n| launch + synchronise, real time | idle machine | %d busy processes |" % (
        2 * os.cpu_count()))
    print("|---|---|---|")
    for options in (["--host-time", "fixed"], ["--host-time", "measured"], ["--host-time", "real"]):
        print("| %s | %.0f us | %.0f us |" % (
            options[-1] if options else "real", launch_sync(options, 0),
            launch_sync(options, 2 * os.cpu_count())), flush=True)


if __name__ == "__main__":
    main()
