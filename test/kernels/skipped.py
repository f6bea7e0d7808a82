#!/usr/bin/env python3
"""What kernels should have written that were not executed is known, and so is what depends on it.

usage: skipped.py [--phantora PHANTORA_RUN] [--gpu NAME]
"""

import argparse
import re
import subprocess
import sys

# Results that are printed: what is real whatever is skipped, and what depends on a product that is.
PROGRAM = """
import torch
torch.manual_seed(1)
n = 4096
a = torch.ones(n, n, device="cuda", dtype=torch.bfloat16)
other = torch.full((n // 4, n), 7.0, device="cuda", dtype=torch.bfloat16)
product = torch.full((n, n), 5.0, device="cuda", dtype=torch.bfloat16)
torch.mm(a, a, out=product)
# Kernels that have nothing to do with it are still executed, large ones too.
real = torch.arange(1 << 20, device="cuda")
print("real", (real * 2).sum().item(), other[0, 0].item(), flush=True)
def tell(name, *values):
    print(name, *(v if isinstance(v, str) else f"{v:.6g}" for v in values), flush=True)
tell("corners", product[0, 0].item(), product[0, -1].item(), product[-1, 0].item(), product[-1, -1].item())
middle = product[n // 2 : n // 2 + 8].cpu().float()
tell("middle", middle.abs().min().item(), middle.abs().max().item())
small = product[0, :16].float() + 1
tell("small", small.sum().item())
q = torch.randn(2, 16, 2048, 64, device="cuda", dtype=torch.bfloat16)
attended = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).cpu()
tell("attended", attended.float().abs().min().item(), attended.float().abs().max().item())
print("again", (real * 3).sum().item(), other[-1, -1].item())
"""
# A product, and another into a part of a wider matrix, whose rest stays.
BESIDE = """
import torch
n = 4096
a = torch.ones(n, n, device="cuda", dtype=torch.bfloat16)
torch.mm(a, a)
wide = torch.empty(n, 2 * n, device="cuda", dtype=torch.bfloat16)
wide[:64] = 7
torch.mm(a, a, out=wide[:, :n])
print("beside", *(v.item() for v in (wide[0, n], wide[20, n + 7], wide[63, -1])))
"""
# An optimizer's kernels, whose tables of tensors are filled in part, the rest with what was there, and whose factors are
# others in each step. What none of them writes stays real.
OPTIMIZER = """
import torch
n = 4096
a = torch.ones(n, n, device="cuda", dtype=torch.bfloat16)
other = torch.full((1 << 20,), 7.0, device="cuda")
of_product = torch.mm(a, a).flatten()
parameters = [torch.nn.Parameter(torch.ones(size, device="cuda")) for size in (300_000, 70_000, 500_001, 1_024, 200_000)]
optimizer = torch.optim.AdamW(parameters, foreach=True)
for step in range(STEPS):
    for parameter in parameters:
        parameter.grad = of_product[: parameter.numel()].float()
    optimizer.step()
print("other", other.sum().item(), other[-1].item())
"""
REAL = {"real": [str(2 * sum(range(1 << 20))), "7.0"], "again": [str(3 * sum(range(1 << 20))), "7.0"]}


def run(options, skipped, program=PROGRAM):
    command = [options.phantora, "--gpu", options.gpu, "--host-time", "fixed", "--no-status", "--skipped", skipped,
               "--", sys.executable, "-c", program]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    return done, {name: values.split() for name, values in lines.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--phantora", default="bazel-bin/tools/phantora-run")
    parser.add_argument("--gpu", default="a100-sxm4-80gb")
    options = parser.parse_args()
    failed = []

    def expect(condition, what, done):
        print("ok    " if condition else "WRONG ", what)
        if not condition:
            print(done.stdout, done.stderr, file=sys.stderr)
            failed.append(what)

    for skipped in ("zeros", "noise", "stale"):
        done, found = run(options, skipped)
        expect(done.returncode == 0 and all(found.get(name) == values for name, values in REAL.items()),
               f"{skipped}: what does not depend on it is real", done)
        corners = [float(v) for v in found.get("corners", [])] or [float("nan")]
        middle = [float(v) for v in found.get("middle", [])] or [float("nan")]
        of_products = {"zeros": lambda v: v == 0, "noise": lambda v: 0.0039 <= abs(v) < 0.0157,
                       "stale": lambda v: v == 5}[skipped]
        expect(all(map(of_products, corners + middle)), f"{skipped}: a product's results", done)
        if skipped != "stale":
            attended = [float(v) for v in found.get("attended", [])] or [float("nan")]
            expect(all(map(of_products, attended)), f"{skipped}: attention's results", done)
        small = float(found.get("small", ["nan"])[0])
        expect(small == {"zeros": 16, "stale": 96}.get(skipped, small) and 15 < small < 97,
               f"{skipped}: a small kernel is executed", done)
        warned = done.stderr.count("may mean nothing from here on")
        # Four elements, rows, a sum, attention's results, which are copied in pieces.
        copies = re.search(r"(\d+) copies to hosts, of (\d+) bytes, depend on those", done.stderr)
        expect(warned == 1 and copies and int(copies[1]) >= 7 and
               int(copies[2]) == 4 * 2 + 8 * 4096 * 2 + 4 + 2 * 16 * 2048 * 64 * 2,
               f"{skipped}: copies of it are told", done)

    done, found = run(options, "zeros", BESIDE)
    expect(found.get("beside") == ["7.0"] * 3, "what lies beside a product's rows stays", done)

    real_only = PROGRAM.split("def tell")[0]
    done, found = run(options, "zeros", real_only)
    expect(found.get("real") == REAL["real"] and "may mean nothing" not in done.stderr and
           "were not" in done.stderr, "what is real is not warned of", done)

    tried = []
    for steps in (10, 30):
        done, found = run(options, "zeros", OPTIMIZER.replace("STEPS", str(steps)))
        expect(found.get("other") == [str(7.0 * (1 << 20)), "7.0"] and "may mean nothing" not in done.stderr and
               "nobody knows" not in done.stderr, f"{steps} steps of an optimizer: what they write is known", done)
        more = re.search(r"(\S+) more to find out", done.stderr)
        tried.append(float(more[1]) if more else float("nan"))
    expect(tried[1] < 1.05 * tried[0], f"that is found out once ({tried[0]:.3g}, {tried[1]:.3g} instructions)", done)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
