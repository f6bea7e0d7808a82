#!/usr/bin/env python3
"""Writes Phantora's package for Debian and Ubuntu: the same bytes from the same files and the same dpkg-deb.

    deb.py --version V --out DIRECTORY --binary FILE... --module FILE... --setup FILE --keyring FILE --license FILE...

contents.py says what is in it; it goes below /usr.
"""

import argparse
import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import contents
from contents import File, NAME

MODULES = "lib/python3/dist-packages"
# What is in a package has no date of its own; 1980 is the oldest that a wheel can have, too.
EPOCH = 315532800
MAINTAINER = "Phantora <phantora@localhost>"
LOAD = '''#!/usr/bin/python3
import sys

from phantora.load import main

sys.exit(main())
'''


def control(version, kib):
    # GCC 12's C++ library has GLIBCXX_3.4.30. What 'phantora-run setup' uses is on every Debian.
    return (f"Package: {NAME}\nVersion: {version}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\n"
            f"Installed-Size: {kib}\nSection: science\nPriority: optional\n"
            f"Depends: libc6 (>= {contents.GLIBC[0]}.{contents.GLIBC[1]}), libgcc-s1, libstdc++6 (>= 12), bash, ca-certificates, "
            "xz-utils\nRecommends: python3\n"
            f"Description: {contents.SUMMARY}\n"
            " phantora-run runs a program as if the machine had NVIDIA GPUs, or were a cluster\n"
            " of such machines: every rank runs for real, and every clock is simulated.\n"
            " .\n"
            " 'phantora-run setup' fetches NVIDIA's driver libraries once.\n")


def licences(packed, options):
    """/usr/share/doc/phantora/copyright: the project's own, and those of the libraries that come along."""
    parts = [pathlib.Path(text).read_bytes() for text in options.license]
    for package, text in packed.licences:
        parts.append(f"=== {package}, whose library is in /usr/lib/{NAME} ===\n\n".encode() + text)
    return b"\n\n".join(parts)


def compressed(file):
    """Manuals are, in Debian."""
    if not file.path.startswith("share/man/"):
        return file
    return File(f"{file.path}.gz", gzip.compress(file.data, 9, mtime=0))


def write(options):
    packed = contents.gather(options)
    files = [compressed(file) for file in packed.files]
    files += [File(f"{MODULES}/{module.path}", module.data) for module in packed.modules]
    files.append(File("bin/phantora-load", LOAD.encode(), executable=True))
    files.append(File(f"share/doc/{NAME}/copyright", licences(packed, options)))
    path = pathlib.Path(options.out, f"{NAME}_{options.version}_amd64.deb")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root")
        for file in files:
            target = root / "usr" / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)
            target.chmod(0o755 if file.executable else 0o644)
        debian = root / "DEBIAN"
        debian.mkdir()
        debian.joinpath("control").write_text(control(options.version, sum(len(file.data) for file in files) // 1024))
        debian.joinpath("md5sums").write_text("".join(
            f"{hashlib.md5(file.data).hexdigest()}  usr/{file.path}\n" for file in sorted(files, key=lambda file: file.path)))
        for each in [root, *root.rglob("*")]:
            if each.is_dir():
                each.chmod(0o755)
            os.utime(each, (EPOCH, EPOCH))
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zxz", root, path], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})
    return path


def main():
    if not shutil.which("dpkg-deb"):
        raise SystemExit("deb.py: dpkg-deb, which makes packages, is not here")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    contents.add_arguments(parser)
    print(write(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
