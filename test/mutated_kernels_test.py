#!/usr/bin/env python3
"""PyTorch's kernels with words spoiled end as a launch may end, and never otherwise.

usage: mutated_kernels_test.py MUTATE_KERNELS [LAUNCHES [SEED [CUBINS_PER_LIBRARY]]]
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from sass_text_test import ARCHITECTURES, LIBRARIES, packages, tool


def extract(library, architecture, count, folder):
    """Puts `count` cubins of the library, evenly taken, into the folder."""
    names = re.findall(r"\S+\.sm_%d\.cubin" % architecture, tool("cuobjdump", "-lelf", library))
    for index in range(min(count, len(names))):
        tool("cuobjdump", "-xelf", names[index * len(names) // min(count, len(names))], library, cwd=folder)


def main():
    mutate, launches, seed, count = sys.argv[1], *(sys.argv[2:] + ["4000", "1", "2"][len(sys.argv) - 2:])
    with tempfile.TemporaryDirectory() as folder:
        for architecture in ARCHITECTURES:
            for library in LIBRARIES:
                extract(str(packages() / "torch/lib" / library), architecture, int(count), folder)
        cubins = sorted(str(path) for path in pathlib.Path(folder).iterdir())
        result = subprocess.run([mutate, launches, seed, *cubins], stdout=subprocess.PIPE, text=True)
    print(result.stdout, end="")
    if result.returncode != 0:
        print(f"it ended with {result.returncode}")
        return 1
    # Some are what they were: without an end of any, nothing would have been tried.
    return 0 if re.search(r" [1-9]\d* done;", result.stdout) else 1


if __name__ == "__main__":
    sys.exit(main())
