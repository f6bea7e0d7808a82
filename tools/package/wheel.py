#!/usr/bin/env python3
"""Writes Phantora's wheel: the same bytes from the same files.

    wheel.py --version V --out DIRECTORY --binary FILE... --module FILE... --setup FILE --keyring FILE --license FILE...

contents.py says what is in it; programs go to the environment's bin.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import stat
import sys
import zipfile

import contents
from contents import NAME

TAG = "py3-none-manylinux_{}_{}_x86_64".format(*contents.GLIBC)
ENTRY_POINTS = "[console_scripts]\nphantora-load = phantora.load:main\n"


def metadata(version):
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
            f"Summary: {contents.SUMMARY}\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\nRequires-External: bash\n\n"
            "`phantora-run setup` fetches NVIDIA's driver libraries once; then\n"
            "`phantora-run --cluster dgx-h100:4 -- python train.py`.\n")


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
    packed = contents.gather(options)
    wheel = Wheel(path)
    for module in packed.modules:
        wheel.add(module.path, module.data)
    for file in packed.files:
        folder, _, name = file.path.partition("/")
        wheel.add(f"{data}/scripts/{name}" if folder == "bin" else f"{data}/data/{file.path}", file.data, file.executable)
    for package, text in packed.licences:
        wheel.add(f"{info}/licenses/{package}", text)
    wheel.add(f"{info}/METADATA", metadata(options.version))
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {TAG}\n")
    wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS)
    for text in options.license:
        wheel.add(f"{info}/{os.path.basename(text)}", pathlib.Path(text).read_bytes())
    wheel.close(info)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    contents.add_arguments(parser)
    print(write(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
