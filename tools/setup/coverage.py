#!/usr/bin/env python3
"""How many lines of a room its unit tests run.

usage: tools/setup/coverage.py FOLDER...        for instance trap/linux trap/time trap/supervisor

Builds the C++ tests below the folders with gcc's --coverage, in a place of their own, runs them and adds up what gcov
says of the folders' files. Lines that only processes run which end by _exit or a signal are not seen.
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-c", "dbg", "--copt=--coverage", "--linkopt=--coverage", "--strip=never", "--spawn_strategy=local",
         "--disk_cache="]  # which would not keep what gcov needs
NOT_OURS = ("_test.cc", "/fake_", "_harness.h")


def bazel(base, *words, capture=False):
    command = ["bazel", f"--output_base={base}", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE if capture else None, text=True)
    return done.stdout.split() if capture else []


def run_tests(base, tests, counts):
    """Runs the tests; their counts go below `counts`."""
    binaries = pathlib.Path(bazel(base, "info", *FLAGS, "bazel-bin", capture=True)[0])
    for test in tests:
        binary = binaries / test[2:].replace(":", "/")
        environment = dict(os.environ, GCOV_PREFIX=str(counts), TEST_TMPDIR=str(counts))
        runfiles = pathlib.Path(f"{binary}.runfiles/phantora")
        done = subprocess.run([binary], cwd=runfiles if runfiles.is_dir() else binaries, env=environment, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            print(f"{test} failed; what it ran counts all the same")


def gcov(base, counts):
    """Yields gcov's documents, one for each object file that was run."""
    root = pathlib.Path(bazel(base, "info", "execution_root", capture=True)[0])
    for data in counts.rglob("*.gcda"):
        # Bazel compiles in /proc/self/cwd.
        notes = root / data.relative_to(counts / "proc/self/cwd").with_suffix(".gcno")
        shutil.copy(notes, data.with_suffix(".gcno"))
        done = subprocess.run(["gcov", "--json-format", "--stdout", data], check=True, capture_output=True)
        yield json.loads(done.stdout)


def lines_run(documents, folders):
    """file: {line: how often}"""
    lines = collections.defaultdict(dict)
    for document in documents:
        for file in document["files"]:
            name = file["file"].split("/proc/self/cwd/")[-1]
            if not name.startswith(tuple(folder + "/" for folder in folders)) or any(n in name for n in NOT_OURS):
                continue
            for line in file["lines"]:
                number = line["line_number"]
                lines[name][number] = max(lines[name].get(number, 0), line["count"])
    return lines


def tell(lines, folders):
    def row(name, counts):
        run = sum(count > 0 for count in counts)
        print(f"{100 * run / max(len(counts), 1):5.1f} %  {run:5d} of {len(counts):5d}  {name}")
    for name in sorted(lines, key=lambda name: sum(map(bool, lines[name].values())) / len(lines[name])):
        row(name, lines[name].values())
    print()
    for folder in folders:
        row(folder, [count for name in lines if name.startswith(folder + "/") for count in lines[name].values()])
    row("all", [count for counts in lines.values() for count in counts.values()])


def main():
    folders = [folder.rstrip("/") for folder in sys.argv[1:]]
    if not folders:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as place:
        base, counts = pathlib.Path(place, "base"), pathlib.Path(place, "counts")
        tests = bazel(base, "query", f"kind(cc_test, set({' '.join(f'//{folder}/...' for folder in folders)}))",
                      capture=True)
        bazel(base, "build", *FLAGS, *tests)
        run_tests(base, tests, counts)
        lines = lines_run(gcov(base, counts), folders)
        bazel(base, "clean", "--expunge")
    tell(lines, folders)


if __name__ == "__main__":
    main()
