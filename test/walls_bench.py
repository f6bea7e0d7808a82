#!/usr/bin/env python3
"""Measures what the wall around real devices costs a trapped call: with Landlock, and without; prints a Markdown table.

usage: bazel run //test:walls_bench [-- --rounds N]

Runs with and without alternate. Both are under a seccomp filter of the harness, since that is how Landlock is switched
off. Run it on an idle machine.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys

ROWS = [
    ("open_close_us", "open and close a file"),
    ("stat_us", "newfstatat of a file"),
    ("driver_us", "ioctl of /dev/nvidiactl"),
    ("native_us", "getppid, which is not trapped"),
]


def main():
    phantora_run, restrict, program = sys.argv[1:4]
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args(sys.argv[4:])

    def measure(limits):
        words = [restrict, *limits, "--", phantora_run, "--no-status", "--host-time", "real", "--", program, "/etc/passwd"]
        output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return json.loads(re.search(r"^\{.*\}$", output, re.M).group(0))

    pairs = [(measure([]), measure(["--no-landlock"])) for _ in range(arguments.rounds)]
    print("| us, medians of %d | with | without | with / without |\n|---|---|---|---|" % arguments.rounds)
    for key, text in ROWS:
        on, off = (statistics.median(pair[side][key] for pair in pairs) for side in (0, 1))
        ratio = statistics.median(pair[0][key] / pair[1][key] for pair in pairs)
        print(f"| {text} | {on:.2f} | {off:.2f} | {100 * ratio - 100:+.1f} % |")


if __name__ == "__main__":
    main()
