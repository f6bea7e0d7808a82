"""Products on tensor cores over many exponents: by warps and by groups of four. How the sums are rounded is the
hardware's own; what a real GPU leaves can be compared bit by bit (recorded.py)."""

import numpy as np

from harness import Wrong, case, check

BLOCKS = 32  # each a product of its own
STEPS = 4  # instructions in a row, each adding to the result

# Name, PTX types of A and B, elements of 32 bytes, bits, type of the result.
TYPES = [
    ("f16", "f16.f16", 16, "f32"),
    ("bf16", "bf16.bf16", 16, "f32"),
    ("tf32", "tf32.tf32", 8, "f32"),
    ("e4m3", "e4m3.e4m3", 32, "f32"),
    ("e5m2", "e5m2.e5m2", 32, "f32"),
    ("mixed8", "e4m3.e5m2", 32, "f32"),
    ("f16half", "f16.f16", 16, "f16"),
    ("e4m3half", "e4m3.e4m3", 32, "f16"),
]


def kernel(name, types, k, result):
    """A block: D (64 x 8) = A (64 x k) B (k x 8) + D, STEPS times. A and B as rows of 32 bytes."""
    registers = 4 if result == "f32" else 2
    slots = ", ".join(f"%{i}" for i in range(registers))
    scales = "1, 1, 1" if types.split(".")[0][0] == "e" or k == 8 else "1, 1, 1, 0, 0"
    letter = "f" if result == "f32" else "r"
    outs = ", ".join(f'"+{letter}"(x[{i}])' for i in range(registers))
    kind = "float" if result == "f32" else "u32"
    return f"""
extern "C" __global__ void warpgroup__{name}(const uint4* a, const uint4* b, {kind}* d) {{
  __shared__ alignas(128) uint4 sa[128], sb[16]; int t = threadIdx.x; {kind} x[{registers}];
  d += (blockIdx.x * 128 + t) * {registers}; for (int i = 0; i < {registers}; ++i) x[i] = d[i];
  for (int s = 0; s < {STEPS}; ++s) {{ int at = blockIdx.x * {STEPS} + s;
    {{ int row = t / 2, half = t % 2; sa[(row / 8 * 2 + half) * 8 + row % 8] = a[at * 128 + t]; if (t < 16) sb[half * 8 + row] = b[at * 16 + t]; }}
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();
    u64 da = DESCRIPTOR(sa, 128, 256), db = DESCRIPTOR(sb, 128, 256);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k{k}.{result}.{types} {{{slots}}}, %{registers}, %{registers + 1}, {scales};" : {outs} : "l"(da), "l"(db));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); __syncthreads(); }}
  for (int i = 0; i < {registers}; ++i) d[i] = x[i]; }}
"""


PREFIX = """
typedef unsigned u32; typedef unsigned long long u64;
#define SHARED(p) ((u32)__cvta_generic_to_shared(p))
#define DESCRIPTOR(p, k, m) ((u64)(SHARED(p) >> 4 & 0x3fff) | (u64)((k) >> 4) << 16 | (u64)((m) >> 4) << 32)
"""


def decode8(bits, exponent_bits):
    """Values of 8-bit floats; what is no number as NaN."""
    mantissa_bits = 7 - exponent_bits
    bias = 2 ** (exponent_bits - 1) - 1
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent, mantissa = (bits & 0x7F) >> mantissa_bits, bits & (2**mantissa_bits - 1)
    value = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias - mantissa_bits),
                     (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent.astype(float) - bias))
    if exponent_bits == 5:
        value = np.where(exponent == 31, np.where(mantissa == 0, np.inf, np.nan), value)
    else:
        value = np.where((bits & 0x7F) == 0x7F, np.nan, value)
    return sign * value


def operand(random, kind, shape, spread):
    """Raw elements and their values, of exponents up to `spread` apart."""
    values = random.standard_normal(shape) * np.ldexp(1.0, random.integers(-spread, 1, shape))
    values[random.random(shape) < 0.05] = 0
    if kind == "f16":
        raw = values.astype(np.float16)
        return raw.view(np.uint16), raw.astype(np.float64)
    if kind == "bf16":
        raw = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return raw, (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if kind == "tf32":
        raw = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        return raw, raw.view(np.float32).astype(np.float64)
    exponent_bits = int(kind[1])
    raw = random.integers(0, 256, shape).astype(np.uint8)
    while True:
        bad = ~np.isfinite(decode8(raw, exponent_bits)) | ((raw & 0x7F) > 0x60)
        if not bad.any():
            return raw, decode8(raw, exponent_bits)
        raw[bad] = random.integers(0, 256, int(bad.sum())).astype(np.uint8)


@case(only=90)
def warpgroup(gpu):
    module = gpu.compile(PREFIX + "".join(kernel(*t) for t in TYPES), "warpgroup")
    for number, (name, types, k, result) in enumerate(TYPES):
        for spread in (0, 6, 14):
            random = np.random.default_rng(100 * number + spread)
            a, av = operand(random, types.split(".")[0], (BLOCKS, STEPS, 64, k), spread)
            b, bv = operand(random, types.split(".")[1], (BLOCKS, STEPS, 8, k), spread)
            c = random.standard_normal((BLOCKS, 64, 8)) * np.ldexp(1.0, random.integers(-spread, 1, (BLOCKS, 64, 8)))
            c = c.astype(np.float32 if result == "f32" else np.float16)
            # Thread 32 w + l holds rows 16 w + l / 4 and 8 below, columns 2 (l % 4) and the next.
            t = np.arange(128)
            rows = t[:, None, None] // 32 * 16 + t[:, None, None] % 32 // 4 + 8 * np.arange(2)[None, :, None]
            columns = t[:, None, None] % 4 * 2 + np.arange(2)[None, None, :]
            d = np.ascontiguousarray(c[:, rows, columns])  # [block, thread, row, column]
            out = d.view(np.uint32).copy() if result == "f16" else d
            module.launch(f"warpgroup__{name}", BLOCKS, 128, a.view(np.uint8).reshape(-1), b.view(np.uint8).reshape(-1), out)
            got = out.view(np.float16).reshape(d.shape) if result == "f16" else out
            exact = c.astype(np.float64) + np.einsum("xsmk,xsnk->xmn", av, bv)
            scale = np.abs(c.astype(np.float64)) + np.einsum("xsmk,xsnk->xmn", np.abs(av), np.abs(bv))
            short = result == "f16" or types[0] == "e"
            allowed = (scale * (2e-3 if short else 2e-6))[:, rows, columns] + (1e-3 if result == "f16" else 0)
            title = f"{name}_{spread}"
            if np.array_equal(got, d) and got is not d:
                yield title, "untouched"
                continue
            error = np.abs(got.astype(np.float64) - exact[:, rows, columns])
            bad = ~(error <= allowed)
            yield title, f"{int(bad.sum())} of {bad.size}, worst {np.nanmax(error / allowed):.3g} of what is allowed" if bad.any() else ""
