#!/usr/bin/env python3
"""Products that a library of this machine's computes (`--execute all`) are those of the processor.

usage: library.py [--phantora PHANTORA_RUN] [--gpu NAME] [--speed]

--speed says instead how fast they are on one core, beside their own machine code.
"""

import argparse
import os
import re
import subprocess
import sys
import time

# Of the largest result. In tf32 factors may be rounded or cut off.
TOLERANCES = {"float32": 3e-6, "bfloat16": 6e-3, "float16": 1e-3, "float64": 1e-13, "tf32": 2e-3}
SHAPES = ((512, 768, 1024), (300, 512, 640), (1024, 256, 3144))
# At least so many of a hundred products: kernels that share one result between blocks are executed.
LEAST_PERCENT = 70


def inside():
    import torch
    torch.manual_seed(0)

    def check(what, got, expected, tolerance):
        off = ((got.double().cpu() - expected).abs().max() / expected.abs().max()).item()
        assert off < tolerance, (what, off)

    products = 0
    # bfloat16 before float16: some kernels of both begin with the same code.
    for name, tolerance in TOLERANCES.items():
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        dtype = torch.float32 if name == "tf32" else getattr(torch, name)

        def random(*shape):
            return torch.randn(shape).to(dtype)

        for rows, depth, columns in SHAPES:
            for transposed in range(4):
                a = random(depth, rows) if transposed & 1 else random(rows, depth)
                b = random(columns, depth) if transposed & 2 else random(depth, columns)
                on_gpu = [x.t() if transposed & 1 << i else x for i, x in enumerate((a.cuda(), b.cuda()))]
                on_cpu = [x.t() if transposed & 1 << i else x for i, x in enumerate((a.double(), b.double()))]
                check((name, rows, depth, columns, transposed), on_gpu[0] @ on_gpu[1], on_cpu[0] @ on_cpu[1],
                      tolerance)
        if name == "tf32":
            # Rounded, not cut off, which would make all sums smaller.
            a, b = torch.rand(512, 768), torch.rand(768, 1024)
            ratio = (a.cuda() @ b.cuda()).double().cpu() / (a.double() @ b.double())
            assert abs(ratio.mean().item() - 1) < 3e-5, ratio.mean()
        # A bias, several matrices, a factor and what was there, a part of a wider matrix.
        layer, x = torch.nn.Linear(768, 1536).to(dtype), random(512, 768)
        expected = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
        check((name, "linear"), layer.cuda()(x.cuda()), expected, tolerance)
        a, b = random(12, 256, 64), random(12, 64, 256)
        check((name, "bmm"), torch.bmm(a.cuda(), b.cuda()), torch.bmm(a.double(), b.double()), tolerance)
        a, b, c = random(512, 256), random(256, 640), random(512, 640)
        check((name, "addmm"), torch.addmm(c.cuda(), a.cuda(), b.cuda(), alpha=0.5),
              c.double() + 0.5 * (a.double() @ b.double()), tolerance)
        wide = random(512, 1024)
        check((name, "part"), wide.cuda()[:, 256:512] @ b.cuda(), wide[:, 256:512].double() @ b.double(), tolerance)
        # The same once more, with other numbers at other addresses: nothing of it is watched again.
        kept = [torch.empty(1 << 20, device="cuda")]
        for _ in range(2):
            a, b = random(512, 256), random(256, 640)
            check((name, "again"), a.cuda() @ b.cuda(), a.double() @ b.double(), tolerance)
            kept.append(torch.empty(1 << 20, device="cuda"))
        products += 4 * len(SHAPES) + 6
    # What is not finite stays so.
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    a[3, 5], a[7, 9] = float("inf"), float("nan")
    result = (a.cuda() @ b.cuda()).cpu()
    assert result[7].isnan().all() and not result[3].isfinite().any() and result[4].isfinite().all()
    print(f"PRODUCTS {products + 2}")


def test(arguments):
    result = subprocess.run(
        [arguments.phantora, "--gpu", arguments.gpu, "--verbose", "--no-status", "--execute", "all", "--",
         sys.executable, os.path.abspath(__file__), "--inside"], check=False, text=True, capture_output=True)
    if result.returncode == 0 and "libopenblas0-pthread" in result.stderr:
        print(f"{result.stdout}PASSED library, by machine code: OpenBLAS is not installed here")
        return
    by_library = re.search(r"(\d+) of them products by OpenBLAS", result.stderr)
    products = re.search(r"PRODUCTS (\d+)", result.stdout)
    if result.returncode != 0 or "not executed" in result.stderr or not by_library or not products:
        sys.exit(f"FAILED {result.stdout}{result.stderr}")
    others = "\n".join(line for line in result.stderr.splitlines() if "not by OpenBLAS" in line)
    print(f"{by_library[1]} of {products[1]} products by OpenBLAS; others:\n{others}")
    if int(by_library[1]) * 100 < LEAST_PERCENT * int(products[1]):
        sys.exit("FAILED: too few")
    print("PASSED library")


def multiply(name, size, times):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    a, b = (torch.randn(size, size).to(dtype).cuda() for _ in range(2))
    for _ in range(times):
        a @ b
    torch.cuda.synchronize()


def speed(arguments):
    """GFLOP/s: what some more of them cost, by the fastest of three runs each."""
    for name, size, few, many in (("float32", 2048, 1, 9), ("bfloat16", 2048, 1, 9), ("float16", 4096, 2, 6)):
        for execute in ("all", "100000000000"):
            seconds = []
            times = (few, many) if execute == "all" else (1, 2)
            for count in times:
                taken = []
                for _ in range(3 if execute == "all" else 1):
                    began = time.monotonic()
                    subprocess.run(
                        ["taskset", "--cpu-list", "0", arguments.phantora, "--gpu", arguments.gpu, "--no-status",
                         "--host-time", "fixed", "--execute", execute, "--", sys.executable, os.path.abspath(__file__),
                         "--multiply", name, str(size), str(count)], check=True, capture_output=True)
                    taken.append(time.monotonic() - began)
                seconds.append(min(taken))
            rate = 2 * size ** 3 * (times[1] - times[0]) / (seconds[1] - seconds[0]) * 1e-9
            print(f"{arguments.gpu} {name} {size}: {rate:.1f} GFLOP/s with --execute {execute}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phantora", default="phantora-run")
    parser.add_argument("--gpu", default="h100-sxm5-80gb")
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    if arguments.speed:
        speed(arguments)
    else:
        test(arguments)


if __name__ == "__main__":
    if "--inside" in sys.argv:
        inside()
    elif "--multiply" in sys.argv:
        multiply(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
