#!/usr/bin/env python3
"""What Triton's kernels (its tutorials', small) compute on an emulated GPU, compared with PyTorch on this machine's processor.

    triton_kernels.py [--gpu a100-sxm4-80gb,h100-sxm5-80gb] [--only REGEX] [--quiet]
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np  # noqa: E402

import harness  # noqa: E402
from harness import case, check  # noqa: E402

INSIDE = "--inside" in sys.argv
if INSIDE:
    import torch
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
    import triton_functions as F
else:
    torch = None


def same(name, got, expected, tolerance=None):
    check(name, got.detach().cpu().float().numpy() if got.dtype == torch.bfloat16 else got.detach().cpu().numpy(),
          expected.float().numpy() if expected.dtype == torch.bfloat16 else expected.numpy(), tolerance)


def device(tensor):
    return tensor.cuda()


def normal(*shape, dtype=None, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype or torch.float32)


@case
def triton_add(_):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.float64):
        x, y = (normal(2000, seed=1) * 100).to(dtype), (normal(2000, seed=2) * 100).to(dtype)
        out = torch.zeros_like(device(x))
        F.add[(2,)](device(x), device(y), out, 2000, BLOCK=1024)
        same(f"add {dtype}", out, x + y)


@case
def triton_softmax(_):
    x = normal(37, 781)
    out = torch.zeros_like(device(x))
    F.softmax[(37,)](device(x), out, 781, 781, 781, BLOCK=1024)
    same("softmax", out, torch.softmax(x, 1), 1e-5)


@case
def triton_softmax_persistent(_):
    x = normal(50, 300)
    out = torch.zeros_like(device(x))
    F.softmax_persistent[(8,)](device(x), out, 300, 300, 50, 300, BLOCK=512, STAGES=2, num_warps=8)
    same("softmax", out, torch.softmax(x, 1), 1e-5)


def philox(seed, counters):
    """Philox-4x32-10, of counters (c, 0, 0, 0): four words of each."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counters.astype(np.uint64)] + [np.zeros(len(counters), np.uint64)] * 3
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & mask, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [x.astype(np.uint32) for x in c]


@case
def triton_dropout(_):
    x = normal(1000)
    out = torch.zeros_like(device(x))
    F.dropout[(1,)](device(x), out, 1000, 0.3, 123456789012, BLOCK=1024)
    words = philox(123456789012, np.arange(1000))[0].view(np.int32)
    uniform = np.where(words < 0, -words.astype(np.int64) - 1, words).astype(np.float32) * np.float32(4.6566127342e-10)
    same("dropout", out, torch.where(torch.from_numpy(uniform > 0.3), x / 0.7, 0.0), 1e-6)
    ints = torch.zeros(4, 1024, dtype=torch.int32, device="cuda")
    F.philox[(1,)](ints, 77, BLOCK=1024)
    same("philox", ints, torch.from_numpy(np.stack(philox(77, np.arange(1024))).view(np.int32)))
    z = torch.zeros(4096, device="cuda")
    F.random_normal[(4,)](z, 5, BLOCK=1024)
    z = z.cpu()
    assert abs(z.mean()) < 0.06 and abs(z.std() - 1) < 0.06, (z.mean(), z.std())


@case
def triton_layer_norm(_):
    x, w, b = normal(23, 300), normal(300, seed=1), normal(300, seed=2)
    out, mean, rstd = torch.zeros_like(device(x)), torch.zeros(23, device="cuda"), torch.zeros(23, device="cuda")
    F.layer_norm_forward[(23,)](device(x), out, device(w), device(b), mean, rstd, 300, 300, 1e-5, BLOCK=512)
    xr, wr, br = (t.clone().requires_grad_() for t in (x, w, b))
    y = torch.nn.functional.layer_norm(xr, (300,), wr, br)
    same("forward", out, y.detach(), 1e-5)
    dy = normal(23, 300, seed=3)
    y.backward(dy)
    group = 4
    locks = torch.zeros(2 * group, dtype=torch.int32, device="cuda")
    dw, db, dx = torch.zeros(group, 300, device="cuda"), torch.zeros(group, 300, device="cuda"), torch.zeros_like(device(x))
    F.layer_norm_backward_dx[(23,)](dx, device(dy), dw, db, device(x), device(w), mean, rstd, locks, 300, 300, GROUP=group, BLOCK=512, num_warps=4)
    same("dx", dx, xr.grad, 1e-4)
    fw, fb = torch.zeros(300, device="cuda"), torch.zeros(300, device="cuda")
    F.layer_norm_backward_dwdb[(triton.cdiv(300, 64),)](dw, db, fw, fb, group, 300, BLOCK_M=32, BLOCK_N=64)
    same("dw", fw, wr.grad, 1e-4)
    same("db", fb, br.grad, 1e-4)


def product(dtype, accumulator, tolerance, m=96, n=80, k=112, **how):
    if dtype == torch.int8:
        a, b = (torch.randint(-128, 128, s, dtype=torch.int8, generator=torch.Generator().manual_seed(1)) for s in ((m, k), (k, n)))
        expected = (a.long() @ b.long()).int()
    else:
        a, b = normal(m, k, dtype=dtype, seed=1), normal(k, n, dtype=dtype, seed=2)
        expected = (a.double() @ b.double()).to(torch.float32)
    c = torch.zeros(m, n, dtype=accumulator, device="cuda")
    options = dict(BM=64, BN=32, BK=32, GROUP=4, num_warps=4, num_stages=3)
    options.update(how)
    grid = (triton.cdiv(m, options["BM"]) * triton.cdiv(n, options["BN"]),)
    F.matmul[grid](device(a), device(b), c, m, n, k, k, 1, n, 1, n, 1, INT=dtype == torch.int8, **options)
    same(f"{dtype} {how}", c.float() if accumulator != torch.int32 else c, expected, tolerance)


@case
def triton_matmul_fp16(_):
    product(torch.float16, torch.float16, 5e-3)
    product(torch.float16, torch.float32, 1e-4, BM=32, BN=64, BK=64, num_warps=2)


@case
def triton_matmul_bf16(_):
    product(torch.bfloat16, torch.float32, 1e-4)
    product(torch.bfloat16, torch.bfloat16, 3e-2, BM=128, BN=64, num_warps=8)


@case
def triton_matmul_tf32(_):
    product(torch.float32, torch.float32, 2e-2, ALLOW="tf32")


@case
def triton_matmul_ieee(_):
    product(torch.float32, torch.float32, 1e-4, ALLOW="ieee")


@case
def triton_matmul_tf32x3(_):
    product(torch.float32, torch.float32, 1e-4, ALLOW="tf32x3")


@case
def triton_matmul_int8(_):
    product(torch.int8, torch.int32, None)


@case
def triton_matmul_fp8(_):
    m, n, k = 64, 64, 64
    a, b = normal(m, k, dtype=torch.float16, seed=1).to(torch.float8_e5m2), normal(k, n, dtype=torch.float16, seed=2).to(torch.float8_e5m2)
    c = torch.zeros(m, n, device="cuda")
    F.matmul[(2,)](device(a), device(b), c, m, n, k, k, 1, n, 1, n, 1, BM=64, BN=32, BK=32, GROUP=4, INT=False, EVEN=True)
    same("fp8", c, (a.float().double() @ b.float().double()).float(), 1e-3)


@case
def triton_grouped_gemm(_):
    shapes = [(64, 48, 32), (96, 32, 64), (32, 64, 96)]
    a = [normal(m, k, dtype=torch.float16, seed=i) for i, (m, n, k) in enumerate(shapes)]
    b = [normal(k, n, dtype=torch.float16, seed=9 + i) for i, (m, n, k) in enumerate(shapes)]
    ad, bd = [device(x) for x in a], [device(x) for x in b]
    cd = [torch.zeros(m, n, dtype=torch.float16, device="cuda") for m, n, k in shapes]
    pointers = [torch.tensor([x.data_ptr() for x in xs], dtype=torch.int64, device="cuda") for xs in (ad, bd, cd)]
    sizes = torch.tensor([v for s in shapes for v in s], dtype=torch.int32, device="cuda")
    strides = torch.tensor([v for m, n, k in shapes for v in (k, n, n)], dtype=torch.int32, device="cuda")
    F.grouped_matmul[(4,)](*pointers, sizes, strides, len(shapes), PROGRAMS=4, BM=32, BN=32, BK=32)
    for i in range(len(shapes)):
        same(f"product {i}", cd[i].float(), a[i].double().matmul(b[i].double()).float(), 1e-2)


@case
def triton_flash_attention(_):
    for causal in (False, True):
        q, k, v = (normal(2, 128, 64, dtype=torch.float16, seed=s) for s in (1, 2, 3))
        out, m = torch.zeros_like(device(q)), torch.zeros(2, 128, device="cuda")
        F.attention_forward[(2, 2)](device(q), device(k), device(v), out, m, 0.125, 128, CAUSAL=causal, BM=64, BN=32, D=64, num_warps=4, num_stages=2)
        s = (q.float() @ k.float().transpose(1, 2)) * 0.125
        if causal:
            s = s.masked_fill(~torch.tril(torch.ones(128, 128, dtype=torch.bool)), float("-inf"))
        same(f"attention {causal}", out.float(), torch.softmax(s, -1) @ v.float(), 1e-2)
        same(f"log sum {causal}", m, torch.logsumexp(s, -1), 1e-3)


@case
def triton_scans(_):
    x = normal(8, 128)
    out = torch.zeros_like(device(x))
    F.cumsum[(1,)](device(x), out, M=8, N=128, REVERSE=False)
    same("cumsum", out, x.cumsum(1), 1e-4)
    F.cumsum[(1,)](device(x), out, M=8, N=128, REVERSE=True)
    same("reverse", out, x.flip(1).cumsum(1).flip(1), 1e-4)
    F.cumulative_max[(1,)](device(x), out, M=8, N=128)
    same("cummax", out, x.cummax(1)[0])


@case
def triton_sort(_):
    x = normal(4, 256)
    out = torch.zeros_like(device(x))
    F.sort[(1,)](device(x), out, M=4, N=256, DOWN=False)
    same("sort", out, x.sort(1)[0])
    i = torch.randint(-1000, 1000, (4, 256), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    out = torch.zeros_like(device(i))
    F.sort[(1,)](device(i), out, M=4, N=256, DOWN=True)
    same("descending", out, i.sort(1, descending=True)[0])


@case
def triton_reductions(_):
    x = normal(16, 200)
    for axis in (0, 1):
        n = x.shape[1 - axis]
        outs = [torch.zeros(n, device="cuda") for _ in range(3)] + [torch.zeros(n, dtype=torch.int32, device="cuda") for _ in range(2)]
        F.reductions[(1,)](device(x), *outs, 16, 200, M=16, N=256, AXIS=axis)
        for name, got, expected in zip(("sum", "max", "min", "argmax", "argmin"), outs, (x.sum(axis), x.amax(axis), x.amin(axis), x.argmax(axis).int(), x.argmin(axis).int())):
            same(f"{name} {axis}", got, expected, 1e-5 if name == "sum" else None)
    i = torch.randint(-2**31, 2**31 - 1, (1024,), generator=torch.Generator().manual_seed(1)).int()
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    F.xor_sum[(1,)](device(i), out, N=1024)
    check("xor", out.cpu().numpy(), np.array([np.bitwise_xor.reduce(i.numpy())]))


@case
def triton_atomics(_):
    index = torch.randint(0, 10, (1000,), generator=torch.Generator().manual_seed(1)).int()
    for dtype in (torch.float32, torch.int32, torch.float16, torch.int64, torch.float64):
        v = (normal(1000) * 4).round().to(dtype)
        out = torch.zeros(10, dtype=dtype, device="cuda")
        F.scatter_add[(4,)](device(index), device(v), out, 1000, BLOCK=256)
        same(f"scatter {dtype}", out.double(), torch.zeros(10, dtype=torch.float64).index_add_(0, index.long(), v.double()), 0.02 if dtype == torch.float16 else 1e-6)
    for dtype in (torch.float32, torch.int32):
        v = (normal(1000) * 1000).to(dtype)
        high, low = torch.full((10,), -10**6, dtype=dtype, device="cuda"), torch.full((10,), 10**6, dtype=dtype, device="cuda")
        F.scatter_extremes[(4,)](device(index), device(v), high, low, 1000, BLOCK=256)
        same(f"max {dtype}", high, torch.full((10,), -10**6, dtype=dtype).index_reduce_(0, index.long(), v, "amax"))
        same(f"min {dtype}", low, torch.full((10,), 10**6, dtype=dtype).index_reduce_(0, index.long(), v, "amin"))
    lock, total = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(64, device="cuda")
    F.locked_add[(12,)](lock, total, BLOCK=64)
    same("lock", total, torch.full((64,), 66.0))
    count, order = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(50, dtype=torch.int32, device="cuda")
    F.tickets[(50,)](count, order)
    check("tickets", np.sort(order.cpu().numpy()), np.arange(50))


@case
def triton_gather(_):
    x, index = normal(512), torch.randint(0, 512, (512,), generator=torch.Generator().manual_seed(1)).int()
    out = torch.zeros_like(device(x))
    F.gather_where[(1,)](device(x), device(index), out, BLOCK=512)
    picked = x[index.long()]
    same("gather", out, torch.where(picked > 0, picked, x * 0.5))
    if hasattr(tl, "gather"):
        F.gather_axis[(1,)](device(x), device(index), out, BLOCK=512)
        same("tl.gather", out, picked)
    counts = torch.zeros(16, dtype=torch.int32, device="cuda")
    F.histogram[(1,)](device((index % 16).int()), counts, BLOCK=512, BINS=16)
    same("histogram", counts, torch.bincount(index % 16, minlength=16).int())


@case
def triton_shapes(_):
    x = normal(32, 64)
    t = torch.zeros(64, 32, device="cuda")
    F.transpose[(1,)](device(x), t, M=32, N=64)
    same("transpose", t, x.T.contiguous())
    j = torch.zeros(4096, device="cuda")
    F.joined[(1,)](device(x), j, N=2048)
    flat = x.flatten()
    same("join", j, torch.stack([flat, flat * 2], -1).flatten())
    s = torch.zeros(1024, device="cuda")
    F.split_sum[(1,)](device(x), s, N=2048)
    same("split", s, flat[::2] - flat[1::2])


@case
def triton_math(_):
    x = normal(1000).abs() * 3 + 0.01
    names = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "tanh", "pow", "floor", "ceil", "abs", "div", "fma", "asin", "sigmoid")
    out = torch.zeros(len(names), 1024, device="cuda")
    F.functions[(1,)](device(x), out, 1000, BLOCK=1024)
    y = x.double()
    expected = (y.exp(), y.exp2(), y.log(), y.log2(), y.sin(), y.cos(), y.sqrt(), y.rsqrt(), y.erf(), y.tanh(), y.pow(1.7), y.floor(), y.ceil(), y.abs(), 1 / y, y * y + 1, (y / 20).asin(), y.sigmoid())
    for i, name in enumerate(names):
        same(name, out[i, :1000], expected[i].float(), 3e-6)
    d = torch.zeros(3, 1024, dtype=torch.float64, device="cuda")
    F.double_functions[(1,)](device(y), d, 1000, BLOCK=1024)
    for i, e in enumerate((y.exp(), y.sin(), y.log())):
        same(f"double {i}", d[i, :1000], e, 1e-14)


@case
def triton_integers(_):
    a = torch.randint(-2**31, 2**31 - 1, (1000,), generator=torch.Generator().manual_seed(1)).int()
    b = torch.randint(1, 5000, (1000,), generator=torch.Generator().manual_seed(2)).int()
    out = torch.zeros(6, 1024, dtype=torch.int32, device="cuda")
    F.integers[(1,)](device(a), device(b), out, 1000, BLOCK=1024)
    x, y = a.numpy(), b.numpy()
    q = np.trunc(x / y.astype(np.float64)).astype(np.int32)
    expected = (q, x - q * y, x >> (y % 32), (x.astype(np.uint32) >> (y % 32).astype(np.uint32)).view(np.int32), ((x.view(np.uint32).astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32).view(np.int32), np.maximum(x, y) - np.minimum(x, y))
    for i, e in enumerate(expected):
        check(f"integers {i}", out[i, :1000].cpu().numpy(), e)


@case
def triton_conversions(_):
    x = normal(1000) * 50
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.float64, torch.float8_e5m2, torch.float8_e4m3fn):
        if dtype == torch.float8_e4m3fn and torch.cuda.get_device_capability()[0] < 9:
            continue
        out = torch.zeros(1000, dtype=torch.float16 if dtype.itemsize == 1 and dtype.is_floating_point else dtype, device="cuda").to(dtype)
        F.convert[(1,)](device(x), out, 1000, BLOCK=1024)
        same(f"to {dtype}", out.cpu().float(), x.to(dtype).float())
        back = torch.zeros(1000, device="cuda")
        F.convert[(1,)](out, back, 1000, BLOCK=1024)
        same(f"from {dtype}", back, x.to(dtype).float())


@case
def triton_while(_):
    x = torch.randint(1, 3000, (500,), generator=torch.Generator().manual_seed(1)).int()
    out = torch.zeros_like(device(x))
    F.collatz[(500,)](device(x), out)

    def steps(v):
        n, v = 0, int(v)
        while v != 1:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        return n

    same("collatz", out, torch.tensor([steps(v) for v in x], dtype=torch.int32))


@case
def torch_compile_free(_):
    """PyTorch's own elementwise operations by its jiterator, which is NVRTC."""
    f = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x, T y) { return x * y + sin(x); }")
    x, y = normal(1000), normal(1000, seed=2)
    same("jiterator", f(device(x), device(y)), x * y + torch.sin(x), 1e-6)


def gpu_of():
    torch.cuda.init()
    return None


if __name__ == "__main__":
    harness.main(os.path.abspath(__file__), gpu_of)
