#!/usr/bin/env python3
"""Makes phantora_bench.pyz: the package `bench` in one file, for a machine with nothing but PyTorch.

  bundle_bench.py FILE
"""

import os
import pathlib
import shutil
import sys
import tempfile
import zipapp

SOURCES = pathlib.Path(__file__).absolute().parent
MODULES = ["kernel_rows.py", *(f"bench/{path.name}" for path in sorted((SOURCES / "bench").glob("*.py")))]
EPOCH = 315619200  # 1980, the first year of a ZIP file: the same sources make the same bytes


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        for name in MODULES:
            copy = pathlib.Path(folder) / name
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(SOURCES / name, copy)
        for path in [pathlib.Path(folder), *pathlib.Path(folder).rglob("*")]:
            os.utime(path, (EPOCH, EPOCH))
            path.chmod(0o755 if path.is_dir() else 0o644)
        zipapp.create_archive(folder, sys.argv[1], "/usr/bin/env python3", "bench.main:main", compressed=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
