#!/usr/bin/env python3
"""With --routing experts are chosen as it says, by a router's own kernel and whatever else was skipped.

usage: routing.py [--phantora PHANTORA_RUN] [--gpu NAME]

The kernel here has the name and the parameters of vLLM's, so that no vLLM is needed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

TOKENS, EXPERTS, CHOSEN = 4096, 64, 4
NAME = "_ZN4vllm3moe17topkGatingSoftmaxILi8ELi64ELi4ELi16ELi32EifEEvPKT5_PKbPfiPT4_Piiiib"
# A thread for each token: its largest logits, one after the other.
TEXT = f"""
extern "C" __global__ void {NAME}(const float* input, const bool*, float* output, int rows, int* indices, int* source,
                                  int k, int, int end, bool) {{
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  unsigned long long taken = 0;
  for (int i = 0; i < k; ++i) {{
    int best = -1;
    for (int e = 0; e < end; ++e) {{
      if (taken >> e & 1) continue;
      if (best < 0 || input[row * end + e] > input[row * end + best]) best = e;
    }}
    taken |= 1ull << best;
    indices[row * k + i] = best;
    output[row * k + i] = input[row * end + best];
    source[row * k + i] = row;
  }}
}}
"""


def inside():
    from gpu import Gpu  # pylint: disable=import-outside-toplevel
    gpu = Gpu()
    kernel = gpu.compile(TEXT, "routing")
    logits, none = np.zeros((TOKENS, EXPERTS), np.float32), np.zeros(1, np.uint8)
    chosen = np.zeros((TOKENS, CHOSEN), np.int32)
    for _ in range(2):
        weights, source = np.zeros((TOKENS, CHOSEN), np.float32), np.zeros((TOKENS, CHOSEN), np.int32)
        kernel.launch(NAME, TOKENS // 128, 128, logits, none, weights, np.int32(TOKENS), chosen, source,
                      np.int32(CHOSEN), np.int32(0), np.int32(EXPERTS), np.uint8(0))
        assert all(len(set(row)) == CHOSEN for row in chosen[:100])
        print("CHOSEN", *np.bincount(chosen.flatten(), minlength=EXPERTS))


def choices(options, *more):
    run = subprocess.run(
        [options.phantora, "--gpu", options.gpu, "--host-time", "fixed", "--no-status", *more, "--", sys.executable,
         os.path.abspath(__file__), "--inside"], check=False, capture_output=True, text=True)
    found = [np.array(line.split()[1:], int) for line in run.stdout.splitlines() if line.startswith("CHOSEN")]
    if run.returncode or len(found) != 2:
        sys.exit(f"FAILED {more}: {run.stdout}{run.stderr}")
    return found, run.stderr


def check(what, holds):
    if not holds:
        sys.exit(f"FAILED: {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phantora", default="phantora-run")
    parser.add_argument("--gpu", default="h100-sxm5-80gb")
    options = parser.parse_args()
    each = TOKENS * CHOSEN / EXPERTS
    found, _ = choices(options)
    check("zeros choose the first experts", (found[0][:CHOSEN] == TOKENS).all() and found[0].sum() == TOKENS * CHOSEN)
    found, said = choices(options, "--routing", "balanced")
    check("all alike", abs(found[0] - each).max() < 5 * each ** 0.5)
    check("another layer", (found[0] != found[1]).any())
    check("it is said", re.search(r"2 times experts were chosen as --routing says", said))
    again, _ = choices(options, "--routing", "balanced")
    check("the same in every run", all((a == b).all() for a, b in zip(found, again)))
    found, _ = choices(options, "--routing", "zipf:1.2")
    shares = np.sort(found[0])[::-1] / TOKENS
    check(f"hot experts {shares[:3]}", shares[0] > 0.6 and shares[0] > shares[1] > shares[2] and shares[-1] < 0.02)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(" ".join("1" if 8 <= expert < 16 else "0" for expert in range(EXPERTS)) + "\n")
        file.flush()
        found, _ = choices(options, "--routing", file.name)
        check("only those of the file", found[0][8:16].sum() == TOKENS * CHOSEN)
    print("PASSED routing")


if __name__ == "__main__":
    if "--inside" in sys.argv:
        inside()
    else:
        main()
