#!/usr/bin/env python3
"""Products of matrices by cuBLAS and convolutions by cuDNN on an emulated GPU are those of the processor.

usage: products.py [--phantora PHANTORA_RUN] [--gpu NAME]

Shapes for which they choose kernels of many kinds: with tensor cores and without, and on Hopper those whose
operands come by copies of tensors and of pixels, in clusters of up to 16 blocks. All by their own machine code.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

# rows, columns, depth; kernels of Hopper's own from about 10^9 products on.
SHAPES = ((129, 520, 264), (64, 4096, 128), (2048, 512, 512), (1024, 2048, 1024))
# Of the largest result: rounding to the type, and in float32 sums in another order.
# images, channels, results, height, width, kernel, stride, padding, dilation
CONVOLUTIONS = ((4, 64, 64, 14, 14, 3, 1, 1, 1), (2, 64, 128, 15, 17, 3, 2, 1, 1), (2, 128, 64, 8, 8, 1, 1, 0, 1),
                (2, 32, 64, 20, 20, 3, 1, 2, 2), (1, 3, 64, 40, 40, 7, 2, 3, 1))
TOLERANCES = {"bfloat16": 5e-3, "float16": 7e-4, "tf32": 1e-3, "float32": 2e-6}


def operands(torch, name, rows, columns, depth, transposed):
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    a = torch.randn((depth, rows) if transposed & 1 else (rows, depth)).to(dtype)
    b = torch.randn((columns, depth) if transposed & 2 else (depth, columns)).to(dtype)
    return a, b


def error(torch, got, expected):
    return ((got.float().cpu() - expected).abs().max() / expected.abs().max()).item()


def convolution(torch, dtype, form, shape):
    """How far results and both gradients are off, at most."""
    images, channels, results, height, width, size, stride, padding, dilation = shape
    x = torch.randn(images, channels, height, width).to(dtype).to(memory_format=form)
    weight = (torch.randn(results, channels, size, size) * 0.05).to(dtype).to(memory_format=form)
    found = []
    gradient = None
    for place in ("cpu", "cuda"):
        # The processor has the same values in float32.
        of = [(t.float() if place == "cpu" else t).to(place).detach().requires_grad_() for t in (x, weight)]
        y = torch.nn.functional.conv2d(*of, stride=stride, padding=padding, dilation=dilation)
        gradient = torch.randn(y.shape).to(dtype) if gradient is None else gradient
        y.backward(gradient.to(place).to(y.dtype))
        found.append((y, of[0].grad, of[1].grad))
    return max(error(torch, got, expected) for expected, got in zip(*found))


def convolutions(torch):
    torch.backends.cudnn.allow_tf32 = True
    for name in ("bfloat16", "float16", "float32"):
        tolerance = TOLERANCES["tf32" if name == "float32" else name]
        for form in (torch.contiguous_format, torch.channels_last):
            for shape in CONVOLUTIONS:
                off = convolution(torch, getattr(torch, name), form, shape)
                assert off < 2 * tolerance, (name, form, shape, off)


def inside():
    import torch
    torch.manual_seed(1)
    worst = {}
    for name in TOLERANCES:
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        for number, (rows, columns, depth) in enumerate(SHAPES):
            # Each layout once, and the largest in all.
            for transposed in range(4) if number == len(SHAPES) - 1 and name != "float32" else (number,):
                a, b = operands(torch, name, rows, columns, depth, transposed)
                on_gpu = [x.cuda().t() if transposed & 1 << i else x.cuda() for i, x in enumerate((a, b))]
                on_cpu = [x.float().t() if transposed & 1 << i else x.float() for i, x in enumerate((a, b))]
                off = error(torch, on_gpu[0] @ on_gpu[1], on_cpu[0] @ on_cpu[1])
                worst[name] = max(worst.get(name, 0), off)
                assert off < TOLERANCES[name], (name, rows, columns, depth, transposed, off)
    a, b = torch.randn(6, 300, 128).bfloat16(), torch.randn(6, 128, 520).bfloat16()
    assert error(torch, a.cuda() @ b.cuda(), a.float() @ b.float()) < TOLERANCES["bfloat16"]
    layer, x = torch.nn.Linear(768, 3072).half(), torch.randn(512, 768).half()
    expected = torch.nn.functional.linear(x.float(), layer.weight.float(), layer.bias.float())
    assert error(torch, layer.cuda()(x.cuda()), expected) < TOLERANCES["float16"]
    for rows, columns, depth in ((129, 65, 33), (1000, 333, 77), (512, 512, 256)):
        for transposed in range(4):
            a, b = (x.double() for x in operands(torch, "float32", rows, columns, depth, transposed))
            a, b = a.t() if transposed & 1 else a, b.t() if transposed & 2 else b
            off = ((a.cuda() @ b.cuda()).cpu() - a @ b).abs().max().item()
            assert off < 1e-12, ("float64", rows, columns, depth, transposed, off)
    convolutions(torch)
    print(json.dumps(worst))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phantora", default="phantora-run")
    parser.add_argument("--gpu", default="h100-sxm5-80gb")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "kernels.jsonl")
        result = subprocess.run(
            [arguments.phantora, "--gpu", arguments.gpu, "--execute", "100000000000", "--log-kernels", log, "--",
             sys.executable, os.path.abspath(__file__), "--inside"], check=False, text=True, capture_output=True)
        if result.returncode != 0 or "not executed" in result.stderr:
            sys.exit(f"FAILED {result.stdout}{result.stderr}")
        with open(log, encoding="utf-8") as lines:
            symbols = {json.loads(line)["symbol"] for line in lines}
    print(result.stdout.strip(), f"{len(symbols)} kernels")
    for kind in ("gemm", "fprop", "dgrad", "wgrad") if arguments.gpu.startswith("h") else ():
        if not any(f"sm90_xmma_{kind}" in symbol for symbol in symbols):
            sys.exit(f"FAILED: no {kind} of Hopper's own")
    print("PASSED products")


if __name__ == "__main__":
    if "--inside" in sys.argv:
        inside()
    else:
        main()
