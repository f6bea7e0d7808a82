#!/usr/bin/env python3
"""How many lines of a room its tests run.

usage: tools/setup/coverage.py [--fuzz] [--live] FOLDER...        for instance trap/linux trap/time trap/supervisor

Builds the C++ tests below the folders with gcc's --coverage, in a place of their own, runs them and adds up what gcov
says of the folders' files. With --fuzz the tests of test/fuzz, too (and what tools/fuzz.sh has found to reach something
new), and with --live phantora-run with the programs of test/tracees, with hostile ones and with NCCL in a cluster, in
each kind of time. Lines that only processes run which end by a signal are not seen.
"""

import argparse
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
LIVE = ["//tools:phantora-run", "//test/fuzz:hostile_tracee", "//test/nccl_perf"]
# A process that ends by _exit keeps its counts, too.
AT_EXIT = """void __gcov_dump(void);
void __real__exit(int);
void __wrap__exit(int status) { __gcov_dump(); __real__exit(status); }
"""
NOT_OURS = ("_test.cc", "/fake_", "_harness.h")


def bazel(base, *words, capture=False):
    command = ["bazel", f"--output_base={base}", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE if capture else None, text=True)
    return done.stdout.split() if capture else []


def run_live(binaries, tracees, counts):
    """Runs programs under phantora-run; its counts go below `counts`."""
    environment = dict(os.environ, GCOV_PREFIX=str(counts))

    def path(label):
        return str(binaries / label[2:].replace(":", "/"))
    gpus, cluster = ["--gpus", "2"], ["--cluster", "dgx-h100:2", "--ranks-per-host", "2"]
    runs = [(gpus, [path(tracee)]) for tracee in tracees]
    sizes = ["-b", "64K", "-e", "4M", "-f", "8", "-c", "1"]
    runs += [(gpus, [path(LIVE[1]), "--seed", "3", "--count", "20000", "--seconds", "20"]),
             (cluster, [path("//test/nccl_perf:nccl_perf"), "all_reduce", *sizes])]
    for mode in ("real", "measured", "fixed"):
        for options, command in runs:
            words = [path(LIVE[0]), "--no-status", "--host-time", mode, *options, "--", *command]
            try:
                subprocess.run(words, cwd=counts, env=environment, check=False, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
            except subprocess.TimeoutExpired:
                print(f"{command[0]} in {mode} was given up after 120 s")


def run_tests(binaries, tests, counts):
    """Runs the tests; their counts go below `counts`."""
    for test in tests:
        binary = binaries / test[2:].replace(":", "/")
        environment = dict(os.environ, GCOV_PREFIX=str(counts), TEST_TMPDIR=str(counts))
        runfiles = pathlib.Path(f"{binary}.runfiles/phantora")
        words = [binary]
        if test.startswith("//test/fuzz:"):
            name = test.removeprefix("//test/fuzz:").removesuffix("_fuzz_test")
            cache = os.environ.get("PHANTORA_CACHE", os.path.expanduser("~/.cache/phantora"))
            inputs = [os.path.abspath(f"test/fuzz/inputs/{name}"), f"{cache}/fuzz/inputs/{name}"]
            words += ["--runs", "5000", *filter(os.path.isdir, inputs)]
        done = subprocess.run(words, cwd=runfiles if runfiles.is_dir() else binaries, env=environment, check=False,
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", type=lambda folder: folder.rstrip("/"))
    parser.add_argument("--fuzz", action="store_true")
    parser.add_argument("--live", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        base, counts = pathlib.Path(place, "base"), pathlib.Path(place, "counts")
        counts.mkdir()
        source, wrap = pathlib.Path(place, "at_exit.c"), pathlib.Path(place, "at_exit.o")
        source.write_text(AT_EXIT)
        subprocess.run(["gcc", "-c", source, "-o", wrap], check=True)
        FLAGS.extend([f"--linkopt={wrap}", "--linkopt=-Wl,--wrap=_exit"])
        below = " ".join(f"//{folder}/..." for folder in options.folders)
        tests = bazel(base, "query", f"kind(cc_test, set({below}))", capture=True)
        if options.fuzz:
            tests += bazel(base, "query", "filter(_fuzz_test, kind(cc_test, //test/fuzz:all))", capture=True)
        tracees = []
        if options.live:
            tracees = bazel(base, "query", "kind(cc_binary, //test/tracees:all)", capture=True)
        bazel(base, "build", *FLAGS, *tests, *tracees, *(LIVE if options.live else []))
        binaries = pathlib.Path(bazel(base, "info", *FLAGS, "bazel-bin", capture=True)[0])
        run_tests(binaries, tests, counts)
        if options.live:
            run_live(binaries, tracees, counts)
        lines = lines_run(gcov(base, counts), options.folders)
        bazel(base, "clean", "--expunge")
    tell(lines, options.folders)


if __name__ == "__main__":
    main()
