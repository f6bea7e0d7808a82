#!/usr/bin/env python3
"""What kernels compute on an emulated GPU, compared with this machine's processor.

usage: kernels_test.py PHANTORA_RUN GPU PROGRAM [OPTION...]

The programs are in test/kernels; their Python is the one that tools/setup.sh installs from PyPI.
"""

import os
import pathlib
import sys


def main():
    phantora_run, gpu, program = sys.argv[1:4]
    cache = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora")
    python = str(cache / "venv/bin/python")
    os.execv(python, [python, os.path.realpath(program), "--phantora", os.path.realpath(phantora_run),
                      "--gpu", gpu, *sys.argv[4:]])


if __name__ == "__main__":
    main()
