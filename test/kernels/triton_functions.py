"""The kernels of triton_kernels.py, after Triton's tutorials."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def softmax(x, out, sx, so, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * sx + i, i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * so + i, e / tl.sum(e, axis=0), i < n)


@triton.jit
def softmax_persistent(x, out, sx, so, rows, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * sx + i, i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * so + i, e / tl.sum(e, axis=0), i < n)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(out + i, tl.where(tl.rand(seed, i) > p, v / (1 - p), 0.0), i < n)


@triton.jit
def philox(out, seed, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(out + i, a)
    tl.store(out + BLOCK + i, b)
    tl.store(out + 2 * BLOCK + i, c)
    tl.store(out + 3 * BLOCK + i, d)


@triton.jit
def random_normal(out, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.randn(seed, i))


@triton.jit
def layer_norm_forward(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(X + row * stride + i, i < N, other=0.0)
    mean = tl.sum(x, axis=0) / N
    d = tl.where(i < N, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    tl.store(Y + row * stride + i, d * rstd * tl.load(W + i, i < N) + tl.load(B + i, i < N), i < N)


@triton.jit
def layer_norm_backward_dx(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < N
    lock = row % GROUP
    Lock += lock
    Count = Lock + GROUP
    DW = DW + lock * N + i
    DB = DB + lock * N + i
    x = tl.load(X + row * stride + i, mask, other=0.0)
    dy = tl.load(DY + row * stride + i, mask, other=0.0)
    w = tl.load(W + i, mask, other=0.0)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(DX + row * stride + i, (wdy - (xhat * c1 + c2)) * rstd, mask)
    pw = dy * xhat
    pb = dy
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        pw += tl.load(DW, mask)
        pb += tl.load(DB, mask)
    tl.store(DW, pw, mask)
    tl.store(DB, pb, mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


@triton.jit
def layer_norm_backward_dwdb(DW, DB, FW, FB, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(DW + offs, mask, other=0.0)
        db += tl.load(DB + offs, mask, other=0.0)
    tl.store(FW + cols, tl.sum(dw, axis=0), cols < N)
    tl.store(FB + cols, tl.sum(db, axis=0), cols < N)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, INT: tl.constexpr, ALLOW: tl.constexpr = None, EVEN: tl.constexpr = False):
    pid = tl.program_id(0)
    nm, nn = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * nn
    group = pid // in_group
    first = group * GROUP
    size = min(nm - first, GROUP)
    pm = first + (pid % in_group) % size
    pn = (pid % in_group) // size
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.int32 if INT else tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        if EVEN:
            x = tl.load(pa)
            y = tl.load(pb)
        else:
            x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0)
            y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0)
        if INT:
            acc = tl.dot(x, y, acc, out_dtype=tl.int32)
        else:
            acc = tl.dot(x, y, acc, input_precision=ALLOW)
        pa += BK * sak
        pb += BK * sbk
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    tl.store(c + rm[:, None] * scm + rn[None, :] * scn, acc.to(c.dtype.element_ty), (rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def grouped_matmul(As, Bs, Cs, sizes, strides, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    end = 0
    for g in range(groups):
        m = tl.load(sizes + g * 3)
        n = tl.load(sizes + g * 3 + 1)
        k = tl.load(sizes + g * 3 + 2)
        nm = tl.cdiv(m, BM)
        nn = tl.cdiv(n, BN)
        tiles = nm * nn
        while tile >= end and tile < end + tiles:
            lda = tl.load(strides + g * 3)
            ldb = tl.load(strides + g * 3 + 1)
            ldc = tl.load(strides + g * 3 + 2)
            a = tl.load(As + g).to(tl.pointer_type(tl.float16))
            b = tl.load(Bs + g).to(tl.pointer_type(tl.float16))
            c = tl.load(Cs + g).to(tl.pointer_type(tl.float16))
            t = tile - end
            rm = t // nn * BM + tl.arange(0, BM)
            rn = t % nn * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            pa = a + rm[:, None] * lda + rk[None, :]
            pb = b + rk[:, None] * ldb + rn[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for kk in range(0, tl.cdiv(k, BK)):
                acc += tl.dot(tl.load(pa, mask=rm[:, None] < m, other=0.0), tl.load(pb, mask=rn[None, :] < n, other=0.0))
                pa += BK
                pb += BK * ldb
            tl.store(c + rm[:, None] * ldc + rn[None, :], acc.to(tl.float16), (rm[:, None] < m) & (rn[None, :] < n))
            tile += PROGRAMS
        end += tiles


@triton.jit
def attention_forward(Q, K, V, Out, L, scale, N, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(0)
    head = tl.program_id(1)
    base = head * N * D
    q_block = tl.make_block_ptr(Q + base, (N, D), (D, 1), (start * BM, 0), (BM, D), (1, 0))
    k_block = tl.make_block_ptr(K + base, (D, N), (1, D), (0, 0), (D, BN), (0, 1))
    v_block = tl.make_block_ptr(V + base, (N, D), (D, 1), (0, 0), (BN, D), (1, 0))
    o_block = tl.make_block_ptr(Out + base, (N, D), (D, 1), (start * BM, 0), (BM, D), (1, 0))
    rm = start * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    m = tl.full([BM], -float("inf"), dtype=tl.float32)
    l = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    factor = scale * 1.44269504
    q = tl.load(q_block)
    end = (start + 1) * BM if CAUSAL else N
    for at in range(0, end, BN):
        k = tl.load(k_block)
        s = tl.dot(q, k) * factor
        if CAUSAL:
            s = tl.where(rm[:, None] >= at + rn[None, :], s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        alpha = tl.math.exp2(m - new)
        l = l * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v_block), acc * alpha[:, None])
        m = new
        k_block = tl.advance(k_block, (0, BN))
        v_block = tl.advance(v_block, (BN, 0))
    tl.store(o_block, (acc / l[:, None]).to(tl.float16))
    tl.store(L + head * N + rm, (m + tl.math.log2(l)) * 0.69314718)


@triton.jit
def cumsum(x, out, M: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.cumsum(tl.load(x + i), axis=1, reverse=REVERSE))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def cumulative_max(x, out, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.associative_scan(tl.load(x + i), 1, larger))


@triton.jit
def sort(x, out, M: tl.constexpr, N: tl.constexpr, DOWN: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.sort(tl.load(x + i), 1, DOWN))


@triton.jit
def reductions(x, s, high, low, imax, imin, m, n, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    r = tl.arange(0, M)[:, None]
    c = tl.arange(0, N)[None, :]
    mask = (r < m) & (c < n)
    v = tl.load(x + r * n + c, mask, other=0.0)
    up = tl.where(mask, v, -float("inf"))
    down = tl.where(mask, v, float("inf"))
    k = tl.arange(0, N if AXIS == 0 else M)
    inside = k < (n if AXIS == 0 else m)
    tl.store(s + k, tl.sum(v, AXIS), inside)
    tl.store(high + k, tl.max(up, AXIS), inside)
    tl.store(low + k, tl.min(down, AXIS), inside)
    tl.store(imax + k, tl.argmax(up, AXIS), inside)
    tl.store(imin + k, tl.argmin(down, AXIS), inside)


@triton.jit
def xor_sum(x, out, N: tl.constexpr):
    tl.store(out, tl.xor_sum(tl.load(x + tl.arange(0, N)), 0))


@triton.jit
def scatter_add(index, v, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(index + i, i < n), tl.load(v + i, i < n), i < n)


@triton.jit
def scatter_extremes(index, v, high, low, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.load(index + i, i < n, other=0)
    x = tl.load(v + i, i < n)
    tl.atomic_max(high + k, x, i < n)
    tl.atomic_min(low + k, x, i < n)


@triton.jit
def locked_add(lock, total, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total + i, tl.load(total + i) + tl.program_id(0))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def tickets(count, order):
    tl.store(order + tl.program_id(0), tl.atomic_add(count, 1))


@triton.jit
def gather_where(x, index, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.load(index + i))
    tl.store(out + i, tl.where(v > 0, v, tl.load(x + i) * 0.5))


@triton.jit
def gather_axis(x, index, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.gather(tl.load(x + i), tl.load(index + i), 0))


@triton.jit
def histogram(x, out, BLOCK: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, BLOCK)), BINS))


@triton.jit
def transpose(x, out, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(v))


@triton.jit
def joined(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, 2 * N), tl.interleave(v, v * 2))


@triton.jit
def split_sum(x, out, N: tl.constexpr):
    v = tl.reshape(tl.load(x + tl.arange(0, N)), (N // 2, 2))
    a, b = tl.split(v)
    tl.store(out + tl.arange(0, N // 2), a - b)


@triton.jit
def functions(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=1.0)
    tl.store(out + i, tl.exp(v))
    tl.store(out + 1 * BLOCK + i, tl.exp2(v))
    tl.store(out + 2 * BLOCK + i, tl.log(v))
    tl.store(out + 3 * BLOCK + i, tl.log2(v))
    tl.store(out + 4 * BLOCK + i, tl.sin(v))
    tl.store(out + 5 * BLOCK + i, tl.cos(v))
    tl.store(out + 6 * BLOCK + i, tl.sqrt(v))
    tl.store(out + 7 * BLOCK + i, tl.rsqrt(v))
    tl.store(out + 8 * BLOCK + i, tl.erf(v))
    tl.store(out + 9 * BLOCK + i, libdevice.tanh(v))
    tl.store(out + 10 * BLOCK + i, libdevice.pow(v, 1.7))
    tl.store(out + 11 * BLOCK + i, tl.floor(v))
    tl.store(out + 12 * BLOCK + i, tl.ceil(v))
    tl.store(out + 13 * BLOCK + i, tl.abs(v))
    tl.store(out + 14 * BLOCK + i, tl.div_rn(1.0, v))
    tl.store(out + 15 * BLOCK + i, tl.fma(v, v, 1.0))
    tl.store(out + 16 * BLOCK + i, libdevice.asin(v / 20))
    tl.store(out + 17 * BLOCK + i, tl.sigmoid(v))


@triton.jit
def double_functions(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=1.0)
    tl.store(out + i, tl.exp(v))
    tl.store(out + BLOCK + i, tl.sin(v))
    tl.store(out + 2 * BLOCK + i, tl.log(v))


@triton.jit
def integers(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(a + i, i < n, other=1)
    y = tl.load(b + i, i < n, other=1)
    tl.store(out + i, x // y)
    tl.store(out + BLOCK + i, x % y)
    tl.store(out + 2 * BLOCK + i, x >> (y % 32))
    tl.store(out + 3 * BLOCK + i, (x.to(tl.uint32, bitcast=True) >> (y % 32).to(tl.uint32)).to(tl.int32, bitcast=True))
    tl.store(out + 4 * BLOCK + i, tl.umulhi(x.to(tl.uint32, bitcast=True), y.to(tl.uint32)).to(tl.int32, bitcast=True))
    tl.store(out + 5 * BLOCK + i, tl.maximum(x, y) - tl.minimum(x, y))


@triton.jit
def convert(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n).to(out.dtype.element_ty), i < n)


@triton.jit
def collatz(x, out):
    v = tl.load(x + tl.program_id(0)).to(tl.int64)
    n = 0
    while v != 1:
        v = tl.where(v % 2 == 0, v // 2, 3 * v + 1)
        n += 1
    tl.store(out + tl.program_id(0), n)
