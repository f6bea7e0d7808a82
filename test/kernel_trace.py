"""Runs a Python program in simulated time and reads its kernels from the trace."""

import json
import os
import pathlib
import subprocess
import tempfile

PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
PAUSE_US = 4e6  # programs sleep for longer between operations


def run(phantora_run, gpu, *program, timeout=280):
    """What the program prints, its kernels and copies as the trace has them, and what
    phantora-run says."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.json")
        result = subprocess.run(
            [phantora_run, "--gpu", gpu, "--host-time", "fixed", "--trace", trace, "--", PYTHON,
             *program], check=False, text=True, capture_output=True, timeout=timeout,
            env=dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"),
                     TRITON_CACHE_DIR=os.path.join(folder, "triton")))
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        work = [event["args"] | event for event in json.loads(trace.read_text(encoding="utf-8"))
                if event.get("cat") in ("kernel", "copy")]
    return result.stdout, sorted(work, key=lambda event: event["ts"]), result.stderr


def by_operation(expected, work):
    """The work of each of the operations in `expected`. A program sets each up, sleeps, runs it
    once more and sleeps again."""
    groups, last = [], -PAUSE_US
    for event in work:
        if event["ts"] - last > PAUSE_US:
            groups.append([])
        groups[-1].append(event)
        last = max(last, event["ts"] + event["dur"])
    if len(groups) != 2 * len(expected):
        raise AssertionError(f"{len(groups)} groups of kernels for {len(expected)} operations")
    return dict(zip(expected, groups[1::2]))
