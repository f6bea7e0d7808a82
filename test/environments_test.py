#!/usr/bin/env python3
"""Places that are locked down: a run works there, and doctor says what is weaker.

usage: environments_test.py PHANTORA_RUN RESTRICT TRACEE

Each place is made by the real tool or by what that does (namespaces, limits, the same seccomp rules). In each, doctor must
end well, and a program with two GPUs in simulated and in real time. Prints a table, which LIMITATIONS.md has.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, RESTRICT, TRACEE = map(os.path.abspath, sys.argv[1:4])
INSIDE = "PHANTORA_ENVIRONMENTS"
CACHE = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
NOBODY = "65534"
TIMEOUT_SECONDS = 200
# `words` come before the command, and make the place; `user`: for an ordinary user; `limited`: what doctor is to say.
# `refused`: what doctor and a run say, where nothing works.
Place = collections.namedtuple("Place", "name words user limited refused", defaults=(False, (), ()))
AS_USER = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
SHELL = ["sh", "-ec"]
# Those that Docker and Podman leave to root.
CONTAINER_CAPABILITIES = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
                          "net_bind_service", "net_raw", "sys_chroot", "mknod", "audit_write", "setfcap")


def after(script, *words):
    """Runs the script, then the command."""
    return [*words, *SHELL, script + '; exec "$@"', "sh"]


def podman(folder, is_root):
    """A container of the real tool, with the programs of this machine. Root's own is not told of the machine's groups of
    processes, which Podman takes in one of their two forms only.
    """
    container = pathlib.Path(folder, "container")
    for name in ("etc", "usr", "proc", "sys", "dev", "run", "tmp", "var", "root", "home"):
        (container / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if not (container / name).is_symlink():
            (container / name).symlink_to(f"usr/{name}")
    shutil.copy("/etc/ld.so.cache", container / "etc")
    # Its own limits may be beyond those of this machine's root.
    settings = pathlib.Path(folder, "containers.conf")
    settings.write_text('[containers]\ndefault_ulimits = []\n[engine]\ncgroup_manager = "cgroupfs"\n')
    words = ["env", f"CONTAINERS_CONF={settings}", "podman", "run", "--rm", "--network", "none", "--cgroups=disabled", "--ulimit", "host",
             "--volume", "/usr:/usr:ro", "--volume", f"{folder}:{folder}", "--workdir", f"{folder}/home"]
    words += [word for name in ("HOME", "PHANTORA_CACHE", "TMPDIR", "CUDA_CACHE_DISABLE") for word in ("--env", name)]
    words += ["--rootfs", str(container)]
    if not is_root:
        return words
    groups = "umount -l /sys/fs/cgroup/* /sys/fs/cgroup 2>/dev/null || true; mount -t cgroup2 none /sys/fs/cgroup; "
    return ["unshare", "-m", "--propagation", "private", *SHELL, groups + 'exec "$@"', "sh", *words]


def places(restrict, folder, is_root):
    new_proc = "mount -t proc {} proc /proc"
    as_in_container = ["setpriv", "--bounding-set", ",".join(["-all", *("+" + name for name in CONTAINER_CAPABILITIES)])]
    return [
        Place("this machine", []),
        Place("an ordinary user", [], True),
        Place("Docker: root, its capabilities and default profile",
              [*(as_in_container if is_root else ()), restrict, "--docker", "--"], False, ("timeouts of poll",)),
        Place("Podman itself", podman(folder, is_root)),
        Place("Kubernetes: restricted", ["setpriv", "--no-new-privs", restrict, "--docker", "--"], True,
              ("timeouts of poll",)),
        Place("rootless container (Podman, Apptainer)", ["unshare", "-Urpmf", "--mount-proc"], True),
        Place("bubblewrap, root file system read-only",
              ["bwrap", "--unshare-all", "--share-net", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs",
               "/run", "--bind", folder, folder], True),
        Place("hidepid=2", after(new_proc.format("-o hidepid=2"), "unshare", "-m"), True),
        Place("no user namespaces", after("echo 0 > /proc/sys/user/max_user_namespaces", "unshare", "-Ur"), True),
        Place("/dev/shm of 64 MiB", after("mount -t tmpfs -o size=64m none /dev/shm", "unshare", "-m"), True),
        Place("without Landlock", [restrict, "--no-landlock", "--"], True),
        Place("behind another Landlock ruleset", [restrict, "--within-landlock", "--"], True),
        Place("features of Linux 5.14 alone", [restrict, "--linux-5.14", "--"], True),
        Place("no tracing (Yama's ptrace_scope 3)", [restrict, "--no-tracing", "--"], True,
              refused=("kernel.yama.ptrace_scope", "process_vm_readv is forbidden")),
        Place("1,024 descriptors", after("ulimit -n 1024"), True, ("1024 descriptors",)),
        Place("no locked memory, no core files", after("ulimit -l 0; ulimit -c 0"), True),
    ]


class EnvironmentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.folder = pathlib.Path(directory.name)
        cls.folder.chmod(0o755)
        cls.phantora_run, cls.restrict, cls.tracee = (shutil.copy(program, cls.folder) for program in (PHANTORA_RUN, RESTRICT, TRACEE))
        cls.is_root = INSIDE in os.environ
        drivers = cls.folder / "drivers"
        if cls.is_root:
            drivers.mkdir()
            subprocess.run(["mount", "-o", "bind,ro", CACHE / "drivers", drivers], check=True)
            cls.addClassCleanup(subprocess.run, ["umount", "-l", drivers], check=True)
        else:
            drivers.symlink_to(CACHE / "drivers")
        cls.home = cls.folder / "home"
        cls.home.mkdir()
        cls.home.chmod(0o777)
        (cls.home / "drivers").symlink_to(drivers)

    def do(self, place, *command):
        """The command, there. What takes root is made first, and then the user becomes an ordinary one."""
        words = list(place.words)
        if place.user and self.is_root:
            takes_root = words[:2] == ["unshare", "-m"]
            words = [*words, *AS_USER] if takes_root else [*AS_USER, *words]
        return subprocess.run([*words, *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=TIMEOUT_SECONDS, cwd=self.home, stdin=subprocess.DEVNULL,
                              env={**os.environ, "HOME": str(self.home), "PHANTORA_CACHE": str(self.home), "TMPDIR": str(self.home),
                                   "CUDA_CACHE_DISABLE": "1"})

    def test_all_places(self):
        rows = []
        for place in places(self.restrict, str(self.folder), self.is_root):
            with self.subTest(place=place.name):
                missing = [word for word in place.words[:1] if shutil.which(word) is None]
                if missing:
                    rows.append((place.name, f"cannot be made here: no {missing[0]}", ""))
                    continue
                there = self.do(place, "true")
                if there.returncode != 0:
                    rows.append((place.name, "cannot be made here: " + there.stdout.strip().splitlines()[-1][:80], ""))
                    continue
                doctor = self.do(place, self.phantora_run, "doctor")
                if place.refused:
                    run = self.do(place, self.phantora_run, "--no-status", "--", self.tracee)
                    for result, words in zip((doctor, run), place.refused, strict=True):
                        self.assertGreater(result.returncode, 0)
                        self.assertIn(words, result.stdout)
                    rows.append((place.name, "no", place.refused[1]))
                    continue
                weaker = [re.sub(r"\s+", " ", line[8:]) for line in doctor.stdout.splitlines()
                          if line.startswith(("limited", "slower", "MISSING"))]
                self.assertEqual(doctor.returncode, 0, doctor.stdout)
                for mode in ("fixed", "real"):
                    result = self.do(place, self.phantora_run, "--no-status", "--host-time", mode, "--gpus", "2", "--", self.tracee)
                    self.assertEqual(result.returncode, 0, f"{mode}\n{result.stdout}")
                for words in place.limited:
                    self.assertTrue(any(words in line for line in weaker), f"doctor does not say '{words}': {weaker}")
                rows.append((place.name, "works", "; ".join(weaker)))
        print("\n| place | | doctor says it is weaker |\n|---|---|---|")
        for row in rows:
            print("| %s | %s | %s |" % row)
        made = [row for row in rows if row[1] == "works"]
        self.assertGreaterEqual(len(made), 10 if self.is_root else 4)


def main():
    if os.getuid() == 0 and INSIDE not in os.environ:
        words = ["unshare", "-m", "--propagation", "private"]
        if subprocess.run([*words, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return subprocess.call([*words, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"})
    return unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    sys.exit(main())
