#!/usr/bin/env python3
"""What a GPU's special function unit returns, for every mantissa: bits less those of the rounded true value.

  special_functions.py -o FILE.npz [--decimate N] [--check]

With --check, compares with what the file has instead of writing it (special_h100.npz beside this: of an H100, every
16th input, so with --decimate 16). Arrays of the file, by function: differences in units of the last place (16 bits
each), of inputs whose bits are `start + stride * i`. Run with PHANTORA_CUBINS where there is no NVRTC
(test/kernels/recorded.py).
"""

import argparse
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "kernels"), os.path.join(HERE, "../../test/kernels")):
    if os.path.isdir(folder):
        sys.path.insert(0, folder)
        break

from gpu import Gpu  # noqa: E402  pylint: disable=wrong-import-position

TWO_PI = 2 * np.pi

# Name, PTX, first bits, count, stride, the true function in double. Where exact fractions matter, an input is
# offset + i * step instead (start None).
FUNCTIONS = [
    ("rcp", "rcp.approx.ftz.f32", 0x3F800000, 1 << 23, 1, lambda x: 1 / x),
    ("rsqrt", "rsqrt.approx.ftz.f32", 0x3F800000, 1 << 23, 2, lambda x: 1 / np.sqrt(x)),
    ("sqrt", "sqrt.approx.ftz.f32", 0x3F800000, 1 << 23, 2, np.sqrt),
    ("lg2", "lg2.approx.ftz.f32", 0x3F000000, 1 << 23, 2, np.log2),
    ("lg2_1024", "lg2.approx.ftz.f32", 0x44800000, 1 << 19, 16, np.log2),
    ("ex2_grid", "ex2.approx.ftz.f32", None, 1 << 23, (0.0, 2.0**-23), np.exp2),
    ("ex2_negative", "ex2.approx.ftz.f32", None, 1 << 20, (-1.0, 2.0**-20), np.exp2),
    ("ex2_small", "ex2.approx.ftz.f32", 0x34000000, 1 << 20, 176, np.exp2),
    ("ex2_large", "ex2.approx.ftz.f32", 0x40000000, 1 << 20, 24, np.exp2),
    ("sin", "sin.approx.ftz.f32", 0x3B000000, 1 << 21, 44, np.sin),
    ("cos", "cos.approx.ftz.f32", 0x3B000000, 1 << 21, 44, np.cos),
    ("tanh", "tanh.approx.f32", 0x39000000, 1 << 21, 68, np.tanh),
]
HALVES = [("ex2_f16", "ex2.approx.f16"), ("tanh_f16", "tanh.approx.f16"), ("tanh_bf16", "tanh.approx.bf16"),
          ("ex2_bf16", "ex2.approx.ftz.bf16")]
DOUBLES = [("rcp64", "rcp.approx.ftz.f64", 1 << 20), ("rsqrt64", "rsqrt.approx.ftz.f64", 1 << 21)]

TEXT = 'typedef unsigned short u16; typedef unsigned long long u64;\n' + "".join(
    f'extern "C" __global__ void special__{name}(const float* x, float* y, int n) {{ for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; '
    f'i += gridDim.x * blockDim.x) asm volatile("{ptx} %0, %1;" : "=f"(y[i]) : "f"(x[i])); }}\n' for name, ptx, *_ in FUNCTIONS) + "".join(
    f'extern "C" __global__ void special__{name}(u16* y) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; '
    f'asm volatile("{ptx} %0, %1;" : "=h"(y[i]) : "h"((u16)i)); }}\n' for name, ptx in HALVES) + "".join(
    f'extern "C" __global__ void special__{name}(double* y, int n) {{ for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{ '
    f'double x = __longlong_as_double(0x3ff0000000000000ll + ((long long)i << 32)); asm volatile("{ptx} %0, %1;" : "=d"(y[i]) : "d"(x)); }} }}\n'
    for name, ptx, _ in DOUBLES)


def inputs(start, count, stride):
    if start is None:
        return (stride[0] + np.arange(count) * stride[1]).astype(np.float32)
    return (start + np.arange(count, dtype=np.uint32) * np.uint32(stride)).astype(np.uint32).view(np.float32)


def ordered(values):
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def measure(decimate):
    gpu, found = Gpu(), {}
    module = gpu.compile(TEXT, "special")
    for name, _, start, count, stride, true in FUNCTIONS:
        x = inputs(start, count, stride)[::decimate].copy()
        y = np.zeros_like(x)
        x.flags.writeable = False
        module.launch(f"special__{name}", 528, 256, x, y, np.int32(x.size))
        with np.errstate(all="ignore"):
            off = ordered(y) - ordered(true(x.astype(np.float64)).astype(np.float32))
        found[name] = np.clip(off, -32768, 32767).astype(np.int16)
    for name, _ in HALVES:
        y = np.zeros(65536, np.uint16)
        module.launch(f"special__{name}", 256, 256, y)
        found[name] = y
    for name, _, count in DOUBLES:
        y = np.zeros(count)
        module.launch(f"special__{name}", 528, 256, y, np.int32(count))
        found[name] = (y.view(np.uint64) >> np.uint64(32)).astype(np.uint32)[::decimate]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--decimate", type=int, default=1, help="every Nth input only")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = measure(options.decimate)
    if not options.check:
        np.savez_compressed(options.output, **found)
        return
    kept = np.load(options.output)
    for name, values in found.items():
        other = kept[name] if kept[name].size == values.size else kept[name][::options.decimate]
        print(f"{name}: {int((values != other).sum())} of {values.size} differ, by at most "
              f"{int(np.abs(values.astype(np.int64) - other.astype(np.int64)).max())}")


if __name__ == "__main__":
    main()
