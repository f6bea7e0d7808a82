#!/usr/bin/env python3
"""Writes Phantora's wheel: the same bytes from the same files.

    wheel.py --version V --out DIRECTORY --binary FILE... --module FILE... --setup FILE --keyring FILE --license FILE...

Programs go to the environment's bin, the shared libraries that they need and every system may not have to lib/phantora
there (programs look for them by their own place, $ORIGIN/../lib/phantora), what 'phantora-run setup' runs to
share/phantora, with the keys by which it checks Debian's archive. The C and C++ libraries are the system's: programs take those of glibc 2.35 and GCC 12 or newer.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import zipfile

NAME = "phantora"
# Of the oldest system that the programs run on: Ubuntu 22.04.
GLIBC, GLIBCXX = (2, 35), (3, 4, 30)
TAG = "py3-none-manylinux_2_35_x86_64"
# Not taken along: the loader's own, and what comes with GCC.
OF_SYSTEM = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|linux-vdso)\.so\.\d+")
ENTRY_POINTS = "[console_scripts]\nphantora-load = phantora.load:main\n"
LOAD = '''"""phantora-load: sends loads to servers, in the time that their clocks tell."""

import pathlib
import sys


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "serving"))
    import phantora_load
    return phantora_load.main()
'''


def metadata(version):
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
            "Summary: Runs unmodified GPU programs on emulated clusters, in simulated time\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\nRequires-External: bash\n\n"
            "`phantora-run setup` fetches NVIDIA's driver libraries once; then\n"
            "`phantora-run --cluster dgx-h100:4 -- python train.py`.\n")


def libraries(program):
    """Paths of the shared libraries that a program loads, but the system's."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = set()
    for line in listed.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if not arrow or OF_SYSTEM.fullmatch(name):
            continue
        if "not found" in path:
            raise SystemExit(f"wheel.py: {program} needs {name}, which is not here")
        found.add(path.rsplit(" (", 1)[0])
    return found


def copyright_of(library):
    """(name, text) of the licence that Debian has with a library."""
    # dpkg knows it by one of its names: /lib is a link to /usr/lib.
    for path in (library, os.path.realpath(library), "/usr" + library):
        owner = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True, check=False).stdout
        if owner:
            package = owner.split(":")[0]
            return package, pathlib.Path("/usr/share/doc", package, "copyright").read_bytes()
    raise SystemExit(f"wheel.py: {library} is of no package of Debian's; its licence is not known")


def check_versions(path):
    """Ends the program if the file needs newer C or C++ libraries than TAG promises."""
    symbols = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
    for family, most in (("GLIBC", GLIBC), ("GLIBCXX", GLIBCXX)):
        for version in set(re.findall(rf"\b{family}_([0-9.]+)", symbols)):
            if tuple(map(int, version.split("."))) > most:
                raise SystemExit(f"wheel.py: {path} needs {family}_{version}; {'.'.join(map(str, most))} is the most")


def stripped(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", copy, path], check=True)
        check_versions(copy)
        return copy.read_bytes()


class Wheel:
    def __init__(self, path):
        self.file = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.record = []

    def add(self, name, data, executable=False):
        if isinstance(data, str):
            data = data.encode()
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3  # Unix
        entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        self.file.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, info):
        name = f"{info}/RECORD"
        self.record.append(f"{name},,")
        self.add(name, "\n".join(self.record) + "\n")
        self.file.close()


def write(options):
    info, data = f"{NAME}-{options.version}.dist-info", f"{NAME}-{options.version}.data"
    path = pathlib.Path(options.out, f"{NAME}-{options.version}-{TAG}.whl")
    wheel = Wheel(path)
    wheel.add(f"{NAME}/__init__.py", f'__version__ = "{options.version}"\n')
    wheel.add(f"{NAME}/load.py", LOAD)
    for module in sorted(options.module, key=os.path.basename):
        wheel.add(f"{NAME}/serving/{os.path.basename(module)}", pathlib.Path(module).read_bytes())
    needed = set()
    for program in sorted(options.binary, key=os.path.basename):
        wheel.add(f"{data}/scripts/{os.path.basename(program)}", stripped(program), executable=True)
        needed |= libraries(program)
    for library in sorted(needed, key=os.path.basename):
        wheel.add(f"{data}/data/lib/{NAME}/{os.path.basename(library)}", stripped(library))
    for package, text in sorted({copyright_of(library) for library in needed}):
        wheel.add(f"{info}/licenses/{package}", text)
    wheel.add(f"{data}/data/share/{NAME}/setup.sh", pathlib.Path(options.setup).read_bytes(), executable=True)
    wheel.add(f"{data}/data/share/{NAME}/debian-archive-keyring.gpg", pathlib.Path(options.keyring).read_bytes())
    wheel.add(f"{info}/METADATA", metadata(options.version))
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {TAG}\n")
    wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS)
    for text in options.license:
        wheel.add(f"{info}/{os.path.basename(text)}", pathlib.Path(text).read_bytes())
    wheel.close(info)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--binary", nargs="+", required=True)
    parser.add_argument("--module", nargs="+", required=True)
    parser.add_argument("--setup", required=True)
    parser.add_argument("--keyring", default="/usr/share/keyrings/debian-archive-keyring.gpg")
    parser.add_argument("--license", nargs="+", required=True)
    print(write(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
