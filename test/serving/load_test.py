#!/usr/bin/env python3
"""phantora-load against a server whose times are known, in simulated time; and what it is made of.

usage: load_test.py PHANTORA_RUN PHANTORA_LOAD TOKEN_SERVER
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

RUN, LOAD, SERVER = (os.path.abspath(word) for word in sys.argv[1:4])
del sys.argv[1:4]
sys.path.insert(0, os.path.dirname(LOAD))
import loads  # noqa: E402
import server_metrics  # noqa: E402
import summary  # noqa: E402
from client import Record  # noqa: E402

FIRST, EACH = 0.2, 0.01


def record(sent, first, last, tokens, phase="load", error=""):
    return Record(phase, 10, tokens, sent, first, last, tokens, [], error)


class LoadsTest(unittest.TestCase):
    def test_gaps_have_the_rate_and_the_burstiness(self):
        for burstiness in (0.25, 1.0, 4.0):
            times = [at for at, _ in zip(loads.arrivals(8, burstiness, 1), range(20000))]
            gaps = [b - a for a, b in zip(times, times[1:])]
            mean = statistics.mean(gaps)
            self.assertAlmostEqual(mean, 1 / 8, delta=0.01)
            self.assertAlmostEqual(statistics.variance(gaps) / mean**2, 1 / burstiness, delta=0.3 / burstiness)

    def test_prompts_share_their_prefix_alone(self):
        prompts = loads.Prompts(loads.Shape(shared_prefix=16, seed=3))
        one, other = prompts.new(64), prompts.new(64)
        self.assertEqual((len(one), one[:16]), (64, other[:16]))
        self.assertNotEqual(one[16], other[16])
        later = prompts.next_turn(one, 5, 7)
        self.assertEqual((len(later), later[:64]), (76, one))

    def test_traces_of_both_kinds(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.csv"
            path.write_text("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                            "12,ChatGPT,100,5,105,x\n10,GPT-4,20,0,20,x\n10.5,GPT-4,30,7,37,x\n")
            self.assertEqual(loads.read_trace(path), [(0, 30, 7), (1.5, 100, 5)])
            path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6,374,44\n"
                            "2023-11-16 18:15:50.1,396,109\n")
            self.assertEqual([row[1:] for row in loads.read_trace(path)], [(374, 44), (396, 109)])
            self.assertAlmostEqual(loads.read_trace(path)[1][0], 3.5)
            for text, why in (("a,b\n1,2\n", "no known trace"), ("Timestamp,Request tokens,Response tokens\n1,x,2\n",
                                                                "line 2")):
                path.write_text(text)
                with self.assertRaisesRegex(loads.LoadError, why):
                    loads.read_trace(path)


class SummaryTest(unittest.TestCase):
    def test_percentiles_lie_between_values(self):
        self.assertEqual(summary.percentile([4, 1, 3, 2], 50), 2.5)
        self.assertEqual(summary.percentile([7], 99), 7)

    def test_warm_up_and_failures_do_not_count(self):
        found = summary.summarise([record(0, 9, 9, 1, "warm-up"), record(0, 1, 3, 5), record(1, 2, 5, 2),
                                   record(1, None, None, 0, error="no")], {"ttft": 1, "tpot": 1})
        self.assertEqual((found["requests"], found["failed"], found["seconds"]), (3, 1, 5))
        self.assertEqual((found["ttft"]["mean_s"], found["tpot"]["mean_s"]), (1, (0.5 + 3) / 2))
        self.assertEqual(found["goodput"]["share"], 1 / 3)

    def test_answers_that_end_early_are_told(self):
        short = Record("load", 10, 5, 0, 1, 2, 2, [], "")
        found = summary.summarise([record(0, 1, 3, 5), short], {})
        self.assertEqual(found["shorter"], 1)
        self.assertIn("1 answers have fewer tokens", "\n".join(summary.lines(found)))
        self.assertEqual(summary.summarise([record(0, 1, 3, 5)], {})["shorter"], 0)

    def test_a_load_settles_when_its_means_rest(self):
        settling = summary.Settling(2, 0.01)
        records, rounds = [], 0
        for ttft in (4, 4, 2, 2, 1, 1) + 20 * (2.33,):
            records.append(record(0, ttft, ttft + 1, 2))
            if settling.add(records):
                break
        # 4, 3, 2.33, and it stays.
        self.assertEqual((settling.rounds, len(records)), (5, 10))

    def test_metrics_of_all_labels_add_up(self):
        values = server_metrics.parse('# TYPE a gauge\na{x="1"} 2\na{x="2"} 3.5\nb 1e3\nc nothing\n')
        self.assertEqual(values, {"a": 5.5, "b": 1000})


class ServedTest(unittest.TestCase):
    def serve(self, *words, slots=4, port=8000, status=0):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "load.json"
            command = [RUN, "--no-status", "--host-time", "fixed", "--", sys.executable, LOAD, "--json", out, *words,
                       "--", sys.executable, SERVER, str(port), str(FIRST), str(EACH), str(slots)]
            result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(result.returncode, status, result.stdout + result.stderr)
            return json.loads(out.read_text()) if out.exists() else result.stderr

    def test_a_closed_loop(self):
        found = self.serve("--closed", "4", "--rounds", "3", "--warm-up", "4", "--output", "11", "--input", "32",
                           "--slo", "ttft=0.5")["summary"]
        self.assertEqual((found["requests"], found["failed"], found["output_tokens"]), (12, 0, 132))
        self.assertAlmostEqual(found["ttft"]["mean_s"], FIRST, delta=0.01)
        self.assertAlmostEqual(found["tpot"]["mean_s"], EACH, delta=0.001)
        self.assertAlmostEqual(found["seconds"], 3 * (FIRST + 10 * EACH), delta=0.03)
        self.assertEqual(found["goodput"]["share"], 1)
        self.assertEqual(found["server"]["preemptions"], 0)

    def test_who_waits_for_a_slot_has_it_in_his_ttft(self):
        found = self.serve("--closed", "8", "--rounds", "2", "--output", "11")["summary"]
        self.assertGreater(found["ttft"]["p90_s"], FIRST + 0.29)
        self.assertAlmostEqual(found["tpot"]["mean_s"], EACH, delta=0.001)

    def test_arrivals_come_at_their_times(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.csv"
            trace.write_text("Timestamp,Request tokens,Response tokens\n" +
                             "".join(f"{at},16,3\n" for at in (0, 0.4, 100)))
            requests = self.serve("--trace", str(trace), "--speedup", "2")["requests"]
        self.assertEqual([round(each["sent_s"], 2) for each in requests], [0, 0.2, 50])
        # By then the server has closed the connections that it had.
        self.assertEqual([each["error"] for each in requests], ["", "", ""])
        times = [each["sent_s"] for each in self.serve("--rate", "10", "--requests", "20", "--output", "2",
                                                       slots=100)["requests"]]
        self.assertEqual(len(times), 20)
        expected = [at for at, _ in zip(loads.arrivals(10, 1, 0), range(20))]
        for at, when in zip(times, expected):
            self.assertAlmostEqual(at, when, delta=0.01)

    def test_the_report_has_the_requests(self):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report"
            report.mkdir()
            (report / "requests.json").write_text("of an earlier run")
            command = [RUN, "--no-status", "--host-time", "fixed", "--report", report, "--", sys.executable, LOAD,
                       "--closed", "4", "--rounds", "2", "--output", "11", "--slo", "ttft=0.5",
                       "--metrics-period", "0.1", "--", sys.executable, SERVER, "8000", str(FIRST), str(EACH), "4"]
            result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            found = json.loads((report / "report.json").read_text())["requests"]
            self.assertEqual((found["all"], len(found["requests"])), (8, 8))
            self.assertAlmostEqual(found["summary"]["ttft"]["mean_s"], FIRST, delta=0.01)
            self.assertAlmostEqual(found["summary"]["server_running"]["most"], 4)
            self.assertEqual(found["summary"]["goodput"]["share"], 1)
            self.assertIn("running", found["server_samples"][0])
            compared = subprocess.run([RUN, "--compare", report, report], capture_output=True, text=True, check=True)
            self.assertIn("requests: TTFT, mean", compared.stdout)
            # A run that leaves none has none, and none of those that were there.
            subprocess.run([RUN, "--no-status", "--report", report, "--", "true"], check=True, capture_output=True)
            self.assertNotIn("requests", json.loads((report / "report.json").read_text()))

    def test_what_goes_wrong_is_told(self):
        found = self.serve("--closed", "1", "--rounds", "1", "--input", "5000", status=1)
        self.assertIn("the prompt is too long", found["requests"][0]["error"])
        for words in (("--url", "https://here"), ("--trace", "/nowhere.csv")):
            closed = () if words[0] == "--trace" else ("--closed", "1")
            wrong = subprocess.run([sys.executable, LOAD, *closed, *words], capture_output=True, text=True, check=False)
            self.assertEqual(wrong.returncode, 2, wrong)
        self.assertIn("ended with status", self.serve("--closed", "1", port=-1, status=1))


if __name__ == "__main__":
    unittest.main()
