#!/usr/bin/env python3
"""The database of measured kernels: profiles/data/GPU/kernels.tsv (see profiles/kernels/kernel_rows.h).

  kernel_rows.py query FILE [WORD...]      rows that have all words in them
  kernel_rows.py merge FILE...             all rows once, sorted; of equal work, those with the
                                           smallest error, with the comments that explain their
                                           sources. Prints to standard output.
  kernel_rows.py diff OLD NEW              what was added, removed, and changed by how much
  kernel_rows.py coverage ROWS LOG...      how much of programs' time ROWS know, by family, and what is
                                           far from all of them; LOG from phantora-run --log-kernels
  kernel_rows.py leave-one-out GPU [ROWS]  what rows are missed by when each in turn is left out, by
                                           family (needs bazel build //tools:kernel_prices)
  kernel_rows.py priced LOG...             what programs launch, as rows at the prices that it had
  kernel_rows.py missing ROWS LOG...       what programs launch that was not measured: from
                                           phantora-run --log-kernels, by share of time; as rows
                                           to be filled in
  kernel_rows.py plot GPU [ROWS] -o FILE   measured against modelled (needs matplotlib, and
                                           bazel build //tools:kernel_prices)
"""

import argparse
import collections
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

COLUMNS = ["family", "precision", "direction", "kernel", "shape", "flops", "bytes", "tiles",
           "time_us", "error", "source"]
KEY = COLUMNS[:7]  # what tells rows apart
KINDS = ["measured", "interpolated", "modelled", "estimated", "placeholder"]
SAME, FARTHEST = 1e-3, 2


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


def write(rows, comments=(), file=None):
    for comment in comments:
        print(comment, file=file)
    print("\t".join(COLUMNS), file=file)
    for row in rows:
        print("\t".join(row[column] for column in COLUMNS), file=file)


def explanations(comments):
    """Comments by the source that they explain, "# source: ..." with the lines that follow; "" for
    what comes before the first."""
    blocks, word = {}, ""
    for comment in comments:
        start = re.match(r"# ([^ :]+): ", comment)
        if start:
            word = start[1]
        blocks.setdefault(word, []).append(comment)
    return blocks


def query(options):
    comments, rows = read(options.file)
    write([row for row in rows if all(any(word == cell or word in cell.split("x")
                                          or word in row["kernel"] for cell in row.values())
                                      for word in options.words)], comments)


def merge(options):
    general, explained, best = {}, {}, {}
    for path in options.files:
        comments, rows = read(path)
        blocks = explanations(comments)
        general |= dict.fromkeys(blocks.pop("", []))
        for word, block in blocks.items():
            if explained.setdefault(word, block) != block:
                sys.exit(f"{path}: the source {word} has another meaning than in the files before it; "
                         "rename one of them")
        for word in {row["source"] for row in rows} - blocks.keys():
            sys.exit(f'{path}: no comment "# {word}: ..." says where these rows come from')
        for row in rows:
            other = best.get(key(row))
            if other is not None and other["time_us"] != row["time_us"]:
                print(f"{' '.join(key(row)[:5])}: {other['time_us']} us ({other['source']}, error "
                      f"{other['error']}) and {row['time_us']} us ({row['source']}, error "
                      f"{row['error']})", file=sys.stderr)
            if other is None or float(row["error"]) < float(other["error"]):
                best[key(row)] = row
    used = {row["source"] for row in best.values()}
    write([best[k] for k in sorted(best)],
          [*general, *(line for word, block in explained.items() if word in used for line in block)])


def diff(options):
    old, new = ({key(row): row for row in read(path)[1]} for path in (options.old, options.new))
    for k in sorted(old.keys() | new.keys()):
        name = " ".join(k[:5])
        if k not in new:
            print(f"- {name}: {old[k]['time_us']} us ({old[k]['source']})")
        elif k not in old:
            print(f"+ {name}: {new[k]['time_us']} us ({new[k]['source']})")
        elif (old[k]["time_us"], old[k]["source"]) != (new[k]["time_us"], new[k]["source"]):
            before, after = float(old[k]["time_us"]), float(new[k]["time_us"])
            print(f"  {name}: {before:g} -> {after:g} us ({after / before - 1:+.1%}; {old[k]['source']} -> "
                  f"{new[k]['source']})")


def shape(launch):
    sizes = [f"{size:.0f}" for size in launch.get("shape", [])]
    while sizes and sizes[-1] == "0":
        sizes.pop()
    return "x".join(sizes) or "-"


def row_of(launch):
    """A line of a kernel log as a row without a time."""
    return {"family": launch["family"], "precision": launch.get("precision", "fp32"),
            "direction": launch.get("direction", "forward"), "kernel": launch["kernel"],
            "shape": shape(launch), "flops": f"{launch['flops']:.0f}", "bytes": f"{launch['bytes']:.0f}",
            "tiles": f"{launch.get('tiles', 0):.0f}", "time_us": "?", "error": "?", "source": "?"}


def launches_of(logs):
    for path in logs:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            launch = json.loads(line)
            if "source" in launch:
                yield launch


def priced(options):
    rows = {}
    for launch in launches_of(options.logs):
        row = row_of(launch) | {"time_us": f"{launch['time_us']:.4g}", "error": f"{launch['error']:.3g}",
                                "source": launch["source"]}
        rows.setdefault(key(row), row)
    write([rows[k] for k in sorted(rows)],
          [f"# {word}: the price that phantora-run gave it" for word in
           sorted({row["source"] for row in rows.values()})])


# As profiles/kernels/kernel_rows.cc has it: who counts as the same work, and how far apart others are.

def group(row, kernel=None):
    precision = "fp16" if row["precision"] == "bf16" else row["precision"]
    return row["family"], precision, row["direction"], kernel or row["kernel"]


def distance(a, b):
    """In powers of two, all sizes together."""
    sizes = [[float(size) for size in row["shape"].split("x")] if row["shape"] != "-" else
             [max(float(row["bytes"]), 1)] for row in (a, b)]
    if a["family"] == "gemm":
        sizes = [sorted(s[:2], reverse=True) + s[2:] for s in sizes]
    return math.sqrt(sum(math.log2(x / y) ** 2 for x, y in zip(*sizes)))


def same_work(a, b):
    what = "flops" if float(b["flops"]) > 0 else "bytes"
    return (distance(a, b) < SAME
            and abs(float(a[what]) - float(b[what])) <= SAME * float(b[what]))


def standing(groups, row):
    """measured, interpolated or neither, and the nearest row with its distance."""
    nearest = None
    for kernel in (row["kernel"], "*"):
        for other in groups.get(group(row, kernel), []):
            if (row["shape"] == "-") != (other["shape"] == "-"):
                continue
            away = distance(other, row)
            if same_work(other, row):
                return "measured", (0, other)
            if nearest is None or away < nearest[0]:
                nearest = away, other
    return ("interpolated" if nearest and nearest[0] <= FARTHEST else None), nearest


def coverage(options):
    groups = collections.defaultdict(list)
    for row in read(options.rows)[1]:
        groups[group(row)].append(row)
    time, outside = collections.Counter(), {}
    for launch in launches_of(options.logs):
        row = row_of(launch)
        spent = launch["time_us"] * launch["launches"]
        known, nearest = standing(groups, row)
        # What other rows the run had does not count here.
        how = known or (launch["source"] if launch["source"] in KINDS[2:] else "modelled")
        time[launch["family"], how] += spent
        if not known:
            entry = outside.setdefault(key(row), [0, row, nearest])
            entry[0] += spent
    total = sum(time.values())
    if not total:
        sys.exit("nothing was launched")
    print("\t".join(["family", "time_ms", *KINDS]))
    families = collections.Counter()
    for (family, _), spent in time.items():
        families[family] += spent
    for family, spent in [*families.most_common(), ("all", total)]:
        parts = [sum(t for (f, k), t in time.items() if k == kind and family in (f, "all")) for kind in KINDS]
        print("\t".join([family, f"{spent / 1e3:.3f}", *(f"{part / spent:.1%}" for part in parts)]))
    print(f"# {len(outside)} kinds of work are further than {FARTHEST} powers of two from all rows:")
    for spent, row, nearest in sorted(outside.values(), key=lambda e: -e[0])[:options.most]:
        near = (f"{nearest[0]:.1f} from {nearest[1]['shape'] if nearest[1]['shape'] != '-' else nearest[1]['bytes'] + ' B'}"
                if nearest else "nothing of the kind is measured")
        print(f"# {spent / total:.1%} {' '.join(key(row)[:5])}, {float(row['bytes']):.4g} B: {near}")


def missing(options):
    time, launches, total = collections.Counter(), {}, 0
    for launch in launches_of(options.logs):
        spent = launch["time_us"] * launch["launches"]
        total += spent
        if launch["source"] == "measured":
            continue
        row = row_of(launch)
        time[key(row)] += spent
        launches[key(row)] = row
    known = {key(row) for row in read(options.rows)[1]}
    rows = [launches[k] for k, _ in time.most_common() if k not in known]
    share = sum(time.values()) / total if total else 0
    print(f"# {len(rows)} kinds of work were not measured: {share:.1%} of {total / 1e3:.3f} ms")
    write(rows)


def prices(options):
    """What kernel_prices prints, as lists of cells."""
    program = options.kernel_prices or (
        pathlib.Path(__file__).resolve().parents[2] / "bazel-bin/tools/kernel_prices")
    printed = subprocess.run([program, options.gpu, *([options.rows] if options.rows else [])],
                             check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    return [line.split("\t") for line in printed[1:]]


def leave_one_out(options):
    errors = collections.defaultdict(lambda: ([], []))
    for cells in prices(options):
        measured, modelled = float(cells[5]), float(cells[6])
        for name in (" ".join(cells[:3]), "all"):
            model, others = errors[name]
            model.append(abs(modelled / measured - 1))
            if cells[7] != "-":
                others.append(abs(float(cells[7]) / measured - 1))
    print("\t".join(("work", "rows", "model_median", "model_worst", "with_neighbours", "others_median",
                     "others_worst")))
    for name in sorted(errors, key=lambda name: (name == "all", name)):
        cells = []
        for values in errors[name]:
            cells += [str(len(values))] + ([f"{statistics.median(values):.1%}", f"{max(values):.1%}"]
                                           if values else ["-", "-"])
        print("\t".join([name, *cells]))


def plot(options):
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("plot needs matplotlib: python3 -m pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    points = collections.defaultdict(list)
    for cells in prices(options):
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
    built = ("--kernel-prices", {"type": pathlib.Path, "help": "the program, if not in bazel-bin"})
    for function, arguments in ((query, [("file", {}), ("words", {"nargs": "*"})]),
                                (merge, [("files", {"nargs": "+"})]),
                                (diff, [("old", {}), ("new", {})]),
                                (coverage, [("rows", {}), ("logs", {"nargs": "+"}),
                                            ("--most", {"type": int, "default": 20})]),
                                (leave_one_out, [("gpu", {}), ("rows", {"nargs": "?"}), built]),
                                (priced, [("logs", {"nargs": "+"})]),
                                (missing, [("rows", {}), ("logs", {"nargs": "+"})]),
                                (plot, [("gpu", {}), ("rows", {"nargs": "?"}), built,
                                        ("-o", {"dest": "output", "default": "prices.png"})])):
        command = commands.add_parser(function.__name__.replace("_", "-"))
        for name, settings in arguments:
            command.add_argument(name, **settings)
        command.set_defaults(run=function)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
