"""What a package consists of: files below a prefix such as /usr or an environment's folder.

Programs go to bin, the shared libraries that they need and every system may not have to lib/phantora (programs look for them by
their own place, $ORIGIN/../lib/phantora), what 'phantora-run setup' runs to share/phantora, with the keys by which it checks
Debian's archive, and what phantora-run says of itself to where manuals and shells' completions are looked for. The C and C++
libraries are the system's: programs take those of glibc 2.35 and GCC 12 or newer.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile

NAME = "phantora"
# Of the oldest system that the programs run on: Ubuntu 22.04.
GLIBC, GLIBCXX = (2, 35), (3, 4, 30)
# Not taken along: the loader's own, and what comes with GCC.
OF_SYSTEM = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|linux-vdso)\.so\.\d+")
SUMMARY = "Runs unmodified GPU programs on emulated clusters, in simulated time"
LOAD = '''"""phantora-load: sends loads to servers, in the time that their clocks tell."""

import pathlib
import sys


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "serving"))
    import phantora_load
    return phantora_load.main()
'''
# Words of phantora-run, and where what it prints then belongs.
PRINTED = {
    ("manual",): "share/man/man1/phantora-run.1",
    ("completion", "bash"): "share/bash-completion/completions/phantora-run",
    ("completion", "zsh"): "share/zsh/site-functions/_phantora-run",
    ("completion", "fish"): "share/fish/vendor_completions.d/phantora-run.fish",
}


@dataclasses.dataclass
class File:
    path: str  # below the prefix, or below where Python looks for modules
    data: bytes
    executable: bool = False


@dataclasses.dataclass
class Contents:
    files: list  # below the prefix
    modules: list  # of Python
    licences: list  # of libraries, (name, bytes)


def add_arguments(parser):
    """The files that a package is made from, as options of a command line."""
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True, help="the folder that gets the package")
    parser.add_argument("--binary", nargs="+", required=True)
    parser.add_argument("--module", nargs="+", required=True)
    parser.add_argument("--setup", required=True)
    parser.add_argument("--keyring", default="/usr/share/keyrings/debian-archive-keyring.gpg")
    parser.add_argument("--license", nargs="+", required=True)


def libraries(program):
    """Paths of the shared libraries that a program loads, but the system's."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = set()
    for line in listed.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if not arrow or OF_SYSTEM.fullmatch(name):
            continue
        if "not found" in path:
            raise SystemExit(f"package: {program} needs {name}, which is not here")
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
    raise SystemExit(f"package: {library} is of no package of Debian's; its licence is not known")


def check_versions(path):
    """Ends the program if the file needs newer C or C++ libraries than a package promises."""
    symbols = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
    for family, most in (("GLIBC", GLIBC), ("GLIBCXX", GLIBCXX)):
        for version in set(re.findall(rf"\b{family}_([0-9.]+)", symbols)):
            if tuple(map(int, version.split("."))) > most:
                raise SystemExit(f"package: {path} needs {family}_{version}; {'.'.join(map(str, most))} is the most")


def stripped(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", copy, path], check=True)
        check_versions(copy)
        return copy.read_bytes()


def printed(programs):
    """What phantora-run, which is among the programs, says of itself."""
    run = next(program for program in programs if os.path.basename(program) == "phantora-run")
    return [File(path, subprocess.run([run, *words], check=True, capture_output=True).stdout)
            for words, path in PRINTED.items()]


def gather(options):
    """Contents of what add_arguments() has put into `options`."""
    files, needed = [], set()
    for program in sorted(options.binary, key=os.path.basename):
        files.append(File(f"bin/{os.path.basename(program)}", stripped(program), executable=True))
        needed |= libraries(program)
    for library in sorted(needed, key=os.path.basename):
        files.append(File(f"lib/{NAME}/{os.path.basename(library)}", stripped(library)))
    files.append(File(f"share/{NAME}/setup.sh", pathlib.Path(options.setup).read_bytes(), executable=True))
    files.append(File(f"share/{NAME}/debian-archive-keyring.gpg", pathlib.Path(options.keyring).read_bytes()))
    files += printed(options.binary)
    modules = [File(f"{NAME}/__init__.py", f'__version__ = "{options.version}"\n'.encode()),
               File(f"{NAME}/load.py", LOAD.encode())]
    for module in sorted(options.module, key=os.path.basename):
        modules.append(File(f"{NAME}/serving/{os.path.basename(module)}", pathlib.Path(module).read_bytes()))
    return Contents(files, modules, sorted({copyright_of(library) for library in needed}))
