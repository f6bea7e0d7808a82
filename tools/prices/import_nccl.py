#!/usr/bin/env python3
"""Makes fabric/data/in_a_host and fabric/data/held_out from the NCCL tables of ai-dynamo/aiconfigurator.

usage: import_nccl.py REPOSITORY [--commit COMMIT] [--root ROOT]

REPOSITORY is a clone (or its git directory) of github.com/ai-dynamo/aiconfigurator; --commit (HEAD) is
what is read of it. Times are those of nccl-tests in one process, out of place, in microseconds, by bytes
of the larger of what a rank sends and receives. Where a size was measured more than once, the median is
taken; what only moves bytes has no type, so tables of both types are taken together. The tables of one
folder are for prices (fabric/data/in_a_host); those of another are for checking only
(fabric/data/held_out), and where a GPU has only one, the md5 of a point's columns decides: seven of ten
are for prices. Folders are named after versions of NCCL, but rows in two of them name another version:
that is told.

Needs what import_aiconfigurator.py needs.
"""

import argparse
import pathlib
import statistics

from import_aiconfigurator import DATA, URL, git, is_for_fitting, read_table

# Theirs; ours; a cluster of one such machine; the table for prices, and the one for checking.
GPUS = [
    ("a100_sxm", "a100-sxm4-80gb", "dgx-a100:1", "2.27.3", None),
    ("h100_sxm", "h100-sxm5-80gb", "dgx-h100:1", "2.27.3", "2.29.2"),
    ("h200_sxm", "h200-sxm5-141gb", "dgx-h200:1", "2.26.2", "2.29.2"),
]
OPERATIONS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
REDUCES = ("all_reduce", "reduce_scatter")
BYTES = {"half": 2, "int8": 1}


def points_of(table):
    """{(operation, type or "", ranks): {bytes: [us, (columns)]}}"""
    found = {}
    for operation, kind, ranks, elements, ms in zip(
        table["op_name"], table["nccl_dtype"], table["num_gpus"], table["message_size"], table["latency"]
    ):
        group = found.setdefault((operation, kind if operation in REDUCES else "", ranks), {})
        point = group.setdefault(elements * BYTES[kind], ([], (operation, kind, ranks, elements)))
        point[0].append(ms * 1e3)
    return found


def write(path, about, tables, cluster):
    lines = [f"# {line}".rstrip() for line in about]
    for (operation, kind, ranks), points in sorted(tables.items()):
        if not points:
            continue
        name = f"{ranks} GPUs, {OPERATIONS[operation]}" + (f" of {kind}" if kind else "")
        lines += ["", f"table {name}", f"cluster {cluster}", f"op {OPERATIONS[operation]}", f"ranks {ranks}"]
        lines += [f"type {kind}"] if kind else []
        lines += [f"{size}\t{statistics.median(us):.4g}" for size, (us, _) in sorted(points.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    changed = "" if not path.exists() else ", unchanged" if path.read_text() == text else ", changed"
    path.write_text(text)
    print(f"{path}: {sum(len(points) for points in tables.values())} rows{changed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    commit = git(options.repository, "rev-parse", options.commit).decode().strip()
    for theirs, ours, cluster, fitted, checked in GPUS:
        for version, folder in ((fitted, "in_a_host"), (checked or fitted, "held_out")):
            path = f"{DATA}/{theirs}/comm/nccl/{version}/nccl_perf.parquet"
            table = read_table(options.repository, commit, path)
            named = sorted(set(table["version"]))
            if named != [version]:
                print(f"{path}: its rows name NCCL {', '.join(named)}")
            tables = points_of(table)
            if checked is None:
                tables = {
                    key: {
                        size: point
                        for size, point in points.items()
                        if is_for_fitting(point[1]) == (folder == "in_a_host")
                    }
                    for key, points in tables.items()
                }
            about = [
                f"{URL} {commit}",
                path,
                "Apache-2.0, NVIDIA CORPORATION & AFFILIATES. Made by tools/prices/import_nccl.py.",
                "Bytes of the larger of what a rank sends and receives, then microseconds.",
            ]
            if folder == "held_out":
                about.append("For checking: nothing else may be made from these.")
            write(options.root / "fabric" / "data" / folder / f"{ours}.tsv", about, tables, cluster)


if __name__ == "__main__":
    main()
