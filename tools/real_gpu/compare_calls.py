#!/usr/bin/env python3
"""Published times of calls beside times measured here: tables of published_calls.py's output.

  compare_calls.py FILE [--list]

Ratios measured / published, per family, manner and band of the published time: calls, median, 10th and 90th
percentile of the ratio, and the median of how far it is from 1.
"""

import argparse
import collections
import json
import statistics

BANDS = ((0, 10, "under 10 us"), (10, 100, "10 to 100 us"), (100, 1000, "0.1 to 1 ms"), (1000, 1e9, "above 1 ms"))


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--list", action="store_true", help="every call, a line each")
    options = parser.parse_args()
    with open(options.file, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    print(lines[0])
    ratios, calls = collections.defaultdict(list), collections.defaultdict(dict)
    for line in lines[1:]:
        if "us" not in line:
            print("failed:", line)
            continue
        calls[line["family"], tuple(line["sizes"]), line["published_us"]][line["manner"]] = line["us"]
        for low, high, band in (*BANDS, (0, 1e9, "all")):
            if low <= line["published_us"] < high:
                ratios[line["family"], line["manner"], band].append(line["us"] / line["published_us"])
    print("| family | manner | published | calls | median | 10th | 90th | off by, median |")
    print("|---|---|---|---|---|---|---|---|")
    for (family, manner, band), values in sorted(ratios.items()):
        print(f"| {family} | {manner} | {band} | {len(values)} | {statistics.median(values):.3f} | "
              f"{percentile(values, 0.1):.3f} | {percentile(values, 0.9):.3f} | "
              f"{statistics.median(abs(v - 1) for v in values):.1%} |")
    if options.list:
        for (family, sizes, published), manners in sorted(calls.items(), key=lambda call: call[0][2]):
            print(family, sizes, f"{published:.1f}", *(f"{k} {v:.1f}" for k, v in manners.items()))


if __name__ == "__main__":
    main()
