#!/usr/bin/env python3
"""phantora-record, with the emulator as the driver that is recorded.

usage: record_test.py PHANTORA_RUN PHANTORA_RECORD [--all] PROGRAM...    (PROGRAMs: of test/tracees)

With --all every PROGRAM runs on the generated personalities, otherwise a few quick ones.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, PHANTORA_RECORD = sys.argv[1:3]
ALL = sys.argv[3] == "--all"
PROGRAMS = {os.path.basename(path): path for path in sys.argv[4 if ALL else 3:]}
LIBRARY = os.path.abspath(os.path.join(os.path.dirname(PHANTORA_RECORD),
                                       "record/libphantora_record.so"))
PROFILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../profiles/data")
DRIVERS = ("535.261.03", "550.163.01")
A100, H100, H200 = "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb"
# What RECORDING says to record for a personality.
ASK_ALL = ("nvidia-smi -q >&2; nvidia-smi --query-gpu=power.limit --format=csv >&2; " +
           PROGRAMS["init_attributes"])
# Of the conformance programs, a few that are quick and ask for much.
QUICK = ("init_attributes", "module_launch", "memcpy", "streams_events")
GPUS = {"peer": 2, "multi_gpu": 16, "visible_devices": 4, "multi_process": 8}
ARGUMENTS = {"multi_gpu": ["--gpus", "16"], "multi_process": ["--processes", "8"],
             "engine_sharing": ["--kernel-us", "20000"]}
OPTIONS = {"engine_sharing": ["--kernel-time", "20000"]}


def run(*command, **options):
    return subprocess.run(command, text=True, check=False, timeout=300, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)


class RecordTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)

    def path(self, name):
        return os.path.join(self._folder.name, name)

    def record(self, name, gpu, driver, *command, expected=0, options=()):
        """The path of a recording of the command under the emulator."""
        output = self.path(name)
        result = run(PHANTORA_RUN, "--gpu", gpu, "--driver", driver, *options, "--",
                     PHANTORA_RECORD, "driver", "-o", output, "--", *command)
        self.assertEqual(result.returncode, expected, result.stdout)
        self.assertNotIn("missing", result.stdout)
        self.output = result.stdout
        return output

    def diff(self, first, second, *options):
        return run(PHANTORA_RECORD, "diff", *options, first, second)

    @staticmethod
    def text(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_the_same_program_twice(self):
        for driver in DRIVERS:
            for program in "init_attributes", "module_launch":
                with self.subTest(driver=driver, program=program):
                    first, second = (self.record(name, H100, driver, PROGRAMS[program])
                                     for name in ("first", "second"))
                    self.assertIn("PASS " + program, self.output)
                    # Every call, and nothing from addresses that are random.
                    self.assertGreater(self.text(first).count("\ncall "), 100)
                    self.assertEqual(self.diff(first, second).stdout, "")
                    self.assertEqual(self.diff(first, second).returncode, 0)

    def test_nothing_is_missed(self):
        """The interposer sees each call that the emulated driver gets."""
        log = self.path("log")
        recording = self.record("recording", H100, "550.163.01", PROGRAMS["module_launch"],
                                options=["--log-calls", log])
        calls = re.findall(r"^call \S+ \S+ (\w+) (\S+)", self.text(recording), re.M)
        seen = [name for kind, name in calls if kind in ("control", "uvm")]
        logged = []
        for line in self.text(log).splitlines():
            match = re.match(r"\s*[\d.]+\s+\d+ (?:control (\S+(?: without public name)?) \((0x\w+)\)"
                             r"|(UVM_\w+))", line.replace("without public name", "-"))
            if match:
                name, number, uvm = match.groups()
                logged.append(uvm or (number if name == "-" else name))
        self.assertGreater(len(logged), 100)
        self.assertEqual(sorted(seen), sorted(logged))

    def test_another_gpu(self):
        first, second = (self.record(gpu, gpu, "550.163.01", PROGRAMS["init_attributes"])
                         for gpu in (A100, H100))
        result = self.diff(first, second)
        self.assertEqual(result.returncode, 1)
        # 108 and 132 SMs, two per TPC.
        self.assertIn("out grInfoList[SHADER_PIPE_SUB_COUNT]: 54 | 66", result.stdout)
        self.assertIn('out gpuNameString: "NVIDIA A100-SXM4-80GB" | "NVIDIA H100 80GB HBM3"',
                      result.stdout)
        self.assertIn("alloc HOPPER_USERMODE_A\n  only in the second", result.stdout)

    def test_processes_and_threads(self):
        for program in "fork_exec", "streams_events":
            with self.subTest(program=program):
                text = self.text(self.record(program, H100, "550.163.01", PROGRAMS[program]))
                self.assertIn("PASS " + program, self.output)
                self.assertTrue(text.endswith("\nend\n"))
                self.assertNotIn("unfinished", text)
                if program == "fork_exec":
                    self.assertIn("\nprocess 2 ", text)
                    self.assertRegex(text, r"\ncall 2 \S+ alloc NV01_DEVICE_0 ")
                    self.assertRegex(text, r"\ncall 1\.2 ")

    def test_the_command_s_own_end(self):
        for command, status in (("exit 7", 7), ("kill -9 $$", 137), ("nvidia-smi -i 99 -q", 6)):
            with self.subTest(command=command):
                self.record("recording", H100, "550.163.01", "sh", "-c", command, expected=status)
        result = run(PHANTORA_RECORD, "driver", "-o", self.path("none"), "--", "./no-such-program")
        self.assertEqual(result.returncode, 127)
        self.assertIn("no-such-program", result.stdout)

    def test_what_a_program_prints_is_its_own(self):
        script = "echo out; echo err >&2; cat"
        result = subprocess.run(
            [PHANTORA_RECORD, "driver", "-o", self.path("recording"), "--", "sh", "-c", script],
            input="in", text=True, check=False, timeout=60, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.assertEqual(result.stdout, "out\nin")

    def test_raw_streams_merged_later(self):
        streams = self.path("streams")
        recording = self.path("recording")
        result = run(PHANTORA_RUN, "--gpu", H100, "--", PHANTORA_RECORD, "driver", "-o", recording,
                     "--keep", streams, "--", PROGRAMS["init_attributes"])
        self.assertEqual(result.returncode, 0, result.stdout)
        again = self.path("again")
        self.assertEqual(run(PHANTORA_RECORD, "merge", streams, "-o", again).returncode, 0)
        self.assertEqual(self.text(recording), self.text(again))

    def test_the_library_alone(self):
        streams, recording = self.path("streams"), self.path("recording")
        os.mkdir(streams)
        result = run(PHANTORA_RUN, "--gpu", H100, "--", "env", "PHANTORA_RECORD_FOLDER=" + streams,
                     "LD_PRELOAD=" + LIBRARY, PROGRAMS["init_attributes"])
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(run(PHANTORA_RECORD, "merge", streams, "-o", recording).returncode, 0)
        self.assertGreater(self.text(recording).count("\ncall "), 100)

    def test_summary(self):
        recording = self.record("recording", H100, "535.261.03", PROGRAMS["init_attributes"])
        result = run(PHANTORA_RECORD, "calls", recording)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\n +2 +0 +132  yes +control +"
                                        r"NV2080_CTRL_CMD_GPU_GET_NAME_STRING\n")
        # Whatever the emulator was asked here, it knows.
        self.assertNotRegex(result.stdout, r"\d  no ")
        self.assertNotRegex(result.stdout, r"with \d+ bytes")

    def test_damaged_recordings(self):
        recording = self.record("recording", H100, "550.163.01", PROGRAMS["init_attributes"])
        whole = self.text(recording)
        for size in 0, 10, len(whole) // 2, len(whole) - 3:
            cut = self.path("cut")
            with open(cut, "w", encoding="utf-8") as file:
                file.write(whole[:size])
            for command in (["diff", cut, recording], ["calls", cut],
                            ["personality", cut, "--name", "x", "-o", self.path("x.json")]):
                result = run(PHANTORA_RECORD, *command)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertIn("line", result.stdout)

    def test_round_trip(self):
        """Record a GPU, make a personality of that, and run on it."""
        for gpu, driver in (A100, DRIVERS[0]), (H100, DRIVERS[1]), (H200, DRIVERS[1]):
            with self.subTest(gpu=gpu, driver=driver):
                recording = self.record("recording", gpu, driver, "sh", "-c", ASK_ALL)
                made = self.path(gpu + "-again.json")
                result = run(PHANTORA_RECORD, "personality", recording, "--name", gpu, "-o", made)
                # Nothing had to be assumed.
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertEqual(result.stdout, "")
                self.assertEqual(without_comments(self.text(made)),
                                 without_comments(self.text(
                                     os.path.join(PROFILES, gpu, "personality.json"))))
                names = PROGRAMS if ALL else QUICK if gpu != H200 else ()
                for name in names:
                    self.run_on(made, driver, name)

    def test_personality_of_too_little(self):
        recording = self.record("recording", H100, "550.163.01", PROGRAMS["init_attributes"])
        made = self.path("made.json")
        command = [PHANTORA_RECORD, "personality", recording, "--name", "mine", "-o", made]
        result = run(*command)
        self.assertEqual(result.returncode, 2)
        self.assertIn("power_limit_watts", result.stdout)
        self.assertIn("board.remap_banks", result.stdout)
        self.assertNotIn("compute_capability", result.stdout)
        result = run(*command, "--like", H200)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("power_limit_watts", result.stdout)
        profile = without_comments(self.text(made))
        self.assertEqual(profile["product"], "NVIDIA H100 80GB HBM3")
        self.assertEqual(profile["board"]["remap_banks"], 3072)  # the H200's
        self.assertIn("// assumed, as h200-sxm5-141gb", self.text(made))
        self.run_on(made, "550.163.01", "init_attributes")

    def run_on(self, personality, driver, name):
        result = run(PHANTORA_RUN, "--gpu", personality, "--driver", driver, "--gpus",
                     str(GPUS.get(name, 1)), "--host-time", "real", *OPTIONS.get(name, []), "--",
                     PROGRAMS[name], *ARGUMENTS.get(name, []))
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("PASS " + name, result.stdout)
        self.assertNotIn("not emulated", result.stdout)


def without_comments(text):
    return json.loads(re.sub(r"//.*", "", text))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
