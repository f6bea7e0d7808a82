#!/usr/bin/env python3
"""Makes profiles/data/<gpu>/peers.tsv, kernels by which GPUs read each other, from ai-dynamo/aiconfigurator.

usage: import_peers.py REPOSITORY [--commit COMMIT] [--root ROOT]

REPOSITORY is a clone (or its git directory) of github.com/ai-dynamo/aiconfigurator; --commit (HEAD) is
what is read of it. Rows are vLLM's own all-reduce in a CUDA graph, one after the other, by GPUs and bytes
of the message: of one version (FITTED). What a later one (CHECKED) was measured at says how far two
campaigns differ, and is printed; nothing is made from it.

Needs what import_aiconfigurator.py needs.
"""

import argparse
import pathlib
import statistics

from import_aiconfigurator import DATA, GPUS, URL, git, read_table

FITTED, CHECKED = "0.14.0", "0.24.0"
TABLE = "{}/{}/comm/vllm/{}/custom_allreduce_perf.parquet"
# Beyond it vLLM leaves messages to NCCL (vllm/distributed/device_communicators/custom_all_reduce.py).
MOST_BYTES = 8 << 20
HEADER = "family\tprecision\tdirection\tkernel\tshape\tflops\tbytes\ttiles\ttime_us\terror\tsource"
ERROR = 0.05


def points_of(table):
    """{(GPUs, bytes): us}"""
    found = {}
    for kind, gpus, size, ms in zip(
        table["kernel_source"], table["num_gpus"], table["message_size"], table["latency"]
    ):
        if kind == "vLLM_custom_graph" and size <= MOST_BYTES:
            found.setdefault((gpus, size), []).append(ms * 1e3)
    return {key: statistics.median(us) for key, us in sorted(found.items())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    commit = git(options.repository, "rev-parse", options.commit).decode().strip()
    for theirs, (ours, _) in GPUS.items():
        path = TABLE.format(DATA, theirs, FITTED)
        table = read_table(options.repository, commit, path)
        if table is None:
            continue
        points = points_of(table)
        lines = [
            f"# {URL} {commit}",
            f"# {path}",
            "# Apache-2.0, NVIDIA CORPORATION & AFFILIATES. Made by tools/prices/import_peers.py.",
            "# Shape: GPUs, bytes of the message. The error is what two campaigns differ by, about.",
            HEADER,
        ]
        lines += [
            f"peers\tfp32\tforward\t*\t{gpus}x{size}\t0\t{2 * size}\t0\t{us:.4g}\t{ERROR}\taiconfigurator"
            for (gpus, size), us in points.items()
        ]
        out = options.root / "profiles" / "data" / ours / "peers.tsv"
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{out}: {len(points)} rows")
        later = read_table(options.repository, commit, TABLE.format(DATA, theirs, CHECKED))
        if later is not None:
            misses = sorted(abs(points[key] / us - 1) for key, us in points_of(later).items() if key in points)
            print(f"  {CHECKED} differs by {statistics.median(misses):.1%}, 90th {misses[int(len(misses) * 0.9)]:.1%}")


if __name__ == "__main__":
    main()
