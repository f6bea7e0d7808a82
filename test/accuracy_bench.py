#!/usr/bin/env python3
"""Compares simulated microbenchmarks and training steps with published measurements; prints a
Markdown table.

usage: bazel run //test:accuracy_bench
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

PHANTORA_RUN, MICROBENCH, RESNET50 = map(os.path.abspath, sys.argv[1:4])
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")

AZURE = "Azure AI benchmarking guide"
NAPKIN = "napkin-math-gpu"
MAMF = "stas00 mamf-finder"
FLASH = "flash-attention PR #2688"
SUPERBENCH = "SuperBench v0.4"
STAS00 = "stas00 nvbandwidth"
# What a published number was used for: a rate was made from it, or it is a row of the database
# (and simulated without the rows all the same).
RATE, ROW, NOTHING = "rate", "row", ""
# Name in microbench.py: TFLOP/s, TB/s or steps/s; source; use.
PUBLISHED = {
    "a100-sxm4-80gb": {
        "bf16 1024x10240x5120": (271.2, MAMF, NOTHING),
        "bf16 8192^3": (289, NAPKIN, RATE),
        "fp16 1024^3": (119.4, AZURE, RATE),
        "fp16 2048^3": (221.8, AZURE, RATE),
        "fp16 4096^3": (228.0, AZURE, ROW),
        "fp16 8192^3": (253.7, AZURE, RATE),
        "fp16 16384^3": (256.5, AZURE, ROW),
        "fp16 1024x2145x1024": (132.8, AZURE, ROW),
        "fp16 6144x12288x12288": (250.8, AZURE, ROW),
        "fp16 802816x192x768": (157.8, AZURE, ROW),
        "tf32 8192^3": (140, NAPKIN, RATE),
        "fp32 8192^3": (19, NAPKIN, NOTHING),
        "fp64 8192^3": (18.95, SUPERBENCH, RATE),
        "copy": (1.750, NAPKIN, RATE),
        "fp32 add": (1.783, NAPKIN, NOTHING),
        "attention 64 8192 forward": (179.5, AZURE, RATE),
        "host to device": (0.026, SUPERBENCH, RATE),
        "device to host": (0.026, SUPERBENCH, RATE),
        "ResNet-50 fp16, batch 192": (1 / 0.1879, SUPERBENCH, NOTHING),
        "ResNet-50 tf32, batch 192": (1 / 0.2252, SUPERBENCH, NOTHING),
    },
    "h100-sxm5-80gb": {
        "bf16 2048x2048x13312": (794.5, MAMF, RATE),
        "bf16 8192^3": (711, NAPKIN, RATE),
        "tf32 8192^3": (375, NAPKIN, NOTHING),
        "fp32 8192^3": (52, NAPKIN, RATE),
        "fp8 1024^3": (274.1, AZURE, ROW),
        "fp8 2048^3": (1011.3, AZURE, ROW),
        "fp8 4096^3": (1216.9, AZURE, ROW),
        "fp8 8192^3": (1290.1, AZURE, ROW),
        "fp8 16384^3": (1377.3, AZURE, RATE),
        "copy": (3.004, NAPKIN, RATE),
        "fp32 add": (3.064, NAPKIN, NOTHING),
        "attention 128 8192 forward": (327.9, AZURE, ROW),
        "attention 64 512 forward": (252, FLASH, RATE),
        "attention 64 1024 forward": (295, FLASH, ROW),
        "attention 64 2048 forward": (308, FLASH, ROW),
        "attention 64 4096 forward": (312, FLASH, RATE),
        "attention 64 8192 forward": (310, FLASH, RATE),
        "attention 64 512 backward": (190, FLASH, NOTHING),
        "attention 64 1024 backward": (239, FLASH, NOTHING),
        "attention 64 2048 backward": (264, FLASH, NOTHING),
        "attention 64 4096 backward": (280, FLASH, NOTHING),
        "attention 64 8192 backward": (299, FLASH, RATE),
        "host to device": (0.056, STAS00, NOTHING),
        "device to host": (0.055, STAS00, RATE),
    },
    "h200-sxm5-141gb": {
        "fp8 1024^3": (290.8, AZURE, ROW),
        "fp8 2048^3": (1013.4, AZURE, ROW),
        "fp8 4096^3": (1249.1, AZURE, ROW),
        "fp8 8192^3": (1300.6, AZURE, ROW),
        "fp8 16384^3": (1366.3, AZURE, RATE),
        "attention 128 8192 forward": (329.3, AZURE, ROW),
        "host to device": (0.05543, STAS00, NOTHING),
        "device to host": (0.05506, STAS00, NOTHING),
    },
}


def run(gpu, options, *program):
    result = subprocess.run([PHANTORA_RUN, "--gpu", gpu, "--host-time", "fixed", *options, "--",
                             PYTHON, *program], check=True, text=True, capture_output=True,
                            timeout=500)
    return json.loads(result.stdout)


def simulated(gpu, options):
    values = run(gpu, options, MICROBENCH)
    for mode, name in (("half", "fp16"), ("tf32", "tf32")):
        if f"ResNet-50 {name}, batch 192" in PUBLISHED[gpu]:
            step = run(gpu, options, RESNET50, "--mode", mode, "--batch", "192", "--steps", "3")
            values[f"ResNet-50 {name}, batch 192"] = 1e3 / step["ms"]
    return values


def main():
    print("| GPU | what | published | model alone | error | with rows | error | source | used for |")
    print("|---|---|---|---|---|---|---|---|---|")
    model_errors, errors = [], []
    for gpu, rows in PUBLISHED.items():
        model, best = simulated(gpu, ["--model-only"]), simulated(gpu, [])
        for name, (published, source, use) in rows.items():
            model_error, error = (values[name] / published - 1 for values in (model, best))
            if use != RATE:
                model_errors.append(abs(model_error))
            if use == NOTHING:
                errors.append(abs(error))
            print(f"| {gpu} | {name} | {published:.4g} | {model[name]:.4g} | {model_error:+.1%} | "
                  f"{best[name]:.4g} | {error:+.1%} | {source} | {use} |", flush=True)
    for what, kind in ((model_errors, "the model alone, of numbers that no rate was made from"),
                       (errors, "with rows, of numbers that were used for nothing")):
        print(f"\n{kind}: {len(what)}, median error {statistics.median(what):.1%}, largest "
              f"{max(what):.1%}.")


if __name__ == "__main__":
    main()
