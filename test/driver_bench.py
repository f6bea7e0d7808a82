#!/usr/bin/env python3
"""Measures what the driver costs under Phantora; prints a Markdown table.

usage: bazel run //test:driver_bench [-- --rounds N --driver VERSION --gpu NAME]

Medians over rounds, each round a fresh process. Run it on an idle machine.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

# What the project aims at: name in launch_bench's output, text, unit, target.
ROWS = [
    ("init_ms", "cuInit", "ms", "<= 15"),
    ("context_ms", "cuCtxCreate", "ms", "<= 60"),
    ("launch_burst_us", "asynchronous launch, burst of 500", "us", "<= 3"),
    ("launch_sustained_us", "asynchronous launch, 20,000 in a row", "us", "<= 5"),
    ("launch_sync_us", "launch + synchronise", "us", "<= 10"),
    ("event_sync_us", "event record + synchronise", "us", ""),
    ("dtoh_4_us", "copy of 4 bytes, device to host", "us", ""),
    ("alloc_free_4mib_us", "cuMemAlloc + cuMemFree, 4 MiB", "us", ""),
    ("htod_pageable_gbs", "host to device, 256 MiB, pageable, fresh memory", "GB/s", ">= 2"),
    ("htod_pageable_again_gbs", "the same again", "GB/s", ">= 2"),
    ("htod_pinned_gbs", "host to device, 256 MiB, pinned", "GB/s", ">= 2"),
]


def launch_bench(phantora_run, program, options):
    output = subprocess.run([phantora_run, *options, "--", program], check=True,
                            capture_output=True, text=True).stdout
    return json.loads(re.search(r"^\{.*\}$", output, re.M).group(0))


def seconds(command):
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def main():
    phantora_run, program = sys.argv[1:3]
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--driver", default="550.163.01")
    parser.add_argument("--gpu", default="h100-sxm5-80gb")
    arguments = parser.parse_args(sys.argv[3:])
    options = ["--driver", arguments.driver, "--gpu", arguments.gpu, "--host-time", "real"]

    rounds = [launch_bench(phantora_run, program, options) for _ in range(arguments.rounds)]
    print("| driver %s, %s | median | worst | aim |\n|---|---|---|---|"
          % (arguments.driver, arguments.gpu))
    for key, text, unit, aim in ROWS:
        values = [r[key] for r in rounds]
        worst = min(values) if unit == "GB/s" else max(values)
        print("| %s | %.1f %s | %.1f | %s |"
              % (text, statistics.median(values), unit, worst, aim))
    rss = [r["rss_context_mib"] - r["rss_before_mib"] for r in rounds]
    print("| memory of a context, beyond the program's own | %.1f MiB | %.1f | <= 40 |"
          % (statistics.median(rss), max(rss)))

    cache = os.environ.get("PHANTORA_CACHE", os.path.expanduser("~/.cache/phantora"))
    python = os.path.join(cache, "venv/bin/python")
    if not os.path.exists(python):
        print("(no %s: run tools/setup.sh for the import-time row)" % python)
        return
    command = [python, "-c", "import torch"]
    seconds(command)  # warms the page cache
    # Natively and under Phantora in turn, so that both see the same machine.
    pairs = [(seconds(command), seconds([phantora_run, *options, "--", *command]))
             for _ in range(arguments.rounds)]
    native = statistics.median(pair[0] for pair in pairs)
    ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
    print("| `import torch` (natively %.2f s) | %.2f x | %.2f | <= 1.15 |"
          % (native, ratio, max(pair[1] / pair[0] for pair in pairs)))


if __name__ == "__main__":
    main()
