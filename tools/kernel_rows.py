#!/usr/bin/env python3
"""The database of measured kernels: profiles/data/GPU/kernels.tsv (see profiles/kernel_rows.h).

  kernel_rows.py query FILE [WORD...]      rows that have all words in them
  kernel_rows.py merge FILE...             all rows once, sorted; of equal work, those with the
                                           smallest error. Prints to standard output.
  kernel_rows.py diff OLD NEW              what was added, removed, and changed by how much
  kernel_rows.py missing ROWS LOG...       what programs launch that was not measured: from
                                           phantora-run --log-kernels, by share of time; as rows
                                           to be filled in
  kernel_rows.py plot GPU [ROWS] -o FILE   measured against modelled (needs matplotlib, and
                                           bazel build //tools:kernel_prices)
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

COLUMNS = ["family", "precision", "direction", "kernel", "shape", "flops", "bytes", "tiles",
           "time_us", "error", "source"]
KEY = COLUMNS[:7]  # what tells rows apart


def read(path):
    """Comments, and rows as dicts by column."""
    comments, rows, header = [], [], None
    for number, line in enumerate(pathlib.Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            comments.append(line)
        elif header is None:
            header = line.split("\t")
            if header != COLUMNS:
                sys.exit(f"{path}:{number}: the columns must be {' '.join(COLUMNS)}")
        elif line:
            cells = line.split("\t")
            if len(cells) != len(COLUMNS):
                sys.exit(f"{path}:{number}: needs {len(COLUMNS)} columns")
            rows.append(dict(zip(COLUMNS, cells)))
    return comments, rows


def key(row):
    return tuple(row[column] for column in KEY)


def write(rows, comments=()):
    for comment in comments:
        print(comment)
    print("\t".join(COLUMNS))
    for row in rows:
        print("\t".join(row[column] for column in COLUMNS))


def query(options):
    comments, rows = read(options.file)
    write([row for row in rows if all(any(word == cell or word in cell.split("x")
                                          or word in row["kernel"] for cell in row.values())
                                      for word in options.words)], comments)


def merge(options):
    comments, best = {}, {}
    for path in options.files:
        more, rows = read(path)
        comments |= dict.fromkeys(more)
        for row in rows:
            other = best.get(key(row))
            if other is not None and other["time_us"] != row["time_us"]:
                print(f"{' '.join(key(row)[:5])}: {other['time_us']} us ({other['source']}, error "
                      f"{other['error']}) and {row['time_us']} us ({row['source']}, error "
                      f"{row['error']})", file=sys.stderr)
            if other is None or float(row["error"]) < float(other["error"]):
                best[key(row)] = row
    write([best[k] for k in sorted(best)], comments)


def diff(options):
    old, new = ({key(row): row for row in read(path)[1]} for path in (options.old, options.new))
    for k in sorted(old.keys() | new.keys()):
        name = " ".join(k[:5])
        if k not in new:
            print(f"- {name}: {old[k]['time_us']} us")
        elif k not in old:
            print(f"+ {name}: {new[k]['time_us']} us")
        elif old[k]["time_us"] != new[k]["time_us"]:
            before, after = float(old[k]["time_us"]), float(new[k]["time_us"])
            print(f"  {name}: {before:g} -> {after:g} us ({after / before - 1:+.1%})")


def shape(launch):
    sizes = [f"{size:.0f}" for size in launch.get("shape", [])]
    while sizes and sizes[-1] == "0":
        sizes.pop()
    return "x".join(sizes) or "-"


def missing(options):
    time, launches, total = collections.Counter(), {}, 0
    for path in options.logs:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            launch = json.loads(line)
            if "source" not in launch:
                continue
            spent = launch["time_us"] * launch["launches"]
            total += spent
            if launch["source"] == "measured":
                continue
            row = {"family": launch["family"], "precision": launch.get("precision", "fp32"),
                   "direction": launch.get("direction", "forward"), "kernel": launch["kernel"],
                   "shape": shape(launch), "flops": f"{launch['flops']:.0f}",
                   "bytes": f"{launch['bytes']:.0f}", "tiles": f"{launch.get('tiles', 0):.0f}",
                   "time_us": "?", "error": "?", "source": "?"}
            time[key(row)] += spent
            launches[key(row)] = row
    known = {key(row) for row in read(options.rows)[1]}
    rows = [launches[k] for k, _ in time.most_common() if k not in known]
    share = sum(time.values()) / total if total else 0
    print(f"# {len(rows)} kinds of work were not measured: {share:.1%} of {total / 1e3:.3f} ms")
    write(rows)


def plot(options):
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("plot needs matplotlib: python3 -m pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    prices = pathlib.Path(__file__).parent.parent / "bazel-bin/tools/kernel_prices"
    printed = subprocess.run([prices, options.gpu, *([options.rows] if options.rows else [])],
                             check=True, text=True, capture_output=True).stdout.splitlines()
    points = collections.defaultdict(list)
    for line in printed[1:]:
        cells = line.split("\t")
        points[f"{cells[0]} {cells[1]}"].append((float(cells[5]), float(cells[6]), cells[7]))
    figure, axes = pyplot.subplots(figsize=(7, 7))
    for name, values in sorted(points.items()):
        dots = axes.scatter([v[0] for v in values], [v[1] for v in values], label=name, s=24)
        near = [(v[0], float(v[2])) for v in values if v[2] != "-"]
        axes.scatter([v[0] for v in near], [v[1] for v in near], marker="x", s=24,
                     color=dots.get_facecolor())
    everything = [v for values in points.values() for v in values]
    ends = [min(v[0] for v in everything) / 2, max(v[0] for v in everything) * 2]
    axes.plot(ends, ends, color="gray", linewidth=1)
    axes.fill_between(ends, [e * 0.85 for e in ends], [e * 1.15 for e in ends], color="gray",
                      alpha=0.15, label="15 %")
    axes.set(xscale="log", yscale="log", xlabel="measured, us",
             ylabel="modelled, us (crosses: with the other rows)", title=options.gpu)
    axes.legend()
    figure.savefig(options.output, dpi=120)
    print(f"wrote {options.output}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, arguments in ((query, [("file", {}), ("words", {"nargs": "*"})]),
                                (merge, [("files", {"nargs": "+"})]),
                                (diff, [("old", {}), ("new", {})]),
                                (missing, [("rows", {}), ("logs", {"nargs": "+"})]),
                                (plot, [("gpu", {}), ("rows", {"nargs": "?"}),
                                        ("-o", {"dest": "output", "default": "prices.png"})])):
        command = commands.add_parser(function.__name__)
        for name, settings in arguments:
            command.add_argument(name, **settings)
        command.set_defaults(run=function)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
