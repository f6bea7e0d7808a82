#!/usr/bin/env python3
"""What the tests' own kernels computed on two GPUs, launch by launch.

  compare_kernels.py EMULATED.jsonl REAL.jsonl [--write test/kernels/real_h100.txt]

Both are launches.jsonl of test/kernels/recorded.py, of the same code. Launches are matched by case, kernel and what
they were given; prints how many left the same bytes, and what differs: how many elements, and for floats by how many
units in the last place at most. --write puts the digests of those that agree into a file whose comment stays: what the
tests hold the emulated GPU to.
"""

import argparse
import base64
import collections
import json
import pathlib
import sys
import zlib

import numpy as np


def read(path):
    """Launches by (case, module, kernel, inputs): a list each, in order."""
    launches = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            launch = json.loads(line)
            launches[launch["case"], launch["module"], launch["kernel"], tuple(launch["inputs"])].append(launch["outputs"])
    return launches


def array(output):
    return np.frombuffer(zlib.decompress(base64.b85decode(output["data"])), output["dtype"])


def ordered(values):
    """Integers in the order of the floats that have these bits."""
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(f"i{values.dtype.itemsize}").min - bits, bits)


def difference(ours, theirs):
    if "data" not in ours or "data" not in theirs:
        return "too large to say where"
    a, b = array(ours), array(theirs)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
    same = a.view(f"u{a.dtype.itemsize}") == b.view(f"u{a.dtype.itemsize}")
    text = f"{int((~same).sum())} of {a.size} {a.dtype}"
    if a.dtype.kind == "f":
        nan = np.isnan(a) & np.isnan(b)
        if (same | nan).all():
            return text + ", NaNs of other bits"
        off = ~same & ~nan
        text += f", {int(off.sum())} of them no NaNs"
        finite = off & np.isfinite(a) & np.isfinite(b)
        if finite.any():
            text += f", at most {int(np.abs(ordered(a)[finite] - ordered(b)[finite]).max())} ulp"
        if (off & ~finite).any():
            text += ", also infinities or NaNs"
        same = ~off
    at = int(np.argmin(same))
    return text + f"; at {at}: {a[at]!r} emulated, {b[at]!r} real"


def write_agreeing(options):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/kernels"))
    import recorded  # pylint: disable=import-outside-toplevel
    left = []
    for path in (options.emulated, options.real):
        left.append(collections.defaultdict(set))
        with open(path, encoding="utf-8") as file:
            for line in file:
                title, digest = recorded.line_of(json.loads(line))
                left[-1][title].add(digest)
    comment = [line for line in options.write.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    agreeing = sorted(f"{title} {min(digests)}" for title, digests in left[1].items()
                      if len(digests) == 1 and left[0].get(title) == digests)
    options.write.write_text("\n".join([*comment, *agreeing]) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("emulated")
    parser.add_argument("real")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    emulated, real = read(options.emulated), read(options.real)
    count, lines = collections.Counter(), []
    for key in sorted(set(emulated) | set(real)):
        ours, theirs = emulated.get(key, []), real.get(key, [])
        if len(ours) != len(theirs):
            count["on one GPU only"] += abs(len(ours) - len(theirs))
            lines.append(f"{key[0]} {key[2]}: {len(ours)} launches emulated, {len(theirs)} real")
        for mine, its in zip(ours, theirs):
            if [o["digest"] for o in mine] == [o["digest"] for o in its]:
                count["same bytes"] += 1
                continue
            why = [difference(o, t) for o, t in zip(mine, its) if o["digest"] != t["digest"]]
            if len(mine) != len(its):
                why.append(f"{len(mine)} outputs emulated, {len(its)} real")
            only_nans = all("NaNs of other bits" in w for w in why)
            count["other bits of NaNs only" if only_nans else "different"] += 1
            lines.append(f"{key[0]} {key[2]}: {' | '.join(why)}")
    if options.write:
        write_agreeing(options)
    print("\n".join(lines))
    print(", ".join(f"{n} {what}" for what, n in count.most_common()))


if __name__ == "__main__":
    main()
