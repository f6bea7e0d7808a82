"""Cases, each in a process of its own; the same program, outside, starts phantora-run and judges."""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np

import recorded

CASES = []


class Wrong(Exception):
    """A result that is not the expected one."""


def case(function=None, *, only=None, result="ok", seconds=240):
    """Registers a case: `only` an architecture; `result` how its process is to end."""

    def register(function):
        CASES.append((function.__name__, function, only, result, seconds))
        return function

    return register(function) if function else register


def check(name, got, expected, tolerance=None):
    """Equal, NaNs like each other; or within an error of `tolerance` of max(|expected|, 1)."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        raise Wrong(f"{name}: shape {got.shape}, not {expected.shape}")
    if tolerance is None:
        same = got == expected
    else:
        difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        same = difference <= tolerance * np.maximum(np.abs(expected.astype(np.float64)), 1)
        same |= got == expected
    if got.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(expected)
    if not same.all():
        at = tuple(int(x) for x in np.argwhere(~same)[0])
        raise Wrong(
            f"{name}: {int((~same).sum())} of {same.size}, at {at}: {got[at]!r}, not {expected[at]!r}"
        )


def run_case(name, function, gpu_of, emit):
    """In the child: what it says goes to the parent as lines."""
    recorded.case = name
    try:
        results = function(gpu_of())
        if results is not None:
            for op, failure in results:
                emit(dict(case=name, op=op, wrong=failure))
        emit(dict(case=name, end="ok"))
    except Wrong as failure:
        emit(dict(case=name, end="wrong", why=str(failure)))
    except Exception as failure:  # pylint: disable=broad-except
        code = getattr(failure, "text", None)
        emit(dict(case=name, end=code or "error", why=traceback.format_exc()[-700:].replace('\n', ' / ')))


def inside(pattern, gpu_of, architecture):
    def emit(what):
        # One write: the lines of processes do not mix.
        os.write(1, ("@@" + json.dumps(what) + "\n").encode())

    for name, function, only, _, seconds in CASES:
        if only and only != architecture or not re.search(pattern, name):
            continue
        started = os.times().elapsed
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            run_case(name, function, gpu_of, emit)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        emit(dict(case=name, pid=child, status=status, at=time.perf_counter()))


def personality(gpu, folder):
    """What phantora-run is given for it. `sm86` is no product: an A100 that says it is of that generation."""
    if gpu != "sm86":
        return gpu
    source = os.path.join(os.path.dirname(__file__), "../../profiles/data/a100-sxm4-80gb/personality.json")
    with open(source) as file:
        text = file.read()
    path = os.path.join(folder, "sm86.json")
    with open(path, "w") as file:
        file.write(text.replace('"compute_capability": [8, 0]', '"compute_capability": [8, 6]'))
    return path


def outside(program, options, gpu):
    """Runs the cases on an emulated GPU; a list of (case, op, verdict, why)."""
    with tempfile.TemporaryDirectory() as folder:
        return run_outside(program, options, gpu, personality(gpu, folder))


def run_outside(program, options, gpu, given):
    command = [options.phantora, "--gpu", given, "--host-time", "fixed", "--no-status", "--verbose"]
    command += ["--execute", str(options.execute), "--", sys.executable, program, "--inside"]
    command += ["--gpu", gpu, "--only", options.only]
    real = os.path.join(os.path.dirname(program), f"real_{gpu[:4]}.txt")
    real = real if os.path.exists(real) and program.endswith("nvrtc_kernels.py") else None
    with tempfile.TemporaryFile("w+", errors="replace") as log, tempfile.TemporaryDirectory() as folder:
        kept = recorded.FOLDER or folder
        environment = {**os.environ, "PHANTORA_KERNELS": kept} if real else None
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, env=environment).returncode
        log.seek(0)
        text = log.read()
        compared, different = recorded.compare(kept, real) if real else (0, [])
    verdicts = judge(text, code, expected_ends())
    if real:
        print(f"{compared} launches, whose like on a real GPU is known: {len(different)} left other bytes")
        verdicts += [(title.split()[0], title.split()[1], "WRONG", "other bytes than a real GPU") for title in different]
        if compared == 0 and not options.only:
            verdicts.append(("recorded", "", "WRONG", "no launch is like those of the real GPU"))
    if not verdicts or code != 0:
        print(text[-4000:])
    return verdicts


def expected_ends():
    return {name: result for name, _, _, result, _ in CASES}


def judge(text, code, ends):
    lines = [json.loads(line) for line in re.findall(r"@@(\{.*\})", text)]
    pids = {line["pid"]: line["case"] for line in lines if "pid" in line}
    refused = {}  # case: (count, first)
    for pid, count, why in re.findall(r"process (\d+): .* executed, (\d+) were not, the first of them (.*)", text):
        if int(pid) in pids:
            refused[pids[int(pid)]] = why
    titles = re.findall(r"not executed: \d+ x ([^:]*(?:::[^:]*)*): (.*)", text)
    verdicts = []
    for pid, name in pids.items():
        ops = [line for line in lines if line["case"] == name and "op" in line]
        end = next((line for line in lines if line["case"] == name and "end" in line), None)
        status = next(line["status"] for line in lines if line.get("pid") == pid)
        for line in ops:
            title = f"{name}__{line['op']}"
            why = next((r for t, r in titles if t.split("(")[0].endswith(title)), None)
            if not why and name in refused and line["wrong"] == "untouched":
                why = "(one of several) " + refused[name]
            if why:
                verdicts.append((name, line["op"], "REFUSED", why))
            elif line["wrong"]:
                verdicts.append((name, line["op"], "WRONG", line["wrong"]))
            else:
                verdicts.append((name, line["op"], "PASSED", ""))
        if end is None:
            verdict, why = "WRONG", f"died with status {status:#x}"
        elif end["end"] == "ok" == ends[name] or end["end"] == ends[name]:
            verdict, why = "PASSED", ""
        else:
            verdict, why = "WRONG", f"{end['end']}: " + end.get("why", "")
        if name in refused and not ops:
            verdict, why = "REFUSED", refused[name] + " | " + why[-300:]
        if not ops or verdict != "PASSED":
            if ops and name in refused:
                why += " (with refusals)"
            verdicts.append((name, "", verdict, why))
    if code != 0:
        verdicts.append(("phantora-run", "", "WRONG", f"ended with {code}"))
    return verdicts


def main(program, gpu_of):
    parser = argparse.ArgumentParser()
    parser.add_argument("--phantora", default="bazel-bin/tools/phantora-run")
    parser.add_argument("--gpu", default="a100-sxm4-80gb,h100-sxm5-80gb")
    parser.add_argument("--only", default="")
    parser.add_argument("--execute", type=int, default=2000000000)
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--quiet", action="store_true", help="only what did not pass")
    options = parser.parse_args()
    if options.inside:
        inside(options.only, gpu_of, 90 if options.gpu.startswith("h") else 80)
        return
    total = collections.Counter()
    surprises = []
    for gpu in options.gpu.split(","):
        started = time.time()
        verdicts = outside(program, options, gpu)
        known = known_of(program, gpu)
        for name, op, verdict, why in verdicts:
            total[verdict] += 1
            title = f"{name}/{op}" if op else name
            expected = known.get(title, "PASSED")
            line = f"{verdict:8}{gpu[:4]} {title} {why}".rstrip()
            if verdict != expected:
                surprises.append(f"{line} (expected: {expected})")
            if not options.quiet or verdict != expected:
                print(line, flush=True)
        print(f"{gpu}: {time.time() - started:.0f} s", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(total.items())))
    print(*surprises, sep="\n")
    sys.exit(0 if total["PASSED"] > 0 and not surprises else 1)


def known_of(program, gpu):
    """What does not pass, and how, by case: `known.txt` says so, and is wrong itself if that changes."""
    path = os.path.join(os.path.dirname(program), "known.txt")
    found = {}
    with open(path) as file:
        for line in file:
            words = line.split("#")[0].split()
            if len(words) == 4 and words[0] == os.path.basename(program) and gpu.startswith(words[1]):
                found[words[3]] = words[2]
    return found
