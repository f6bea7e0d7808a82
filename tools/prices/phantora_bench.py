#!/usr/bin/env python3
"""Measures a GPU for Phantora: the package beside this file. bundle_bench.py makes one file of it, which is
what is copied to a machine that has the GPU."""

import sys

from bench.main import main

if __name__ == "__main__":
    sys.exit(main())
