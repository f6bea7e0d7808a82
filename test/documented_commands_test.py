#!/usr/bin/env python3
"""Every command in the documents can be typed as it stands, and README's recipes are.

usage: documented_commands_test.py PHANTORA_RUN PHANTORA_REPLAY PHANTORA_PROFILE PHANTORA_RECORD README_MD DOCUMENT...

Of phantora-run each command is planned by --dry-run; of other programs the options are looked for in their help. Recipes are run
in a copy of the work tree, made of links, so that what they write is nobody's. What only some machines have is planned, too:
the servers' environments, a real GPU.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = dict(zip(("phantora-run", "phantora-replay", "phantora-profile", "phantora-record"), map(os.path.abspath, sys.argv[1:5])))
README, *DOCUMENTS = map(os.path.realpath, sys.argv[5:])
ROOT = pathlib.Path(README).parent
CACHE = os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora"
BLOCK = re.compile(r"(?:^ {4,}\S.*\n|^\n(?= {4}))+", re.M)
# A line of a block that is a command of the project's.
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:python3? |source <\()?((?:bazel-bin/tools/|\./)?phantora-\w+|(?:tools|test)/[\w/.-]+|"
                     r"~/\.cache/phantora/\S+/python) ?")
OPTION = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
# The two that set everything up: the tests run within the second.
SACRED = {"tools/demo.sh", "tools/test.sh"}
# What they name is made by hand, or by a command on another machine.
GIVEN = {"my-gpu.json": ROOT / "profiles/data/h100-sxm5-80gb/personality.json", "rows.tsv": None}


def blocks(document):
    text = re.sub(r"^```.*?^```$", "", pathlib.Path(document).read_text(encoding="utf-8"), flags=re.M | re.S)
    return [[line[4:] for line in block.splitlines()] for block in BLOCK.findall(text)]


def joined(lines):
    """Commands of a block, each in one line, without comments."""
    whole = []
    for line in lines:
        if whole and whole[-1].endswith("\\"):
            whole[-1] = whole[-1][:-1] + line.strip()
        else:
            whole.append(line)
    return [re.sub(r"\s+# .*", "", line).strip() for line in whole]


def commands(document):
    return [line for block in blocks(document) for line in joined(block) if COMMAND.match(line)]


def words_of(line):
    """(program, its words up to those of the command that it runs)"""
    words = shlex.split(re.sub(r"^(?:source <\()?((?:[A-Z_]+=\S+ )*)", "", line).rstrip(")"))
    words = words[:next((at for at, word in enumerate(words) if word in ("|", ">", "&&", ";")), len(words))]
    return words[0], words[1:]


class Tree:
    """The work tree by links, with the programs where Bazel puts them."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        for each in ROOT.iterdir():
            if not each.name.startswith(("bazel-", ".")):
                (self.root / each.name).symlink_to(each)
        programs = self.root / "bazel-bin/tools"
        programs.mkdir(parents=True)
        for name, path in PROGRAMS.items():
            (programs / name).symlink_to(path)
        for name, what in GIVEN.items():
            (self.root / name).write_text(what.read_text() if what else "")

    def run(self, line, timeout):
        environment = {**os.environ, "PATH": f"{self.root}/bazel-bin/tools:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-c", line.replace("~/.cache/phantora", str(CACHE))], cwd=self.root, text=True, check=False,
                              capture_output=True, timeout=timeout, env=environment)


class DocumentedCommandsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tree = Tree(folder.name)
        cls.helps = {}

    def help_of(self, program, words):
        """What `program --help` prints, and that of the subcommand that `words` begin with."""
        told = ""
        for subcommand in ([], words[:1]):
            if subcommand and not re.fullmatch(r"[a-z-]+", subcommand[0]):
                continue
            key = (program, *subcommand)
            if key not in self.helps:
                ran = self.tree.run(" ".join([program, *subcommand, "--help"]), 60)
                self.helps[key] = ran.stdout if ran.returncode == 0 else ""
            told += self.helps[key]
        return told

    def test_runs_can_be_planned(self):
        planned, wrong = 0, []
        for document in (README, *DOCUMENTS):
            for line in commands(document):
                program, words = words_of(line)
                if os.path.basename(program) != "phantora-run" or not set(words) & {"--"}:
                    continue
                ran = self.tree.run(shlex.join(["phantora-run", "--dry-run", *words]), 60)
                planned += 1
                if ran.returncode != 0:
                    wrong.append((os.path.basename(document), line, ran.stderr))
        self.assertEqual(wrong, [])
        self.assertGreater(planned, 15)

    def test_programs_have_the_options_that_they_get(self):
        looked, wrong = 0, []
        for document in (README, *DOCUMENTS):
            for line in commands(document):
                program, words = words_of(line)
                name = os.path.basename(program)
                if name == "phantora-run" or program in SACRED:
                    continue
                if name == "python":
                    if not words or not re.match(r"(test|tools|examples)/", words[0]):
                        continue
                    program, words = f"{program} {words[0]}", words[1:]
                    self.assertTrue((self.tree.root / program.split()[1]).exists(), line)
                elif "/" in program:
                    self.assertTrue(os.access(self.tree.root / program, os.X_OK), line)
                before = words[:words.index("--")] if "--" in words else words
                asked = [option for word in before for option in OPTION.findall(word)[:1] if word.startswith("-")]
                if not asked:
                    continue
                looked += 1
                told = self.help_of(program, before)
                wrong += [(os.path.basename(document), line, option) for option in asked
                          if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", told)]
        self.assertEqual(wrong, [])
        self.assertGreater(looked, 8)

    # --- README's recipes ----------------------------------------------------------

    def recipe(self, *holding, timeout=600):
        """Runs README's command that has all of these words, and gives what it prints."""
        found = [line for line in commands(README) if all(word in line for word in holding)]
        self.assertEqual(len(found), 1, (holding, found))
        ran = self.tree.run(found[0], timeout)
        self.assertEqual(ran.returncode, 0, f"{found[0]}\n{ran.stdout[-4000:]}\n{ran.stderr[-4000:]}")
        return ran.stdout + ran.stderr

    def test_how_fast_is_a_step(self):
        said = self.recipe("--report report", "train_ddp.py")
        self.assertIn("step   10", said)
        self.assertIn("peak memory", said)
        self.assertEqual(len(json.loads((self.tree.root / "report/report.json").read_text())["ranks"]), 8)
        json.loads((self.tree.root / "trace.json").read_text())

    def test_how_does_it_scale(self):
        self.recipe("--record-step step.json", "train_3d.py")
        table = self.recipe("phantora-replay step.json")
        for gpus in ("| 8 |", "| 128 |", "| 8192 |"):
            self.assertIn(gpus, table)

    def test_other_machines(self):
        self.assertIn("dgx-h100", self.recipe("phantora-run clusters"))
        self.assertIn("NVIDIA-SMI", self.recipe("--gpus 8 -- nvidia-smi"))
        said = self.recipe("--per-host -- sh -c")
        self.assertEqual((said.count("dgx-h100-1"), said.count("GPU 0:")), (1, 2), said)
        self.assertIn("A100", self.recipe("--gpu a100-sxm4-80gb"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
