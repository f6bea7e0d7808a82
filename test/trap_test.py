#!/usr/bin/env python3
"""How phantora-run behaves as a program: exit statuses, signals, deaths, files.

usage: trap_test.py PHANTORA_RUN LAUNCH_BENCH
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PHANTORA_RUN, LAUNCH_BENCH = sys.argv[1:3]
CANNOT_SET_UP = 125
SUPERVISOR_DIED = 70
# A command with a child and a grandchild, one of them in a session of its own.
FAMILY = ("sh", "-c", "sleep 1000 & a=$!; setsid sh -c 'sleep 1000; true' & echo $$ $a $!; wait")
DEATHS = 5


def phantora(*command, options=(), **kwargs):
    kwargs.setdefault("timeout", 60)
    return subprocess.run([PHANTORA_RUN, *options, "--", *command], text=True, check=False,
                          capture_output=True, **kwargs)


def start(*command, options=()):
    return subprocess.Popen([PHANTORA_RUN, *options, "--", *command], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class ExitStatusTest(unittest.TestCase):
    def test_is_the_commands(self):
        self.assertEqual(phantora("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(phantora("true").returncode, 0)

    def test_is_128_plus_the_signal_that_ended_it(self):
        self.assertEqual(phantora("sh", "-c", "kill -9 $$").returncode, 128 + 9)

    def test_of_commands_that_cannot_run(self):
        result = phantora("/nonexistent")
        self.assertEqual(result.returncode, 127)
        self.assertIn("cannot run /nonexistent", result.stderr)
        self.assertEqual(phantora("/etc/passwd").returncode, 126)

    def test_of_phantora_itself_is_125_with_advice(self):
        result = phantora("true", options=["--gpu", "b300"])
        self.assertEqual(result.returncode, CANNOT_SET_UP)
        self.assertIn("h100-sxm5-80gb", result.stderr)
        result = phantora("true", options=["--driver", "999.1"])
        self.assertEqual(result.returncode, CANNOT_SET_UP)
        self.assertIn("--force-driver-abi", result.stderr)
        self.assertEqual(phantora("true", options=["--gpus", "17"]).returncode, CANNOT_SET_UP)
        self.assertEqual(phantora("true", options=["--frobnicate"]).returncode, CANNOT_SET_UP)

    def test_input_output_and_arguments_pass_through(self):
        result = phantora("cat", input="hello")
        self.assertEqual(result.stdout, "hello")
        result = phantora("printf", "%s|", "a b", "--gpus", "-v")
        self.assertEqual(result.stdout, "a b|--gpus|-v|")

    def test_nesting_is_refused(self):
        result = phantora(PHANTORA_RUN, "--", "true")
        self.assertEqual(result.returncode, CANNOT_SET_UP)
        self.assertIn("already runs under a supervisor", result.stderr)


class SetUpTest(unittest.TestCase):
    def test_the_command_is_not_started_before_everything_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            ran, no_table = os.path.join(folder, "ran"), os.path.join(folder, "rows.tsv")
            nowhere = os.path.join(folder, "nowhere", "file")
            with open(no_table, "w", encoding="ascii") as file:
                file.write("this is no table of rows\n")
            for options in (["--log-calls", nowhere], ["--log-kernels", nowhere], ["--trace", nowhere],
                            ["--report", no_table], ["--record-step", nowhere], ["--missing", nowhere],
                            ["--rows", no_table], ["--cluster", "dgx-h100:1", "--output", no_table],
                            ["--cluster", no_table]):
                result = phantora("sh", "-c", "echo ran >> %s; sleep 1000" % ran, options=options)
                self.assertEqual(result.returncode, CANNOT_SET_UP, (options, result.stderr))
                self.assertIn("phantora", result.stderr)
                self.assertFalse(os.path.exists(ran), options)


    def test_a_dry_run_starts_and_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            ran, trace = os.path.join(folder, "ran"), os.path.join(folder, "trace.json")
            with open(trace, "w", encoding="ascii") as file:
                file.write("of another run")
            result = phantora("touch", ran, options=["--dry-run", "--trace", trace, "--cluster", "dgx-h100:2",
                                                     "--record-step", os.path.join(folder, "step.json")])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("would start 16 times: touch", result.stdout)
            self.assertIn("rank 15 on dgx-h100-1", result.stdout)
            with open(trace, encoding="ascii") as file:
                self.assertEqual(file.read(), "of another run")
            self.assertEqual(os.listdir(folder), ["trace.json"])
            nowhere = os.path.join(folder, "nowhere", "file")
            result = phantora("true", options=["--dry-run", "--trace", nowhere])
            self.assertEqual(result.returncode, CANNOT_SET_UP)
            self.assertIn(nowhere, result.stderr)


class ProcessTest(unittest.TestCase):
    def test_a_signal_is_forwarded(self):
        run = start("sh", "-c", "trap 'exit 42' TERM; echo ready; while :; do sleep 0.1; done")
        self.assertEqual(run.stdout.readline(), "ready\n")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)
        self.assertEqual(run.returncode, 42)

    def test_what_the_command_leaves_behind_is_ended(self):
        result = phantora("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
        leftover = int(result.stdout)
        self.assertEqual(result.returncode, 0)
        self.assertFalse(alive(leftover))

    def test_ranks_end_with_a_message_when_the_supervisor_dies(self):
        for _ in range(DEATHS):
            run = start(*FAMILY)
            ranks = [int(rank) for rank in run.stdout.readline().split()]
            (supervisor,) = children(run.pid)
            os.kill(supervisor, signal.SIGKILL)
            _, errors = run.communicate(timeout=60)  # no rank holds the pipes open
            self.assertEqual(run.returncode, SUPERVISOR_DIED)
            self.assertIn("the supervisor died", errors)
            self.assertTrue(wait_until(lambda: not any(map(alive, ranks))))

    def test_everything_ends_when_phantora_run_is_killed(self):
        for _ in range(DEATHS):
            run = start(*FAMILY)
            ranks = [int(rank) for rank in run.stdout.readline().split()]
            (supervisor,) = children(run.pid)
            run.kill()
            _, errors = run.communicate(timeout=60)
            self.assertIn("phantora-run was killed", errors)
            self.assertTrue(wait_until(lambda: not any(map(alive, [supervisor, *ranks]))))


class FilesTest(unittest.TestCase):
    def test_the_drivers_files_exist_for_ranks(self):
        result = phantora("sh", "-c",
                          "stat -c '%F %t:%T' /dev/nvidiactl /dev/nvidia3 /dev/nvidia-uvm;"
                          "cat /proc/driver/nvidia/version /sys/module/nvidia/version;"
                          "cat < /dev//../proc/driver/nvidia/params | head -1",
                          options=["--gpus", "4"])
        self.assertEqual(result.stdout.count("character special file"), 3, result)
        self.assertIn("c3:ff", result.stdout)
        self.assertIn("NVRM version: NVIDIA UNIX Open Kernel Module", result.stdout)
        self.assertIn("ResmanDebugLevel", result.stdout)

    def test_there_are_no_more_gpus_than_asked_for(self):
        self.assertNotEqual(phantora("stat", "/dev/nvidia1").returncode, 0)

    def test_other_files_are_the_hosts(self):
        with open("/etc/hostname", encoding="utf-8") as file:
            self.assertEqual(phantora("cat", "/etc/hostname").stdout, file.read())
        self.assertFalse(os.path.exists("/dev/nvidia-phantora"))


class CallsTest(unittest.TestCase):
    def test_launches_are_not_trapped_and_calls_are_logged_by_name(self):
        with tempfile.NamedTemporaryFile() as log:
            result = phantora(LAUNCH_BENCH, options=["-v", "--host-time", "real"])
            self.assertEqual(result.returncode, 0, result)
            traps, kernels = map(int, re.search(
                r"(\d+) trapped calls.*; (\d+) kernels", result.stderr).groups())
            self.assertGreater(kernels, 20000)
            self.assertLess(traps, 5000)
            result = phantora(LAUNCH_BENCH, "--help", options=["--log-calls", log.name])
            text = log.read().decode()
        self.assertIn("NV_ESC_RM_ALLOC HOPPER_COMPUTE_A", text)
        self.assertIn("NV2080_CTRL_CMD_GPU_GET_NAME_STRING", text)
        self.assertIn("UVM_REGISTER_GPU_VASPACE: NV_OK", text)


class DoctorTest(unittest.TestCase):
    def test_this_machine_is_fit(self):
        result = subprocess.run([PHANTORA_RUN, "doctor"], text=True, capture_output=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("This machine can run Phantora.", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
