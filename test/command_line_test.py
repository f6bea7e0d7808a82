#!/usr/bin/env python3
"""What the command line of phantora-run promises, by real runs and real shells.

usage: command_line_test.py PHANTORA_RUN COMMAND_LINE_MD
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, DOCUMENT = map(os.path.abspath, sys.argv[1:3])

# Prints what completes the words that follow it.
BASH = """
source <("$0" completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_phantora_run
printf '%s\\n' "${COMPREPLY[@]}"
"""


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def phantora(self, *words, status=0, **options):
        ran = subprocess.run([PHANTORA_RUN, *map(str, words)], text=True, capture_output=True, check=False,
                             timeout=120, cwd=self.folder, **options)
        self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
        return ran

    # --- The command's environment -------------------------------------------------

    def test_variables_are_the_commands(self):
        ran = self.phantora("--env", "A=x y", "--env", "B=", "--", "sh", "-c", 'echo "$A,${B-unset}"')
        self.assertEqual(ran.stdout, "x y,\n")

    def test_they_go_before_those_of_ranks(self):
        ran = self.phantora("--cluster", "dgx-h100:1", "--ranks-per-host", 2, "--env", "OMP_NUM_THREADS=3", "--env",
                            "MASTER_PORT=1234", "--", "sh", "-c", "echo $RANK $OMP_NUM_THREADS $MASTER_PORT")
        self.assertEqual(sorted(ran.stdout.splitlines()), ["[rank 0] 0 3 1234", "[rank 1] 1 3 1234"])

    def test_paths_keep_the_drivers(self):
        ran = self.phantora("--env", "LD_LIBRARY_PATH=/mine", "--env", f"PATH=/mine:{os.environ['PATH']}", "--", "sh", "-c",
                            "echo $LD_LIBRARY_PATH; echo $PATH; nvidia-smi -L")
        libraries, programs, gpu = ran.stdout.splitlines()
        self.assertTrue(libraries.endswith(":/mine"), libraries)
        self.assertIn(":/mine:", programs)
        self.assertIn("GPU 0", gpu)

    # --- phantora.toml -------------------------------------------------------------

    def test_a_file_has_options(self):
        (self.folder / "phantora.toml").write_text('gpu = "a100-sxm4-80gb"\ngpus = 3\n[env]\nA = "from the file"\n')
        ran = self.phantora("--", "sh", "-c", "nvidia-smi -L; echo $A")
        self.assertEqual(ran.stdout.count("A100"), 3)
        self.assertIn("from the file", ran.stdout)
        # Nobody is to wonder where they come from.
        self.assertIn("phantora: from phantora.toml: --gpu=a100-sxm4-80gb --gpus=3 --env=A=from the file", ran.stderr)
        # What is said here goes before it.
        ran = self.phantora("--gpus", 1, "--env", "A=B", "--", "sh", "-c", "nvidia-smi -L; echo $A")
        self.assertEqual((ran.stdout.count("A100"), ran.stdout.splitlines()[-1]), (1, "B"))
        self.assertIn("H100", self.phantora("--no-config", "--", "nvidia-smi", "-L").stdout)

    def test_what_is_wrong_in_it_is_told(self):
        (self.folder / "phantora.toml").write_text("gpus = 2\nhost-tim = 'fixed'\n")
        self.assertIn("phantora: error: phantora.toml:2: there is no option 'host-tim'",
                      self.phantora("--", "true", status=125).stderr)

    # --- Outputs -------------------------------------------------------------------

    def test_one_name_for_all_outputs(self):
        self.phantora("--dry-run", "-o", "made/here", "--", "true")
        self.assertFalse((self.folder / "made").exists())
        self.phantora("-o", "made/here", "--", "nvidia-smi", "-L")
        made = self.folder / "made/here"
        self.assertLessEqual({"report.html", "report.json", "trace.json"}, {each.name for each in made.iterdir()})
        json.loads((made / "trace.json").read_text())

    # --- What it says of itself ----------------------------------------------------

    def test_the_document_has_its_help(self):
        shown = re.search(r"^```\n(phantora-run \[OPTIONS\].*?)^```$", pathlib.Path(DOCUMENT).read_text(), re.M | re.S)
        self.assertEqual(shown[1], self.phantora("--help").stdout)

    def test_bash_completes(self):
        def completed(*words):
            return subprocess.run(["bash", "-c", BASH, PHANTORA_RUN, "phantora-run", *words], text=True, check=True,
                                  capture_output=True, env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
                                  ).stdout.split("\n")[:-1]

        (self.folder / "phantora-run").symlink_to(PHANTORA_RUN)
        self.assertEqual(completed("--host-time", "m"), ["measured"])
        self.assertEqual(completed("--cluster", "dgx-h1"), ["dgx-h100"])
        self.assertEqual(completed("--gpu", "a100-sxm4-80"), ["a100-sxm4-80gb"])
        self.assertIn("--ranks-per-host", completed("--gpus", "2", "--ra"))
        self.assertIn("doctor", completed("doct"))
        self.assertEqual(completed("completion", "b"), ["bash"])
        # The options of another program are not ours.
        self.assertNotIn("--gpus", completed("--gpus", "2", "--", "python", "--gp"))

    def test_other_shells_read_their_scripts(self):
        for shell in ("zsh", "fish"):
            script = self.folder / shell
            script.write_text(self.phantora("completion", shell).stdout)
            if shutil.which(shell):
                subprocess.run([shell, "-n", script], check=True)

    def test_the_manual_is_a_page(self):
        page = self.phantora("manual").stdout
        if not shutil.which("groff"):
            self.skipTest("groff is not here")
        text = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", "-ww"], input=page, text=True, check=True, capture_output=True)
        self.assertEqual(text.stderr, "")
        self.assertIn("CONFIGURATION FILE", text.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
