#!/usr/bin/env python3
"""Runs `bazel test` and closes with one line: N passed, N failed.

    tools/setup/test_summary.py [targets and options of bazel test]

Every test target counts once: failed if it failed, timed out or was not built.
Anything else that was to be built and was not counts as failed too. The exit
status is 0 only if a test ran and nothing failed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

PASSED = ("PASSED",)
# What tests print: our own, GoogleTest's, unittest's.
SKIPPED_CASE = re.compile(r"\bSKIPPED: |^\[  SKIPPED \] .* \(\d+ ms\)$|\.\.\. skipped ")
# Tests passed, tests failed, no test found: nothing that the events do not tell.
BAZEL_STATUS_OF_TESTS = (0, 3, 4)


def is_pattern(argument):
    """Is this argument of `bazel test` a target pattern, rather than an option?"""
    return argument.lstrip("-").startswith(("//", "@", ":")) and not argument.startswith("--")


def bazel_command(arguments, events_path):
    patterns = [a for a in arguments if is_pattern(a)]
    options = [a for a in arguments if not is_pattern(a)]
    if not any(not p.startswith("-") for p in patterns):
        patterns.insert(0, "//...")
    return ["bazel", "test", "--keep_going", f"--build_event_json_file={events_path}", *options, "--", *patterns]


def read_events(path):
    """Yields Bazel's build events; the last may be cut off if Bazel was killed."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return


class Tally:
    """What became of each target, from the build events."""

    def __init__(self):
        self.tests = set()
        self.verdicts = {}  # test -> overall status
        self.broken = set()  # targets, or patterns, that could not be loaded or built
        self.logs = []  # of the tests that ran, or had run

    def add(self, event):
        for kind, subject in event["id"].items():
            handler = getattr(self, "_on_" + kind, None)
            if handler:
                handler(subject, event)

    def _on_targetConfigured(self, subject, event):
        if event.get("configured", {}).get("targetKind", "").endswith("_test rule"):
            self.tests.add(subject["label"])

    def _on_testResult(self, _subject, event):
        for output in event.get("testResult", {}).get("testActionOutput", []):
            if output.get("name") == "test.log" and output.get("uri", "").startswith("file://"):
                self.logs.append(urllib.parse.unquote(output["uri"][len("file://"):]))

    def _on_testSummary(self, subject, event):
        if "testSummary" in event:
            self.verdicts[subject["label"]] = event["testSummary"].get("overallStatus", "NO_STATUS")

    def _on_targetCompleted(self, subject, event):
        skipped = event.get("aborted", {}).get("reason") == "SKIPPED"
        if skipped:
            self.tests.discard(subject["label"])
        elif not event.get("completed", {}).get("success"):
            self.broken.add(subject["label"])

    def _on_pattern(self, subject, event):
        if "aborted" in event:
            self.broken.update(subject["pattern"])

    @property
    def passed(self):
        return {t for t, status in self.verdicts.items() if status in PASSED} - self.broken

    @property
    def failed(self):
        """Maps what failed to how."""
        failed = {t: "was not built" for t in self.broken}
        for test in (self.tests | self.verdicts.keys()) - self.passed - self.broken:
            failed[test] = self.verdicts.get(test, "did not run").lower()
        return failed


def skipped_cases(path):
    """How many cases of a test said that they were skipped, in its log."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return sum(bool(SKIPPED_CASE.search(line)) for line in file)
    except OSError:
        return 0


def report(tally, bazel_status):
    """Prints the closing lines; returns the exit status."""
    failed = dict(tally.failed)
    if bazel_status not in BAZEL_STATUS_OF_TESTS and not tally.broken:
        # Such as a BUILD file with an error, or a crash of Bazel.
        failed["bazel"] = f"ended with status {bazel_status}, see above"
    print(flush=True)
    for name, how in sorted(failed.items()):
        print(f"FAILED: {name} ({how})")
    if not failed and not tally.passed:
        print("no test ran")
    skipped = {path: skipped_cases(path) for path in tally.logs}
    if any(skipped.values()):
        print(f"{sum(skipped.values())} cases of these tests could not run here; the reasons are in:")
        for path in sorted(path for path, cases in skipped.items() if cases):
            print(f"  {path}")
    print(f"{len(tally.passed)} passed, {len(failed)} failed", flush=True)
    return 1 if failed or not tally.passed else 0


def main():
    descriptor, events_path = tempfile.mkstemp(suffix=".json")
    os.close(descriptor)
    try:
        status = subprocess.call(bazel_command(sys.argv[1:], events_path), stdin=subprocess.DEVNULL)
        tally = Tally()
        for event in read_events(events_path):
            tally.add(event)
    finally:
        os.unlink(events_path)
    return report(tally, status)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
