#!/usr/bin/env python3
"""phantora-validate: cases that cannot be used, runs that are right, wrong and failing, and its tables.

usage: validate_test.py PHANTORA_RUN PHANTORA_VALIDATE
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

BUILT = pathlib.Path(sys.argv[1]).absolute().parents[1]
VALIDATE = pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(VALIDATE.parent))
# pylint: disable=wrong-import-position
from validation import cases, results, serving, tables  # noqa: E402

HEAD = """
title = "Test"
[sources]
here = "this test"
[reasons]
known = "It is | wrong on purpose."
"""
# Of the product, where its numbers are.
SOURCES = (".cc", ".h", ".json", ".tsv", ".yaml")
# Programs see the emulated GPU, or none.
PROGRAM = """if [ -e /dev/nvidiactl ]; then echo '{"value": 100}'; else echo '{"value": 125}'; fi"""


def is_for_checking(name):
    """Of files from the root: they hold what others have measured, and nothing is made from them."""
    return (name.endswith(("_test.cc", "_bench.cc")) or name.startswith("profiles/data/published/")
            or "/held_out/" in name or name.startswith("fabric/data/measured/"))


def case(name="one", row='name = "r", expected = 100', more="", where='gpu = "h100-sxm5-80gb"'):
    return f"""
[[case]]
name = "{name}"
what = "A test."
command = ["sh", "-c", '''{PROGRAM}''']
{where}
unit = "things"
source = "here"
json = "value"
{more}
rows = [{{ {row} }}]
"""


class ValidateTest(unittest.TestCase):
    def setUp(self):
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def file(self, *parts, name="case.toml"):
        path = self.root / name
        path.write_text(HEAD + "".join(parts), encoding="utf-8")
        return path

    def run_validate(self, *arguments, path=os.environ["PATH"]):
        """Exit status, standard output, standard error, and the JSON that it wrote."""
        written = self.root / "results.json"
        result = subprocess.run([sys.executable, VALIDATE, "--built", BUILT, "--json", written, *map(str, arguments)],
                                text=True, capture_output=True, check=False, timeout=200, env=os.environ | {"PATH": path})
        found = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {"cases": []}
        return result.returncode, result.stdout, result.stderr, found["cases"]

    def test_cases_that_cannot_be_used(self):
        for text, words in {
                case(more="tolerence = 0.1"): ["case 'one'", "'tolerence'", "not known"],
                case(more='tolerance = "0.1"'): ["case 'one'", "'tolerance'", "above 0"],
                case(row='name = "r", expected = true'): ["row 'r'", "'expected'", "number"],
                case(row='name = "r"'): ["row 'r'", "'expected' is missing"],
                case(row='name = "r", expected = 1, source = "nowhere"'): ["row 'r'", "'source'", "nowhere"],
                case(row='name = "r", expected = 1, miss = "unknown"'): ["row 'r'", "'miss'", "unknown"],
                case(row='name = "r", expected = 1, regex = "(a)(b)"'): ["row 'r'", "'regex'", "one group, not 2"],
                case(row='name = "r", expected = 1, regex = "("'): ["row 'r'", "'regex'"],
                case(row='name = "r", expected = 1, regex = "(a)", json = "a"'): ["row 'r'", "not both"],
                case(row='name = "r", expected = 1 }, { name = "r", expected = 2'): ["row 'r'", "two of this name"],
                case(where=""): ["case 'one'", "'gpu' or 'cluster'"],
                case(where='cluster = "dgx-h100:1"\ngpus = 2'): ["case 'one'", "'gpus'"],
                case(more='options = ["{scrach}/x"]'): ["case 'one'", "'options'", "{scrach}"],
                case(name="a b"): ["'name'"],
                case() + case(): ["case 'one'", "one of this name"],
                "": ["'case' is missing"],
                "[[case]\n": ["not TOML", "line 7"],
        }.items():
            with self.subTest(words=words):
                status, _, errors, _ = self.run_validate(self.file(text))
                self.assertEqual(status, 2, errors)
                for word in ["case.toml", *words]:
                    self.assertIn(word, errors)
        for word in (self.root / "none.toml", "no-such-case"):
            status, _, errors, _ = self.run_validate(word)
            self.assertEqual(status, 2)
            self.assertIn(str(word), errors)

    def test_the_cases_of_the_repository(self):
        found = [case for file in sorted((VALIDATE.parents[1] / "test/validation").glob("*.toml"))
                 for case in cases.read_file(file)]
        cases.check_names(found)
        self.assertGreater(len(found), 20)

    def test_a_collective_is_as_published(self):
        """16 MiB on eight H100 (NVIDIA/dgxc-benchmarking, nccl/README.md); the same said to take twice that misses."""
        row = '{ name = "%s", expected = %s, tolerance = 0.2, regex = "^ +16777216 .*? +-1 +([0-9.]+)"%s }'
        text = f"""
[[case]]
name = "collective"
what = "All-reduce."
command = ["{{built}}/test/nccl_perf/nccl_perf", "all_reduce", "-b", "16M", "-e", "16M", "-n", "3", "-c", "0", "-g", "8"]
gpu = "h100-sxm5-80gb"
gpus = 8
unit = "us"
source = "here"
rows = [
  {row % ("right", 123, "")},
  %s
]
"""
        status, output, errors, found = self.run_validate(self.file(text % ""))
        self.assertEqual(status, 0, errors)
        self.assertEqual([row["verdict"] for row in found[0]["rows"]], ["ok"])
        self.assertIn("| right | us | 123 |", output)
        status, output, errors, found = self.run_validate(self.file(text % (row % ("wrong", 246, ""))))
        self.assertEqual(status, 1)
        self.assertEqual([row["verdict"] for row in found[0]["rows"]], ["ok", "miss"])
        self.assertIn("MISSES  collective: wrong:", errors)
        self.assertIn("**misses**", output)

    def test_measured_servers(self):
        campaigns = {one.name: one for one in serving.read(VALIDATE.parents[1] / "test/validation/serving")}
        self.assertEqual(sorted((name, len(one.points)) for name, one in campaigns.items()),
                         [("llama-3.1-8b-fp8-vllm-h200", 7), ("qwen3-32b-vllm-h100", 60)])
        one = campaigns["qwen3-32b-vllm-h100"]
        words = serving.command(one, one.points[0], pathlib.Path("/root"), pathlib.Path("/b"), pathlib.Path("/c"),
                                pathlib.Path("/out"))
        self.assertEqual(words[:6], ["/b/tools/phantora-run", "--no-status", "--gpu", "h100-sxm5-80gb", "--gpus", "2"])
        self.assertEqual(words[words.index("--max-num-batched-tokens") + 1], str(8 + 1024 + 1500))
        self.assertNotIn("{", " ".join(words))
        row = dict.fromkeys(serving.COLUMNS, "0") | {
            "campaign": one.name, "isl": "1024", "osl": "128", "concurrency": "8", "tp": "2", "ttft_ms": "169.7",
            "tpot_ms": "17.1352"}
        (point, _, ttft, tpot), = serving.misses(one, [row, row | {"isl": "77"}, row | {"campaign": "other"}])
        self.assertEqual(point, one.points[0])
        self.assertAlmostEqual(ttft, 0.1, delta=0.001)
        self.assertAlmostEqual(tpot, -0.05, delta=0.001)
        # What was recorded is of points that there are, and every row is whole.
        recorded = serving.read_results(VALIDATE.parents[1] / "test/validation/serving/results.tsv")
        self.assertEqual(len(recorded), sum(len(serving.misses(each, recorded)) for each in campaigns.values()))
        shown = subprocess.run([sys.executable, VALIDATE, "--serving", "--recorded"], capture_output=True, text=True,
                               check=True, timeout=60).stdout
        for each in campaigns.values():
            self.assertIn(f"### {each.title}", shown)

    def test_failures_and_known_misses(self):
        """Each says what is wrong, and the others are run all the same."""
        path = self.file(
            case("fails").replace("echo '{", "echo it went wrong >&2; exit 3; echo '{"),
            case("hangs", more="timeout_s = 2").replace(PROGRAM, "while :; do :; done"),
            case("silent", row='name = "r", expected = 100, json = "other"'),
            case("known", row='name = "r", expected = 50, miss = "known"'),
            case("good"), case("slow", more="slow = true"))
        status, output, errors, found = self.run_validate(path, "--jobs", "2")
        self.assertEqual(status, 1)
        for words in ("fails: failed: exit status 3", "it went wrong", "FAILED  fails", "was not done after 2 s",
                      "MISSES  silent: r: not in the output", "2 of 5 runs as they should be"):
            self.assertIn(words, errors)
        self.assertEqual({one["name"]: [row["verdict"] for row in one["rows"]] for one in found},
                         {"fails": [], "hangs": [], "silent": ["no value"], "known": ["known miss"], "good": ["ok"]})
        self.assertIn("- r: It is | wrong on purpose.", output)
        status, _, errors, _ = self.run_validate(path, "--slow", "--only", "good slow")
        self.assertEqual(status, 2)  # no case has both words
        status, _, errors, found = self.run_validate(path, "--slow", "--only", "slow")
        self.assertEqual((status, [one["name"] for one in found]), (0, ["slow"]), errors)
        status, output, _, _ = self.run_validate(path, "--list", "--slow")
        self.assertEqual((status, output.count("r: 100 things, 15 %")), (0, 5))

    def test_this_machines_gpu(self):
        """Measured natively beside it: here the program says 125 without an emulated GPU."""
        status, _, errors, _ = self.run_validate(self.file(case()), "--real", path="/nonexistent:/bin:/usr/bin")
        if not pathlib.Path("/usr/bin/nvidia-smi").exists():
            self.assertIn("nvidia-smi finds no GPU here: nothing is measured", errors)
        self.assertEqual(status, 0, errors)
        smi = self.root / "nvidia-smi"
        smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n", encoding="utf-8")
        smi.chmod(0o755)
        path = self.file(case("own", where='gpu = "h200-sxm5-141gb"'), case("other").replace("echo", "echo  "))
        status, output, errors, found = self.run_validate(path, "--real", path=f"{self.root}:{os.environ['PATH']}")
        self.assertEqual(status, 0, errors)
        self.assertEqual([(one["name"], one["gpu"]) for one in found],
                         [("own", "h200-sxm5-141gb"), ("other", "h100-sxm5-80gb"), ("other", "h200-sxm5-141gb")])
        rows = [one["rows"][0] for one in found]
        self.assertEqual([row.get("measured_here") for row in rows], [125, None, 125])
        self.assertEqual([row.get("error_here") for row in rows], [-0.2, None, -0.2])
        self.assertEqual([row["expected"] for row in rows], [100, 100, None])
        self.assertIn("| measured here | error |", output)

    def test_tables_of_a_file(self):
        path = self.file(case("known", row='name = "r", expected = 50, miss = "known"'), case("good"))
        runs = [results.Result(one, "rows", simulated={"r": 100.0}) for one in cases.read_file(path)]
        text = f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n"
        new = tables.update(text, runs)
        self.assertEqual(new, f"""before
{tables.BEGIN}
| what | within tolerance | median error | worst | never used | their median error |
|---|---|---|---|---|---|
| Test | 1 of 2 | 50.0 % | +100.0 % | 2 | 50.0 % |

What misses:

| what | error | why |
|---|---|---|
| known | +100.0 % | It is \\| wrong on purpose. |
{tables.END}
after
""")
        self.assertEqual(tables.update(new, runs), new)
        for wrong in ("nothing", text + tables.BEGIN, f"{tables.END}{tables.BEGIN}"):
            with self.assertRaisesRegex(ValueError, "phantora-validate: begin"):
                tables.update(wrong, runs)
        # What is kept is read again, and replaced by what is new.
        kept = results.from_json(results.to_json(runs), [run.case for run in runs])
        self.assertEqual(results.to_json(kept), results.to_json(runs))
        newer = results.Result(runs[1].case, "rows", simulated={"r": 101.0})
        self.assertEqual([run.simulated["r"] for run in results.merged(kept, [newer])], [100, 101])

    def test_no_number_is_new_whose_campaign_was_used(self):
        """A row without a use is of a campaign that no file of the product speaks of."""
        root = pathlib.Path(__file__).resolve().parents[1]
        with open(root / "test/campaigns.toml", "rb") as file:
            campaigns = tomllib.load(file)
        product = {}
        for folder in ("profiles", "fabric", "trap", "clock", "uvm_model"):
            for path in (root / folder).rglob("*"):
                name = str(path.relative_to(root))
                if path.is_file() and path.suffix in SOURCES and not is_for_checking(name):
                    product[name] = path.read_text(encoding="utf-8")
        self.assertGreater(len(product), 100)
        used = {campaign: [name for name, text in product.items() if name not in about.get("described", [])
                           and any(word in text for word in about["words"])]
                for campaign, about in campaigns.items()}
        self.assertTrue(used["Azure/AI-benchmarking-guide"])
        self.assertFalse(used["mosaicml/llm-foundry"])
        rows = 0
        for path in sorted((root / "test/validation").glob("*.toml")):
            for one in cases.read_file(path):
                for row in one.rows:
                    owners = [campaign for campaign in campaigns if row.source.startswith(campaign)]
                    self.assertEqual(len(owners), 1, f"{path.name}: whose is '{row.source}'?")
                    if used[owners[0]]:
                        self.assertNotEqual(row.use, "none", f"{path.name}, {one.name}, '{row.name}': something in "
                                            f"{used[owners[0]]} was made from {owners[0]}")
                    rows += 1
        self.assertGreater(rows, 100)

    def test_rows_of_the_database_count_for_the_model_alone(self):
        path = self.file(case(row='name = "r", expected = 100, use = "row"', more='prices = ["model", "rows"]'))
        _, _, _, found = self.run_validate(path)
        self.assertEqual([(one["prices"], len(one["rows"])) for one in found], [("model", 1), ("rows", 0)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
