#!/usr/bin/env python3
"""Compares simulated microbenchmarks with published measurements; prints a Markdown table.

usage: bazel run //test:accuracy_bench
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

PHANTORA_RUN, MICROBENCH = map(os.path.abspath, sys.argv[1:3])
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")

AZURE = "Azure AI benchmarking guide"
NAPKIN = "napkin-math-gpu"
MAMF = "stas00 mamf-finder"
FLASH = "flash-attention PR #2688"
# Name in microbench.py: TFLOP/s or TB/s, source, whether a rate in profiles/data/rates was
# made from it.
PUBLISHED = {
    "a100-sxm4-80gb": {
        "bf16 1024x10240x5120": (271.2, MAMF, True),
        "bf16 8192^3": (289, NAPKIN, False),
        "tf32 8192^3": (140, NAPKIN, False),
        "fp32 8192^3": (19, NAPKIN, False),
        "fp16 1024^3": (119.4, AZURE, False),
        "fp16 2048^3": (221.8, AZURE, False),
        "fp16 4096^3": (228.0, AZURE, False),
        "fp16 8192^3": (253.7, AZURE, False),
        "fp16 16384^3": (256.5, AZURE, False),
        "fp16 6144x12288x12288": (250.8, AZURE, False),
        "copy": (1.750, NAPKIN, True),
        "fp32 add": (1.783, NAPKIN, False),
        "attention 64 8192 forward": (179.5, AZURE, True),
    },
    "h100-sxm5-80gb": {
        "bf16 2048x2048x13312": (794.5, MAMF, False),
        "bf16 8192^3": (711, NAPKIN, True),
        "tf32 8192^3": (375, NAPKIN, False),
        "fp32 8192^3": (52, NAPKIN, True),
        "copy": (3.004, NAPKIN, True),
        "fp32 add": (3.064, NAPKIN, False),
        "attention 128 8192 forward": (327.9, AZURE, False),
        "attention 64 8192 forward": (310, FLASH, True),
        "attention 64 8192 backward": (299, FLASH, False),
        "attention 64 2048 forward": (308, FLASH, False),
        "attention 64 2048 backward": (264, FLASH, False),
        "attention 64 512 forward": (252, FLASH, False),
        "attention 64 512 backward": (190, FLASH, False),
    },
    "h200-sxm5-141gb": {"attention 128 8192 forward": (329.3, AZURE, False)},
}


def simulated(gpu):
    result = subprocess.run([PHANTORA_RUN, "--gpu", gpu, "--host-time", "fixed", "--", PYTHON,
                             MICROBENCH], check=True, text=True, capture_output=True, timeout=500)
    return json.loads(result.stdout)


def main():
    print("| GPU | what | published | simulated | error | source |\n|---|---|---|---|---|---|")
    errors = []
    for gpu, rows in PUBLISHED.items():
        values = simulated(gpu)
        for name, (published, source, used) in rows.items():
            error = values[name] / published - 1
            if not used:
                errors.append(abs(error))
            print(f"| {gpu} | {name} | {published:g} | {values[name]:.4g} | {error:+.1%} | {source}"
                  f"{', a rate was made from it' if used else ''} |", flush=True)
    print(f"\nOf the {len(errors)} numbers that no rate was made from: median error "
          f"{statistics.median(errors):.1%}, largest {max(errors):.1%}.")


if __name__ == "__main__":
    main()
