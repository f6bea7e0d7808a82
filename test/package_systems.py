#!/usr/bin/env python3
"""Installs the packages of tools/package.sh in minimal root file systems of other releases, and uses them as an ordinary user.

    sudo test/package_systems.py [--only NAME]

For each system: Debian's or Ubuntu's smallest set of packages and no compiler (mmdebstrap), the wheel into a virtual environment
and, in a second tree of the same, the .deb by apt; then 'phantora-run setup', the list of two emulated GPUs, and a program that
uses both. Needs root, mmdebstrap, some 500 MB in /var/tmp and the releases' mirrors, so that no test runs it by itself.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
# Ubuntu's keys are not on Debian: what is made from it here is thrown away again.
SYSTEMS = {
    "debian-12": f"deb {DEBIAN} bookworm main",
    "debian-13": f"deb {DEBIAN} trixie main",
    "ubuntu-22.04": f"deb [trusted=yes] {UBUNTU} jammy main universe",
    "ubuntu-24.04": f"deb [trusted=yes] {UBUNTU} noble main universe",
    "ubuntu-26.04": f"deb [trusted=yes] {UBUNTU} resolute main universe",
}
PROGRAM = ROOT / "bazel-bin/test/tracees/multi_gpu"
USER = "1000:1000"
# As a user in an environment of its own would type it.
WHEEL = """
python3 -m venv ~/environment
. ~/environment/bin/activate
pip install --quiet --no-index /packages/*.whl
"""
USE = """
! command -v gcc
phantora-run --version
phantora-run setup
phantora-run doctor
phantora-run --gpus 2 -- nvidia-smi -L
phantora-run --gpus 2 -- /packages/multi_gpu
phantora-run --cluster dgx-h100:2 --ranks-per-host 1 --env A=b -- sh -c 'echo $RANK $A'
phantora-load --help | head -1
phantora-replay --version
"""


class System:
    def __init__(self, name, folder):
        self.name, self.root = name, folder / name

    def make(self):
        subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "--include=python3-venv,ca-certificates", "", self.root,
                        SYSTEMS[self.name]], check=True)
        home = self.root / "home/user"
        home.mkdir(parents=True)
        os.chown(home, 1000, 1000)
        packages = self.root / "packages"
        packages.mkdir()
        for file in [*(ROOT / "dist").glob("*.whl"), *(ROOT / "dist").glob("*.deb"), PROGRAM]:
            shutil.copy(file, packages)
        for place in ("proc", "dev"):
            subprocess.run(["mount", "--rbind", "--make-rslave", f"/{place}", self.root / place], check=True)

    def unmake(self):
        for place in ("proc", "dev"):
            subprocess.run(["umount", "--recursive", "--lazy", self.root / place], check=False)

    def shell(self, script, *options):
        environment = {"HOME": "/home/user", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["chroot", *options, self.root, "bash", "-euo", "pipefail", "-c", f"cd ~; {script}"], check=True,
                       env=environment)

    def timed(self, what, *steps):
        before = time.monotonic()
        for step in steps:
            step()
        print(f"PASSED {self.name} {what}: {time.monotonic() - before:.0f} s", flush=True)

    def try_both(self):
        self.timed("wheel", lambda: self.shell(WHEEL + USE, f"--userspec={USER}"))
        # Fetched again, as the first time.
        shutil.rmtree(self.root / "home/user/.cache")
        self.timed("deb", lambda: self.shell("apt-get update --quiet --quiet; apt-get install --quiet --quiet --yes /packages/*.deb >/dev/null"),
                   lambda: self.shell(USE, f"--userspec={USER}"),
                   lambda: self.shell("apt-get remove --quiet --quiet --yes phantora >/dev/null; ! command -v phantora-run"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", action="append", choices=SYSTEMS, help="one of " + ", ".join(SYSTEMS))
    options = parser.parse_args()
    failed = []
    folder = tempfile.mkdtemp(dir="/var/tmp")
    os.chmod(folder, 0o755)
    try:
        for name in options.only or SYSTEMS:
            system = System(name, pathlib.Path(folder))
            try:
                system.make()
                system.try_both()
            except subprocess.CalledProcessError as error:
                print(f"FAILED {name}: {error}", flush=True)
                failed.append(name)
            finally:
                system.unmake()
    finally:
        # Whatever is still mounted there is this machine's own.
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
