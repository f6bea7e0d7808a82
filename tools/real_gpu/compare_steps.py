#!/usr/bin/env python3
"""Training steps on a real GPU beside the same steps on the emulated one.

  compare_steps.py STEPS.jsonl[.xz] EMULATED

STEPS is step_kernels.py's output, EMULATED the folder of `real_gpu.sh emulated`: a line of emulated.jsonl and, for the
second table, MODEL.launches.jsonl[.xz] per model. Prints the times and peak memory of both; then, of kernels with the
same name, grid and block, what they took in all, and the sum of how far each was off, by kernel.
"""

import argparse
import collections
import json
import lzma
import pathlib
import re
import subprocess


def lines(path):
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def short(name):
    for part in ("(anonymous namespace)::", "at::native::", "void ", "<unnamed>::"):
        name = name.replace(part, "")
    return name


def demangled(names):
    return subprocess.run(["c++filt"], input="\n".join(names), text=True, check=True,
                          stdout=subprocess.PIPE).stdout.split("\n")


def by_kernel(real, path):
    """Pairs of mean microseconds, by name, grid and block, with how often a step launches it."""
    launches = list(lines(path))
    ours = collections.defaultdict(list)
    for launch, name in zip(launches, demangled([launch.get("symbol", "") for launch in launches])):
        ours[short(name), tuple(launch["grid"]), tuple(launch["block"])].append((launch["time_us"], launch["launches"], launch))
    theirs = collections.defaultdict(list)
    for number, grid, block, nanoseconds, _ in real["kernels"]:
        if grid:
            theirs[short(real["names"][number]), tuple(grid), tuple(block)].append(nanoseconds / 1e3)
    for key, times in theirs.items():
        if key in ours:
            count = sum(n for _, n, _ in ours[key])
            yield (key, sum(times), sum(t * n for t, n, _ in ours[key]) / count * len(times), len(times), ours[key][0][2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", type=pathlib.Path)
    parser.add_argument("emulated", type=pathlib.Path)
    options = parser.parse_args()
    real = {line["model"]: line for line in lines(options.steps) if "ms" in line}
    print("| model | measured, ms | its kernels | host until submitted | simulated, ms | error | peak GiB, measured | simulated |")
    print("|---|---|---|---|---|---|---|---|")
    for line in lines(options.emulated / "emulated.jsonl"):
        there = real.get(line["model"])
        if there is None or line["how"] != "model":
            continue
        print(f"| {line['model']} | {there['ms']:.1f} | {sum(k[3] for k in there['kernels']) / 1e6:.1f} | {there['submit_ms']:.1f} | "
              f"{line['ms']:.1f} | {line['ms'] / there['ms'] - 1:+.1%} | {there['peak_gib']:.2f} | {line['peak_gib']:.2f} |")
    total = collections.defaultdict(lambda: [0, 0, 0, 0])
    for model, there in real.items():
        for path in (*options.emulated.glob(f"{model}.launches.jsonl"), *options.emulated.glob(f"{model}.launches.jsonl.xz")):
            for (name, _, _), measured, priced, count, launch in by_kernel(there, path):
                sums = total[re.sub(r"[<(].*", "", name)[-50:], launch["family"], launch["source"]]
                for i, value in enumerate((measured, priced, abs(priced - measured), count)):
                    sums[i] += value
            break
    print("\n| kernel | family | price | launches | measured, ms | priced | off by, each |")
    print("|---|---|---|---|---|---|---|")
    for (name, family, source), (measured, priced, off, count) in sorted(total.items(), key=lambda item: -item[1][2])[:40]:
        print(f"| {name} | {family} | {source} | {count} | {measured / 1e3:.3f} | {priced / measured - 1:+.0%} | {off / measured:.0%} |")


if __name__ == "__main__":
    main()
