#!/usr/bin/env python3
"""--report, --trace, the summary and the status line.

usage: report_test.py PHANTORA_RUN STEP_TIME_PY PERSONALITY_JSON
"""

import html.parser
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, STEP_TIME, PERSONALITY = sys.argv[1:4]
PYTHON = (pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
          / "venv/bin/python")
# Weights and gradients of step_time.py's model, and two moments of each for AdamW.
MODEL_BYTES = 4 * (512 * 2048 * 2) * 4


def phantora(*command, options=()):
    return subprocess.run([PHANTORA_RUN, *options, "--", *map(str, command)], text=True,
                          check=False, capture_output=True, timeout=150)


class Page(html.parser.HTMLParser):
    """Checks that elements are closed, and gathers attributes and the data."""

    VOID = {"meta"}

    def __init__(self):
        super().__init__()
        self.open, self.attributes, self.data = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1][1].get("id") == "report":
            self.data += data


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.directory.name)
        cls.result = phantora(PYTHON, STEP_TIME, options=[
            "--host-time", "fixed", "--report", root / "made" / "here", "--trace", root / "trace"])
        assert cls.result.returncode == 0, cls.result
        cls.report = json.loads((root / "made/here/report.json").read_text())
        cls.page = (root / "made/here/report.html").read_text()
        cls.trace = json.loads((root / "trace").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def events(self, category):
        return [event for event in self.trace if event.get("cat") == category]

    def test_a_gpu_that_was_not_measured(self):
        text = pathlib.Path(PERSONALITY).read_text(encoding="utf-8")
        for old, new in (('"name": "h100-sxm5-80gb"', '"name": "half"'), ("[9, 9, 8, 8, 8, 8, 8, 8]", "[9, 8, 8, 8]"),
                         ('"power_limit_watts": 700', '"power_limit_watts": 350')):
            self.assertIn(old, text)
            text = text.replace(old, new)
        root = pathlib.Path(self.directory.name)
        (root / "half.json").write_text(text, encoding="utf-8")
        result = phantora(PYTHON, STEP_TIME, options=[
            "--gpu", root / "half.json", "--host-time", "fixed", "--report", root / "half"])
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("transferred from h100-sxm5-80gb", result.stderr)
        report = json.loads((root / "half/report.json").read_text())
        self.assertTrue(report["run"]["kernel_prices"].endswith("transferred from h100-sxm5-80gb"))
        self.assertEqual(report["totals"]["time_by_source"]["placeholder"]["share"], 0)
        half, whole = report["ranks"][0], self.report["ranks"][0]
        # Libraries choose kernels by the number of SMs. Products take twice as long, what memory bounds as long as
        # there.
        self.assertGreater(half["kernel_s"], 1.2 * whole["kernel_s"])
        self.assertLess(half["kernel_s"], 2.1 * whole["kernel_s"])
        self.assertGreater(half["price_error"], whole["price_error"] + 0.01)

    def test_the_run_is_described(self):
        run = self.report["run"]
        self.assertEqual(self.report["schema_version"], 1)
        self.assertEqual(run["command"], [str(PYTHON), STEP_TIME])
        self.assertEqual((run["gpu"], run["gpus"]), ("h100-sxm5-80gb", 1))
        self.assertEqual(run["host_time"], "fixed")
        self.assertIn("not executed", self.report["caveats"][0])

    def test_steps_are_those_that_the_program_times(self):
        steps = self.report["ranks"][0]["steps"]
        printed = json.loads(self.result.stdout.splitlines()[-1])["events"]
        # The last has no end; the first makes the optimizer's state.
        self.assertEqual(steps["count"], len(steps["steps"]))
        self.assertGreaterEqual(steps["count"], len(printed) - 1)
        median = steps["median"]
        # Between one step's end and the next one's beginning the program waits and reads clocks.
        self.assertAlmostEqual(median["s"] * 1e3, sorted(printed)[1], delta=0.1 * printed[-1])
        parts = median["compute_s"] + median["exposed_communication_s"] + median["idle_s"]
        self.assertLessEqual(parts, median["s"] * 1.0001)
        self.assertEqual(median["communication_s"], 0)
        # Two products in each of four layers, forwards and twice backwards; nobody wants the input's gradient.
        products = (4 * 2 * 3 - 1) * 2 * 2048 * 512 * 2048
        self.assertAlmostEqual(median["flops"], products, delta=0.01 * products)
        self.assertGreater(median["mfu"], 0)
        self.assertIn("steps: ", self.result.stderr)
        folder = pathlib.Path(self.directory.name) / "made/here"
        compared = subprocess.run([PHANTORA_RUN, "--compare", folder, folder / "report.json"], capture_output=True,
                                  text=True, check=True, timeout=60).stdout
        self.assertRegex(compared, r"step +[0-9.]+ +[0-9.]+ ms +=\n")

    def test_a_rank_adds_up(self):
        rank, = self.report["ranks"]
        self.assertEqual(rank["gpus"], [0])
        self.assertGreater(rank["kernels"], 200)
        self.assertLessEqual(rank["gpu_busy_s"], rank["simulated_s"])
        self.assertLessEqual(rank["gpu_busy_s"], rank["kernel_s"] + rank["copy_s"] + 1e-12)
        self.assertGreater(rank["waited_s"], 0)
        self.assertLess(rank["waited_s"], rank["simulated_s"])
        self.assertGreater(rank["peak_memory_bytes"], MODEL_BYTES)
        self.assertLess(rank["peak_memory_bytes"], 4 << 30)
        sources = rank["time_by_source"].values()
        self.assertAlmostEqual(sum(source["share"] for source in sources), 1)
        self.assertAlmostEqual(sum(source["s"] for source in sources),
                               rank["kernel_s"] + rank["copy_s"])
        kinds = rank["copies_by_kind"]
        self.assertEqual(sum(kind["count"] for kind in kinds.values()), rank["copies"])
        self.assertGreater(kinds["host_to_device"]["bytes"], MODEL_BYTES / 4)

    def test_kernels_are_told_apart(self):
        rank, = self.report["ranks"]
        largest = rank["largest_kernels"]
        self.assertEqual(len(largest), 10)
        self.assertEqual(largest, sorted(largest, key=lambda kernel: -kernel["total_s"]))
        self.assertEqual(largest, self.report["totals"]["largest_kernels"])
        for kernel in largest:
            self.assertAlmostEqual(kernel["mean_s"] * kernel["count"], kernel["total_s"])
            self.assertAlmostEqual(kernel["share"] * rank["kernel_s"], kernel["total_s"])
            self.assertEqual(kernel["count"], sum(
                event["name"] == kernel["name"] for event in self.events("kernel")))

    def test_plots_agree_with_sums(self):
        rank, = self.report["ranks"]
        busy = rank["utilisation"]
        self.assertLessEqual(len(busy["busy_share"]), 512)
        self.assertLessEqual(max(busy["busy_share"]), 1)
        self.assertAlmostEqual(sum(busy["busy_share"]) * busy["bin_s"], rank["gpu_busy_s"])
        self.assertEqual(max(rank["memory"]["peak_bytes"]), rank["peak_memory_bytes"])

    def test_the_trace_agrees_with_the_report(self):
        rank, = self.report["ranks"]
        for category, key in (("kernel", "kernels"), ("copy", "copies")):
            self.assertEqual(len(self.events(category)), rank[key])
        for category, key in (("kernel", "kernel_s"), ("copy", "copy_s"), ("wait", "waited_s")):
            # Whole nanoseconds.
            events = self.events(category)
            self.assertAlmostEqual(sum(event["dur"] for event in events) / 1e6, rank[key],
                                   delta=len(events) * 1e-9)
        counter = [event["args"]["bytes"] for event in self.trace if event["ph"] == "C"]
        self.assertEqual(max(counter), rank["peak_memory_bytes"])
        self.assertEqual(counter[-1], 0)

    def test_slices_of_a_track_do_not_overlap(self):
        tracks = {}
        for event in self.trace:
            if event["ph"] == "X":
                start = round(event["ts"] * 1000)
                tracks.setdefault((event["pid"], event["tid"]), []).append(
                    (start, start + round(event["dur"] * 1000)))
        for slices in tracks.values():
            slices.sort()
            for (_, end), (start, _) in zip(slices, slices[1:]):
                self.assertLessEqual(end, start)
        named = {(event["pid"], event["tid"]) for event in self.trace
                 if event["name"] == "thread_name"}
        self.assertEqual(named, set(tracks))

    def test_the_page_needs_nothing_else(self):
        self.assertNotRegex(self.page, r"https?:")
        page = Page()
        page.feed(self.page)
        self.assertEqual(page.open, [])
        self.assertFalse({"src", "href"} & {name for name, _ in page.attributes})
        self.assertEqual(json.loads(page.data), self.report)

    def test_the_summary_says_where_times_come_from(self):
        self.assertRegex(self.result.stderr, r"process 0 \(\d+\) +\d+\.\d+ s")
        self.assertRegex(self.result.stderr, r"\d+ kernels were executed \(")
        self.assertEqual(len(re.findall(r"^phantora: (?!warning).* \d+ x \w", self.result.stderr, re.M)), 10)
        self.assertNotIn("\x1b", self.result.stderr)


class SkippedKernelsTest(unittest.TestCase):
    """What a program reads of what a kernel should have made that was not executed: said at once, and once."""

    WARNING = (r"may mean nothing from here on: process \d+ reads \d+ bytes at .* that depend on kernels which were not "
               r"executed: (\d+) of its own, the first of them ")

    def warnings(self, execute, statements):
        result = phantora(PYTHON, "-c", "import torch; x = torch.ones(1024, 1024, device='cuda'); " + statements,
                          options=["--host-time", "fixed", "--execute", execute])
        self.assertEqual(result.returncode, 0, result)
        return re.findall(self.WARNING, result.stderr), result

    def test_the_first_copy_after_one_is_a_warning(self):
        found, result = self.warnings("20000000", "y = x @ x; print(x[0, 0].item(), y[0, 0].item(), y[1, 1].item())")
        self.assertEqual(found, ["1"], result.stderr)
        self.assertRegex(result.stderr, r"; 2 copies to hosts, of 8 bytes, depend on those")
        # The copy of what does not depend on it is none of them.
        self.assertEqual(result.stdout, "1.0 0.0 0.0\n")

    def test_without_one_there_is_none(self):
        for execute, statements in (("all", "print((x[:64, :64] @ x[:64, :64])[0, 0].item())"),
                                    ("off", "print((x @ x)[0, 0].item())")):
            found, result = self.warnings(execute, statements)
            self.assertEqual(found, [], result.stderr)


class LauncherTest(unittest.TestCase):
    def test_ranks_have_the_launcher_s_numbers(self):
        with tempfile.TemporaryDirectory() as root:
            result = phantora("env", "RANK=5", PYTHON, "-c",
                              "import torch; torch.ones(1000, device='cuda').sum().item()",
                              options=["--host-time", "fixed", "--report", root])
            self.assertEqual(result.returncode, 0, result)
            report = json.loads(pathlib.Path(root, "report.json").read_text())
        self.assertEqual([rank["name"] for rank in report["ranks"]], ["rank 5"])
        self.assertEqual(report["ranks"][0]["number"], 5)
        self.assertEqual(report["ranks"][0]["copies_by_kind"]["device_to_host"]["count"], 1)
        self.assertIn("largest: vectorized_elementwise_kernel<FillFunctor>", phantora(
            PYTHON, "-c", "import torch; torch.ones(1000, device='cuda')",
            options=["--host-time", "fixed"]).stderr)


class OptionsTest(unittest.TestCase):
    def test_they_need_simulated_time(self):
        for option in ("--report", "--trace"):
            result = phantora("true", options=["--host-time", "real", option, "/dev/null"])
            self.assertEqual(result.returncode, 125)
            self.assertIn(f"{option} needs simulated time", result.stderr)

    def test_what_cannot_be_written_is_told_before_the_command_runs(self):
        for option, path in (("--report", "/proc/nowhere"), ("--report", "/dev/null"),
                             ("--trace", "/proc/nowhere")):
            result = phantora("echo", "ran", options=["--host-time", "fixed", option, path])
            self.assertEqual(result.returncode, 125, result)
            self.assertIn(path, result.stderr)
            self.assertNotIn("ran", result.stdout)

    def test_a_program_without_a_gpu_has_an_empty_report(self):
        with tempfile.TemporaryDirectory() as root:
            result = phantora("echo", "</script>",
                              options=["--host-time", "fixed", "--report", root])
            self.assertEqual(result.returncode, 0, result)
            self.assertEqual(json.loads(pathlib.Path(root, "report.json").read_text())["ranks"], [])
            self.assertNotIn("</script>\"", pathlib.Path(root, "report.html").read_text())


class StatusLineTest(unittest.TestCase):
    """With a terminal for stdout and stderr."""

    def shown(self, *options):
        chunks = []
        # Busy for more than two periods of the line.
        program = ("import time; t = time.thread_time()\n"
                   "while time.thread_time() < t + 1.3: time.time()\n"
                   "print('done')")
        environment = dict(os.environ, TERM="xterm")
        child, terminal = pty.fork()
        if child == 0:
            os.execve(PHANTORA_RUN, [PHANTORA_RUN, *options, "--", sys.executable, "-c", program],
                      environment)
        while True:
            try:
                if not (chunk := os.read(terminal, 4096)):
                    break
                chunks.append(chunk)
            except OSError:
                break
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)
        return b"".join(chunks).decode()

    def test_it_tells_the_time_and_leaves_no_trace(self):
        shown = self.shown("--host-time", "measured")
        self.assertRegex(shown, r"\x1b7\x1b\[\d+G +\d+\.\d{3} s simulated, 0 ranks, "
                                r"\S+x real time, 0 kernels/s, \d+\.\d GiB\x1b\[K\x1b8")
        self.assertTrue(shown.endswith("\x1b[K"), repr(shown))
        self.assertEqual(re.sub(r"\x1b7.*?\x1b8|\x1b\[K", "", shown), "done\r\n")

    def test_there_is_none_in_real_time_or_without(self):
        self.assertEqual(self.shown("--host-time", "measured", "--no-status"), "done\r\n")
        self.assertEqual(self.shown("--host-time", "real"), "done\r\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
