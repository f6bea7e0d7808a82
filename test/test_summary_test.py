#!/usr/bin/env python3
"""What tools/test.sh says at its end, from events as Bazel writes them.

usage: test_summary_test.py TEST_SUMMARY
"""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import unittest

spec = importlib.util.spec_from_file_location("test_summary", os.path.abspath(sys.argv.pop(1)))
test_summary = importlib.util.module_from_spec(spec)
spec.loader.exec_module(test_summary)


def configured(label, kind="cc_test rule"):
    return {"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": kind}}


def completed(label, success=True):
    return {"id": {"targetCompleted": {"label": label}}, "completed": {"success": True} if success else {}}


def summary(label, status):
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


def result(label, log):
    return {"id": {"testResult": {"label": label}},
            "testResult": {"testActionOutput": [{"name": "test.log", "uri": "file://" + log}]}}


def tell(*events, status=0):
    """Lines that are printed, and the exit status."""
    tally = test_summary.Tally()
    for event in events:
        tally.add(event)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = test_summary.report(tally, status)
    return out.getvalue().strip().splitlines(), code


def ran(label, status):
    return configured(label), completed(label), summary(label, status)


class TestSummaryTest(unittest.TestCase):
    def test_all_passed(self):
        lines, code = tell(*ran("//a:x_test", "PASSED"), *ran("//a:y_test", "PASSED"))
        self.assertEqual(lines, ["2 passed, 0 failed"])
        self.assertEqual(code, 0)

    def test_what_is_not_passed_has_failed(self):
        for status in ("FAILED", "FLAKY", "TIMEOUT", "NO_STATUS", "REMOTE_FAILURE", "INCOMPLETE", "FAILED_TO_BUILD"):
            lines, code = tell(*ran("//a:x_test", status), *ran("//a:y_test", "PASSED"), status=3)
            self.assertEqual(lines, ["FAILED: //a:x_test (%s)" % status.lower(), "1 passed, 1 failed"])
            self.assertEqual(code, 1)

    def test_a_test_that_never_ran_has_failed(self):
        lines, code = tell(configured("//a:x_test"), completed("//a:x_test"), *ran("//a:y_test", "PASSED"), status=3)
        self.assertEqual(lines, ["FAILED: //a:x_test (did not run)", "1 passed, 1 failed"])
        self.assertEqual(code, 1)

    def test_what_was_not_built_has_failed(self):
        lines, code = tell(configured("//a:tool", "cc_binary rule"), completed("//a:tool", success=False),
                           *ran("//a:y_test", "PASSED"), status=1)
        self.assertEqual(lines, ["FAILED: //a:tool (was not built)", "1 passed, 1 failed"])
        self.assertEqual(code, 1)

    def test_a_pattern_that_names_nothing(self):
        lines, code = tell({"id": {"pattern": {"pattern": ["//nowhere:all"]}}, "aborted": {}}, status=1)
        self.assertEqual(lines[-1], "0 passed, 1 failed")
        self.assertEqual(code, 1)

    def test_bazel_itself_failed(self):
        lines, code = tell(*ran("//a:x_test", "PASSED"), status=37)
        self.assertEqual(lines[0], "FAILED: bazel (ended with status 37, see above)")
        self.assertEqual(code, 1)

    def test_nothing_ran(self):
        lines, code = tell(status=4)
        self.assertEqual(lines, ["no test ran", "0 passed, 0 failed"])
        self.assertEqual(code, 1)

    def test_cases_that_were_skipped_are_told(self):
        with tempfile.TemporaryDirectory() as directory:
            logs = [os.path.join(directory, name) for name in ("a.log", "b.log")]
            with open(logs[0], "w", encoding="utf-8") as log:
                log.write("SKIPPED: no compiler\n[  SKIPPED ] Some.Case (0 ms)\n[  SKIPPED ] 1 test, listed below:\n"
                          "test_it (x.Y) ... skipped 'why'\n[       OK ] Other.Case (0 ms)\n")
            with open(logs[1], "w", encoding="utf-8") as log:
                log.write("[       OK ] Other.Case (0 ms)\n")
            lines, code = tell(*ran("//a:x_test", "PASSED"), result("//a:x_test", logs[0]),
                               result("//a:y_test", logs[1]), result("//a:z_test", "/nowhere/at/all"))
        self.assertEqual(lines, ["3 cases of these tests could not run here; the reasons are in:", "  " + logs[0],
                                 "1 passed, 0 failed"])
        self.assertEqual(code, 0)

    def test_events_that_end_in_the_middle(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            file.write('{"id": {}}\n{"id": {"testSu')
            file.flush()
            self.assertEqual(list(test_summary.read_events(file.name)), [{"id": {}}])

    def test_patterns_and_options(self):
        command = test_summary.bazel_command(["--config=asan", "//clock/...", "-//clock:slow"], "events")
        self.assertEqual(command[-4:], ["--config=asan", "--", "//clock/...", "-//clock:slow"])
        self.assertEqual(test_summary.bazel_command([], "events")[-2:], ["--", "//..."])


if __name__ == "__main__":
    unittest.main()
