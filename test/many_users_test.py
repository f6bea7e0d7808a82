#!/usr/bin/env python3
"""Many runs of many users at once on one machine: each has the results that it has alone.

usage: many_users_test.py PHANTORA_RUN NCCL_PERF TRACEES...

Eight runs of four users, with different drivers, GPUs and clusters, in fixed host time, are compared with runs that had
the machine for themselves: what they did must be the same, and how long it took, within 10 us for programs of one
thread, whose start-up may differ by so much in any two runs (docs/LIMITATIONS.md), and within 1 % for those whose
threads and ranks meet. One run more, of a fifth user, fails all the time. Who is not root runs everything as the same
user.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

PHANTORA_RUN, NCCL_PERF, *TRACEES = map(os.path.abspath, sys.argv[1:])
INSIDE = "PHANTORA_MANY_USERS"
CACHE = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
FIRST_USER, USERS = 20001, 4
DRIVERS = ("550.163.01", "535.261.03")
TIMEOUT_SECONDS = 300


class ManyUsersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.folder = pathlib.Path(directory.name)
        cls.folder.chmod(0o755)
        for program in (PHANTORA_RUN, NCCL_PERF, *TRACEES):
            shutil.copy(program, cls.folder)
        cls.is_root = INSIDE in os.environ
        drivers = cls.folder / "drivers"
        if cls.is_root:
            drivers.mkdir()
            subprocess.run(["mount", "-o", "bind,ro", CACHE / "drivers", drivers], check=True)
            cls.addClassCleanup(subprocess.run, ["umount", "-l", drivers], check=True)
        else:
            drivers.symlink_to(CACHE / "drivers")
        for user in range(USERS + 1):
            home = cls.folder / f"user{user}"
            home.mkdir(mode=0o700)
            (home / "drivers").symlink_to(drivers)
            if cls.is_root:
                os.chown(home, FIRST_USER + user, FIRST_USER + user)

    def words(self, user, options, command):
        prefix = ["setpriv", "--reuid", str(FIRST_USER + user), "--regid", str(FIRST_USER + user), "--clear-groups"]
        program, *arguments = command
        return [*(prefix if self.is_root else []), str(self.folder / "phantora-run"), "--no-status", "--host-time", "fixed",
                *options, "--", str(self.folder / program), *arguments]

    def runs(self):
        """Of each run: the user, options, command."""
        perf = ["nccl_perf", "all_reduce", "-b", "4K", "-e", "4M", "-f", "32", "-n", "2", "-c", "0"]
        found = []
        for number in range(2 * USERS):
            driver = ["--driver", DRIVERS[number % 2]]
            gpu = "a100" if number in (1, 4, 6) else "h100"
            if number % 4 == 3:
                found.append((number % USERS, ["--cluster", f"dgx-{gpu}:2", "--ranks-per-host", "2", *driver], perf))
            elif number % 4 == 2:
                found.append((number % USERS, ["--gpus", "4", "--gpu", f"{gpu}-sxm{5 if gpu == 'h100' else 4}-80gb", *driver],
                              [*perf, "-g", "4"]))
            else:
                found.append((number % USERS, ["--gpus", "2", "--gpu", f"{gpu}-sxm{5 if gpu == 'h100' else 4}-80gb", *driver],
                              [pathlib.Path(TRACEES[number // 2 % len(TRACEES)]).name]))
        return found

    def result(self, number, user, options, command, into):
        home = self.folder / f"user{user}"
        report = home / f"report{number}-{threading.get_ident()}"
        run = subprocess.run(self.words(user, [*options, "--report", str(report)], command), text=True, capture_output=True,
                             check=False, timeout=TIMEOUT_SECONDS, cwd=home,
                             # A first run would make libcuda's cache, and look for fewer files than the next.
                             env={**os.environ, "HOME": str(home), "PHANTORA_CACHE": str(home), "CUDA_CACHE_DISABLE": "1"})
        text = report.joinpath("report.json").read_bytes() if report.joinpath("report.json").exists() else b""
        # Programs print numbers of processes, which are the machine's.
        output = re.sub(r"Pid +\d+", "Pid", run.stdout)
        into[number] = run.returncode, output, text, run.stderr

    def fail_all_the_time(self, over):
        """A user whose runs end badly, one after another."""
        into = {}
        while not over.is_set():
            for command in (["phantora-run", "nested"], ["nonexistent"], ["nccl_perf", "nothing"]):
                self.result(-1, USERS, ["--gpus", "1"], command, into)

    def test_each_has_the_results_that_it_has_alone(self):
        alone, together = {}, {}
        for number, run in enumerate(self.runs()):
            self.result(number, *run, alone)
            self.assertEqual(alone[number][0], 0, alone[number][3])
            self.assertTrue(alone[number][2], "there is a report")
        over = threading.Event()
        bad = threading.Thread(target=self.fail_all_the_time, args=(over,))
        bad.start()
        threads = [threading.Thread(target=self.result, args=(number, *run, together))
                   for number, run in enumerate(self.runs())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        over.set()
        bad.join()
        for number, (user, options, command) in enumerate(self.runs()):
            with self.subTest(user=user, options=options, command=command):
                self.assertEqual(together[number][0], 0, together[number][3])
                meets = command[0] == "nccl_perf"
                if not meets:
                    self.assertEqual(together[number][1], alone[number][1])
                for mine, its in zip(json.loads(together[number][2])["ranks"], json.loads(alone[number][2])["ranks"],
                                     strict=True):
                    for name in ("kernels", "copies", "peak_memory_bytes"):
                        self.assertEqual(mine[name], its[name], name)
                    self.assertAlmostEqual(mine["simulated_s"], its["simulated_s"],
                                           delta=0.01 * its["simulated_s"] if meets else 10e-6)

    def test_nobody_reads_anothers_cache(self):
        if not self.is_root:
            self.skipTest("only root can be several users")
        for user in range(USERS):
            for path in (self.folder / f"user{user}").rglob("*.kernels"):
                self.assertEqual(path.stat().st_uid, FIRST_USER + user)
                self.assertEqual(path.stat().st_mode & 0o077, 0)


def main():
    if os.getuid() == 0 and INSIDE not in os.environ:
        words = ["unshare", "-m", "--propagation", "private"]
        if subprocess.run([*words, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return subprocess.call([*words, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"})
    return unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    sys.exit(main())
