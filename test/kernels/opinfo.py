#!/usr/bin/env python3
"""How often does an emulated GPU compute what the processor computes?

Takes the operations and sample inputs of PyTorch's own tests (OpInfo), computes every sample on
`cpu` and on `cuda`, and compares. Every sample ends as one of

  right    equal within PyTorch's tolerances for the type
  close    within those of PyTorch's test of cuda against cpu (1e-3), or no farther from the
           result in higher precision than cpu is
  ties     other indices than cpu, of elements that are equal
  excused  differs, but PyTorch leaves the operation out of its test of cuda against cpu
  refused  not so, but a kernel of it was not executed (phantora-run says which and why)
  WRONG    not so although every kernel was executed
  error    raises on cuda only; crash, timeout: its process died, or took too long
  skipped  nothing to compare with: random, uninitialised, or cpu raises

Operations run in processes of their own, forked below one phantora-run from a process that has
imported PyTorch. What was not right where kernels were refused runs once more, alone, so that it is
known which sample the refused kernel belongs to. Exits with 1 if a sample is WRONG.

usage: opinfo.py [--quick] [--gpu NAME] [--ops NAME,...] [--dtypes NAME,...] [--json FILE] ...
"""

import argparse
import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from opinfo_inside import import_op_db, inside

DTYPES = ["float32", "bfloat16", "float16", "int64", "bool"]
SECONDS_PER_SAMPLE = 30
SECONDS_PER_OP = 60
# So many samples of an operation and type run alone before the rest is taken to be like them.
ALONE_FIRST = 2
GOOD = ("right", "close", "ties")
BAD = ("wrong", "excused", "error", "crash", "timeout")

UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
                 "new_empty_strided", "resize_", "resize_as_"}
# About two minutes: something of each kind of kernel.
QUICK = """
add sub mul div true_divide pow fmod remainder floor_divide maximum atan2 hypot exp log log1p sin
tan tanh sigmoid erf rsqrt round abs neg bitwise_and bitwise_left_shift eq lt logical_and isnan
where clamp sum mean prod var amax argmax any norm logsumexp softmax log_softmax cumsum cumprod
cummax logcumsumexp sort topk unique searchsorted bincount histc nonzero index_select gather scatter
scatter_add index_add index_put masked_select take_along_dim cat stack flip roll tril
repeat_interleave nn.functional.gelu nn.functional.layer_norm nn.functional.batch_norm
nn.functional.embedding nn.functional.cross_entropy nn.functional.avg_pool2d
nn.functional.max_pool2d nn.functional.interpolate nn.functional.grid_sample nn.functional.pad
""".split()


class Pass:
    """One phantora-run over some groups."""

    def __init__(self, options, groups):
        self.options, self.groups = options, groups
        self.results = {}   # (op, dtype, sample): {status, details, sample, pid}
        self.refusals = {}  # pid: text
        self.first_lines = []
        self.pid, self.running, self.group = None, None, None
        self.last_line = self.group_since = time.monotonic()

    def run(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self.groups, file)
            file.flush()
            command = [*self.options.phantora.split(), "--gpu", self.options.gpu, "--host-time",
                       "fixed", "--no-status", "--verbose", "--execute", self.options.execute,
                       "--", sys.executable, os.path.abspath(__file__), "--inside", file.name]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, errors="replace")
            errors = threading.Thread(target=self.read_errors, args=(process.stderr,))
            watch = threading.Thread(target=self.watch, args=(process,), daemon=True)
            errors.start()
            watch.start()
            for line in process.stdout:
                self.last_line = time.monotonic()
                if line.startswith("@"):
                    self.take(json.loads(line[1:]))
            errors.join()
            self.status = process.wait()
        return self

    def take(self, said):
        if "pid" in said:
            self.pid = said["pid"]
            if self.group != said["group"]:
                self.group, self.group_since = said["group"], time.monotonic()
        elif "begins" in said:
            self.running = said
        elif "case" in said:
            self.keep(said["case"], said["status"], said["details"], said.get("sample", ""))
            self.running = None
        elif "ended" in said:
            if self.running:
                code = said["status"]
                late = code & 127 in (signal.SIGKILL, signal.SIGTERM)
                self.keep(self.running["begins"], "timeout" if late else "crash",
                          f"wait status {code}", self.running["sample"])
            self.running, self.pid = None, None
            if said["ended"] % 50 == 49:
                self.log(f"{said['ended'] + 1} of {len(self.groups)} processes")

    def keep(self, case, status, details, sample):
        self.results[tuple(case)] = {"status": status, "details": details, "sample": sample,
                                     "pid": self.pid}
        if status in BAD:
            self.log(f"pid {self.pid} {' '.join(map(str, case))}: {status}: {details[:420]}")

    def log(self, text):
        if self.options.verbose:
            print(text, file=sys.stderr, flush=True)

    def read_errors(self, file):
        pattern = re.compile(r"process (\d+): (\d+) kernels were executed, (\d+) were not, "
                             r"the first of them (.*)")
        for line in file:
            if match := pattern.search(line):
                self.refusals[int(match[1])] = match[4]
            elif self.options.stderr:
                with open(self.options.stderr, "a") as copy:
                    copy.write(line)

    def watch(self, process):
        """Ends what takes too long: in real time, of which processes below know nothing."""
        while process.poll() is None:
            time.sleep(1)
            now, pid = time.monotonic(), self.pid
            if pid is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                if now - self.group_since > SECONDS_PER_OP:
                    self.group_since = now
                    os.kill(pid, signal.SIGTERM)
                elif now - self.last_line > SECONDS_PER_SAMPLE:
                    self.last_line = now
                    os.kill(pid, signal.SIGKILL)


def alone(options, cases):
    return [{"op": op, "dtypes": [dtype], "samples": [sample], "backward": options.backward}
            for op, dtype, sample in cases]


def settle(options, first):
    """Runs alone what was not right where kernels were not executed; adds `refused` to results."""
    results = first.results
    unclear = collections.defaultdict(list)
    for case, result in results.items():
        if result["status"] in BAD and result["pid"] in first.refusals:
            unclear[case[:2]].append(case)
    now = [case for cases in unclear.values() for case in cases[:ALONE_FIRST]]
    judge_alone(options, results, now)
    rest = []
    for cases in unclear.values():
        head = [results[case] for case in cases[:ALONE_FIRST]]
        for case in cases[ALONE_FIRST:]:
            if all("refused" in result for result in head):
                results[case]["refused"] = head[0]["refused"]
            else:
                rest.append(case)
    judge_alone(options, results, rest)


def judge_alone(options, results, cases):
    if not cases:
        return
    again = Pass(options, alone(options, cases)).run()
    for case in cases:
        result = again.results.get(case)
        if result is None:
            results[case].update(status="crash", details="nothing was heard of it")
            continue
        results[case] = result
        if result["status"] in BAD and result["pid"] in again.refusals:
            result["refused"] = again.refusals[result["pid"]]


def verdict(result):
    if result["status"] in BAD and "refused" in result:
        return "refused"
    return {"wrong": "WRONG"}.get(result["status"], result["status"])


def plain_reason(text):
    """A refusal without its kernel, addresses and operands."""
    text = text.rsplit(": ", 2)
    reason = ": ".join(text[-2:]) if re.match(r"[0-9a-f]{3} \(", text[-1]) else text[-1]
    reason = re.sub(r" at instruction 0x\w+|, 0x\w+$", "", reason)
    return re.sub(r"\([0-9a-f]{16} [0-9a-f]{16}\)|\d{4,}", "", reason).strip()


def kernel_of(text):
    return text.split(": ")[0]


def table(results, dtypes):
    columns = ["right", "close", "ties", "excused", "refused", "WRONG", "error", "crash",
               "timeout", "skipped"]
    lines = ["| type | samples | " + " | ".join(columns) + " | right of all compared |",
             "|---" * (len(columns) + 3) + "|"]
    for dtype in [*dtypes, "all"]:
        counts = collections.Counter(verdict(result) for case, result in results.items()
                                     if dtype in (case[1], "all"))
        compared = sum(counts.values()) - counts["skipped"] - counts["excused"]
        good = sum(counts[status] for status in GOOD)
        lines.append(f"| {dtype} | {compared} | " +
                     " | ".join(str(counts[column]) for column in columns) +
                     f" | {100 * good / max(1, compared):.2f} % |")
    return lines


def report(options, results):
    """Markdown about all results."""
    what = ", gradients" if options.backward else ""
    lines = [f"## {options.gpu}{what}", "", *table(results, options.dtypes), ""]
    for status in ("WRONG", "excused", "error", "crash", "timeout"):
        mine = {case: result for case, result in results.items() if verdict(result) == status}
        if mine:
            lines += [f"### {status}", ""]
        for case, result in mine.items():
            lines += [f"- **{case[0]}** {case[1]} #{case[2]}: {result['details']}",
                      f"  - {result['sample']}"]
        lines.append("")
    reasons, ops = collections.Counter(), collections.defaultdict(set)
    kernels = collections.defaultdict(collections.Counter)
    for case, result in results.items():
        if verdict(result) == "refused":
            reason = plain_reason(result["refused"])
            reasons[reason] += 1
            ops[reason].add(case[0])
            kernels[reason][kernel_of(result["refused"])] += 1
    if reasons:
        lines += ["### refused, by reason", ""]
    for reason, count in reasons.most_common():
        lines += [f"- {count} samples: {reason}", f"  - ops: {', '.join(sorted(ops[reason]))}",
                  "  - kernels: " + ", ".join(f"{name} ({times})" for name, times in
                                              kernels[reason].most_common(12))]
    skipped = collections.defaultdict(set)
    for case, result in results.items():
        if result["status"] == "skipped":
            skipped[result["details"]].add(case[0])
    lines += ["", "### skipped", ""]
    lines += [f"- {why}: {', '.join(sorted(names))}" for why, names in sorted(skipped.items())]
    return "\n".join(lines) + "\n"


def all_names(options):
    """Names of the operations to run."""
    names = list(import_op_db())
    if options.list:
        with open(options.list) as file:
            wanted = file.read().split()
    else:
        wanted = QUICK if options.quick else options.ops.split(",") if options.ops else None
    if wanted:
        names = [name for name in names if name in wanted or name.split(".")[0] in wanted and
                 not options.exact]
    return [name for name in names if name not in UNINITIALISED]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phantora", default="bazel-bin/tools/phantora-run")
    parser.add_argument("--gpu", default="a100-sxm4-80gb")
    parser.add_argument("--execute", default="2000000000", help="phantora-run's budget of a kernel")
    parser.add_argument("--ops", help="only these, with their variants")
    parser.add_argument("--list", help="a file with names of operations")
    parser.add_argument("--exact", action="store_true", help="names without their variants")
    parser.add_argument("--dtypes", type=lambda text: text.split(","), default=DTYPES)
    parser.add_argument("--backward", action="store_true",
                        help="gradients instead of results, of types that have them")
    parser.add_argument("--quick", action="store_true", help="a subset, in two types")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--markdown", help="write the report to this file instead of stdout")
    parser.add_argument("--stderr", help="append what phantora-run says to this file")
    parser.add_argument("--verbose", action="store_true", help="say what is not right at once")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options.inside)
    if options.backward and options.dtypes is DTYPES:
        options.dtypes = ["float32"]
    if options.quick and options.dtypes is DTYPES:
        options.dtypes = ["float32", "int64"]
    began = time.monotonic()
    groups = [{"op": name, "dtypes": options.dtypes, "backward": options.backward}
              for name in all_names(options)]
    first = Pass(options, groups).run()
    settle(options, first)
    text = report(options, first.results)
    text += f"\n{len(groups)} operations in {time.monotonic() - began:.0f} s\n"
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{"case": case, **result} for case, result in first.results.items()], file,
                      indent=0)
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write(text)
    else:
        print(text)
    verdicts = [verdict(result) for result in first.results.values()]
    return "WRONG" in verdicts or not set(GOOD) & set(verdicts)


if __name__ == "__main__":
    sys.exit(main())
