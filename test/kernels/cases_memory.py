"""Shared, local, constant and global memory, and atomics."""

import numpy as np

from harness import Wrong, case, check

TEXT = r"""

struct alignas(16) Wide { int a, b, c, d; };
extern "C" __global__ void memory__shared(const int* in, int* out) { __shared__ int s[256]; __shared__ Wide w[64]; __shared__ double d[32]; __shared__ unsigned char c[256]; __shared__ short h[128];
  int t = threadIdx.x; s[255 - t] = in[t]; c[t] = in[t]; if (t < 64) w[t] = {t, in[t], -t, in[t] * 2}; if (t < 32) d[t] = in[t] * 0.5; if (t < 128) h[t] = in[t]; __syncthreads();
  Wide x = w[(t * 7) % 64]; out[t] = s[t] + x.a + x.b * 2 + x.c * 3 + x.d + (int)(d[t % 32] * 4) + c[t ^ 1] + h[(t + 3) % 128]; }
extern "C" __global__ void memory__dynamic(const int* in, int* out, int n) { extern __shared__ int s[]; for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = in[i]; __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = s[(i * 17 + 5) % n]; }
extern "C" __global__ void memory__local(const int* in, int* out) { int a[40]; short b[20]; double d[7]; Wide w[5]; int t = threadIdx.x;
  for (int i = 0; i < 40; ++i) a[i] = in[(t + i) % 256]; for (int i = 0; i < 20; ++i) b[(i * 3 + t) % 20] = in[i] + t; for (int i = 0; i < 7; ++i) d[(i + t) % 7] = i * 0.25 + t; for (int i = 0; i < 5; ++i) w[(i * 2 + t) % 5] = {i, t, i * t, -i};
  int r = 0; for (int i = 0; i < 10; ++i) { int k = in[(t * 3 + i) % 256] & 1023; r += a[k % 40] + b[k % 20] + (int)(d[k % 7] * 4) + w[k % 5].a + w[k % 5].c; a[k % 40] = r & 0xffff; } out[t] = r; }
__device__ __noinline__ void add_to(int* p, int v) { *p += v; }
__device__ __noinline__ long long sum_of(const char* p, int n) { long long r = 0; for (int i = 0; i < n; ++i) r = r * 3 + p[i]; return r; }
__device__ int global_array[256]; __constant__ int constant_array[256] = {5, 6, 7}; __device__ int changed = 42;
extern "C" __global__ void memory__generic(int* g, long long* out) { __shared__ int s[256]; int l[4] = {1, 2, 3, 4}; int t = threadIdx.x; s[t] = t; global_array[t] = t * 2;
  int* p = t % 4 == 0 ? &s[t] : t % 4 == 1 ? &g[t] : t % 4 == 2 ? &l[t % 3] : &global_array[t]; add_to(p, 100 + t); atomicAdd(p, 1000);
  out[t] = *p + 10000000ll * sum_of((const char*)p, 4) + (__isShared(p) ? 1 : 0) * (1ll << 40) + (t % 4 != 3 && __isGlobal(p) ? 1ll << 41 : 0) + (__isLocal(p) ? 1ll << 42 : 0); 
  if (__isShared(p)) out[t] += (int)__cvta_generic_to_shared(p) - (int)__cvta_generic_to_shared(&s[0]) - 4 * t; }
extern "C" __global__ void memory__constant(const int* in, int* out) { int t = threadIdx.x; int r = 0; for (int i = 0; i < 5; ++i) r = r * 3 + constant_array[(in[t] + i * t) & 255]; out[t] = r + changed; }
extern "C" __global__ void memory__unaligned_types(const unsigned char* in, int* out) { int t = threadIdx.x; struct __attribute__((packed)) P { char a; int b; short c; }; const P* p = (const P*)in; out[t] = p[t].a + p[t].b * 3 + p[t].c;
  const uchar4* u = (const uchar4*)in; const short2* s = (const short2*)in; const char2* c = (const char2*)in; out[t] += u[t].x + u[t].y * 2 + u[t].z * 3 + u[t].w * 4 + s[t].x + s[t].y * 5 + c[t].x - c[t].y; }
extern "C" __global__ void memory__vectors(const float4* in, float4* out, const double2* din, double2* dout, const longlong4* lin, longlong4* lout) { int t = threadIdx.x; float4 v = __ldg(&in[t ^ 3]); out[t] = {v.w, v.z, v.y, v.x}; double2 d = din[t]; dout[t] = {d.y, d.x}; longlong4 l = lin[t]; lout[t] = {l.w, l.x, l.y, l.z}; }
extern "C" __global__ void memory__hints(const int* in, int* out) { int t = threadIdx.x; out[t] = __ldcg(in + t) + __ldca(in + t) * 2 + __ldcs(in + t) * 3 + __ldlu(in + t) * 4 + __ldcv(in + t) * 5; __stcg(out + 256 + t, in[t]); __stcs(out + 512 + t, in[t]); __stwt(out + 768 + t, in[t]);
  asm volatile("prefetch.global.L2 [%0]; prefetch.global.L1 [%0];" :: "l"(in + t)); int v; asm volatile("ld.global.L1::evict_last.L2::128B.s32 %0, [%1];" : "=r"(v) : "l"(in + t)); out[t] += v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.s32 %0, [%1];" : "=r"(v) : "l"(in + t)); out[t] += v; asm volatile("{.reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0; ld.global.L2::cache_hint.s32 %0, [%1], p;}" : "=r"(v) : "l"(in + t)); out[t] += v; 
  asm volatile("{.reg .b64 p; createpolicy.fractional.L2::evict_last.b64 p, 0.5; st.global.L2::cache_hint.s32 [%0], %1, p;}" :: "l"(out + 1024 + t), "r"(v)); asm volatile("discard.global.L2 [%0], 128;" :: "l"(out + 1280)); }
extern "C" __global__ void memory__grid(int* out) { int bx = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), n = blockDim.x * blockDim.y * blockDim.z;
  out[bx * n + t] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * threadIdx.x + 20000 * threadIdx.y + 300000 * threadIdx.z; }
extern "C" __global__ void memory__big(int* out) { if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x * 3; }
extern "C" __global__ void __launch_bounds__(128, 8) memory__spills(const float* in, float* out) { float a[96]; int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 96; ++i) a[i] = in[(t + i) % 128];
  for (int k = 0; k < 3; ++k) {
#pragma unroll
    for (int i = 0; i < 96; ++i) a[i] = a[i] * a[(i * 7 + 3) % 96] + a[(i + 1) % 96] * 0.5f; 
#pragma unroll
    for (int i = 0; i < 96; ++i) a[i] = fminf(fmaxf(a[i], -2.f), 2.f); }
  float r = 0;
#pragma unroll
  for (int i = 0; i < 96; ++i) r += a[i]; out[t] = r; }
struct Big { int a[300]; double d; char c; };
extern "C" __global__ void memory__parameters(Big b, int* out, int k, char c, short h, double d, float3 f) { int t = threadIdx.x; out[t] = b.a[(t * k) % 300] + (int)b.d + b.c + c + h + (int)d + (int)(f.x + f.y * 2 + f.z * 3); }
extern "C" __global__ void memory__alloc(int* out) { int t = threadIdx.x; int* p = (int*)malloc(64); if (!p) { out[t] = -1; return; } for (int i = 0; i < 16; ++i) p[i] = i * t; int r = 0; for (int i = 0; i < 16; ++i) r += p[i]; free(p); out[t] = r; }
extern "C" __global__ void memory__alloca(int* out, int n) { int t = threadIdx.x; int* p = (int*)malloc(4 * n); for (int i = 0; i < n; ++i) p[i] = i + t; int r = 0; for (int i = 0; i < n; ++i) r += p[(i * 5) % n]; out[t] = r; }
extern "C" __global__ void memory__memcpy(char* to, const char* from, int n) { int t = threadIdx.x; memcpy(to + t * 64, from + t * 64, 61); memset(to + t * 64 + 61, 7, 3); }
"""


def one(gpu, module, kernel, grid, block, arrays, result, expected, tolerance=None, **how):
    try:
        module.launch(f"memory__{kernel}", grid, block, *arrays, **how)
        got = arrays[result]
        check(kernel, got, np.asarray(expected() if callable(expected) else expected), tolerance)
        return kernel, ""
    except Wrong as failure:
        return kernel, "untouched" if not np.any(arrays[result]) else str(failure)


@case
def memory(gpu):
    module = gpu.compile(TEXT, "memory")
    random = np.random.default_rng(21)
    x = random.integers(-1000, 1000, 256).astype(np.int32)
    t = np.arange(256)
    z = lambda n=256, d=np.int32: np.zeros(n, d)
    i32 = lambda v: v.astype(np.int32)
    w = (t * 7) % 64
    half = i32(x / 2 * 4) if False else (x * 0.5)
    shared = x[::-1] + w + x[w] * 2 - w * 3 + x[w] * 2 + (half[t % 32] * 4).astype(int) + x[t ^ 1].astype(np.uint8) + x[(t + 3) % 128].astype(np.int16)
    yield one(gpu, module, "shared", 1, 256, [x, z()], 1, i32(shared))
    n = 10000
    y = random.integers(0, 999, n).astype(np.int32)
    yield one(gpu, module, "dynamic", 1, 320, [y, z(n), np.int32(n)], 1, y[(np.arange(n) * 17 + 5) % n], shared=4 * n)
    y = random.integers(0, 999, 50000).astype(np.int32)
    yield one(gpu, module, "dynamic", 1, 1024, [y[:40000], z(40000), np.int32(40000)], 1, y[:40000][(np.arange(40000) * 17 + 5) % 40000], shared=160000)

    def local():
        out = []
        for u in t:
            a = [int(x[(u + i) % 256]) for i in range(40)]
            b, d, q = [0] * 20, [0] * 7, [0] * 5
            for i in range(20):
                b[(i * 3 + u) % 20] = int(np.int16(x[i] + u))
            for i in range(7):
                d[(i + u) % 7] = i * 0.25 + u
            for i in range(5):
                q[(i * 2 + u) % 5] = i + i * u
            r = 0
            for i in range(10):
                k = int(x[(u * 3 + i) % 256]) & 1023
                r += a[k % 40] + b[k % 20] + int(d[k % 7] * 4) + q[k % 5]
                a[k % 40] = r & 0xFFFF
            out.append(r)
        return np.array(out, np.int32)

    yield one(gpu, module, "local", 1, 256, [x, z()], 1, local)

    def generic():
        out = []
        for u in range(256):
            v = (u, int(g0[u]), u % 3 + 1, u * 2)[u % 4] + 100 + u + 1000
            s = 0
            for byte in np.array([v], np.int32).view(np.int8):
                s = s * 3 + int(byte)
            out.append(v + 10000000 * s + (0, 1 << 40, 1 << 41, 1 << 42)[(1, 2, 3, 0)[u % 4]])
        return np.array(out, np.int64)

    g0 = x.copy()
    yield one(gpu, module, "generic", 1, 256, [x.copy(), z(256, np.int64)], 1, generic)
    # The window of local memory is set on one channel, and holds for all.
    for _ in range(8):
        yield one(gpu, module, "generic", 1, 256, [g0.copy(), z(256, np.int64)], 1, generic, stream=gpu.stream())
    table = random.integers(-99, 99, 256).astype(np.int32)
    module.set_symbol("constant_array", table)
    r = np.zeros(256, np.int64)
    for i in range(5):
        r = r * 3 + table[(x + i * t) & 255]
    yield one(gpu, module, "constant", 1, 256, [x, z()], 1, i32(r + 42))
    raw = random.integers(0, 256, 2048).astype(np.uint8)
    packed = np.frombuffer(raw.tobytes()[:7 * 256], np.dtype([("a", "i1"), ("b", "<i4"), ("c", "<i2")]))
    u4, s2, c2 = raw[:1024].reshape(256, 4).astype(int), raw[:1024].view(np.int16).reshape(256, 2).astype(int), raw[:512].view(np.int8).reshape(256, 2).astype(int)
    e = packed["a"].astype(np.int64) + packed["b"].astype(np.int64) * 3 + packed["c"] + u4 @ [1, 2, 3, 4] + s2 @ [1, 5] + c2 @ [1, -1]
    yield one(gpu, module, "unaligned_types", 1, 256, [raw, z()], 1, i32(e))
    f, d, l = random.standard_normal((64, 4)).astype(np.float32), random.standard_normal((64, 2)), random.integers(-(2**60), 2**60, (64, 4))
    fo, do, lo = np.zeros_like(f), np.zeros_like(d), np.zeros_like(l)
    yield one(gpu, module, "vectors", 1, 64, [f, fo, d, do, l, lo], 1, f[np.arange(64) ^ 3][:, ::-1])
    check("double2", do, d[:, ::-1])
    check("longlong4", lo, np.roll(l, 1, axis=1))
    out = z(1408)
    yield one(gpu, module, "hints", 1, 256, [x, out], 1, lambda: np.concatenate([x * 18, x, x, x, x, out[1280:]]))
    for grid, block in (((3, 2, 2), (5, 3, 2)), ((4, 3), (33, 2)), ((7,), (45,)), ((2, 1, 3), (8, 8, 16)), ((1, 5), (1, 1, 64))):
        gx, gy, gz = grid + (1,) * (3 - len(grid))
        bx, by, bz = block + (1,) * (3 - len(block))
        bk = np.arange(gx * gy * gz)[:, None]
        th = np.arange(bx * by * bz)[None]
        expected = bk % gx + 10 * (bk // gx % gy) + 100 * (bk // gx // gy) + 1000 * (th % bx) + 20000 * (th // bx % by) + 300000 * (th // bx // by)
        yield one(gpu, module, "grid", grid, block, [np.zeros(expected.shape, np.int32)], 0, expected)
    yield one(gpu, module, "big", 50000, 32, [z(50000)], 0, np.arange(50000) * 3)
    f = random.standard_normal(128).astype(np.float32)

    def spills():
        a = [f[(np.arange(128) + i) % 128] for i in range(96)]
        for _ in range(3):
            for i in range(96):
                a[i] = (a[i].astype(np.float64) * a[(i * 7 + 3) % 96] + (a[(i + 1) % 96] * np.float32(0.5))).astype(np.float32)
            a = [np.minimum(np.maximum(v, np.float32(-2)), np.float32(2)) for v in a]
        r = np.zeros(128, np.float32)
        for v in a:
            r = r + v
        return r

    yield one(gpu, module, "spills", 1, 128, [f, np.zeros(128, np.float32)], 1, spills, tolerance=1e-3)
    big = np.zeros(1, np.dtype([("a", "i4", 300), ("d", "f8"), ("c", "i1")], align=True))
    big["a"][0], big["d"], big["c"] = random.integers(-9, 999, 300), 77.5, -3
    out = z()
    yield one(gpu, module, "parameters", 1, 256, [big[0], out, np.int32(13), np.int8(-5), np.int16(-300), np.float64(1e5), np.array([(1, 2, 3)], [("x", "f4"), ("y", "f4"), ("z", "f4")])[0]], 1,
              big["a"][0][(t * 13) % 300] + 77 - 3 - 5 - 300 + 100000 + 14)

    src = random.integers(0, 255, 64 * 32).astype(np.uint8)
    dst = src.copy().reshape(32, 64)
    dst[:, 61:] = 7
    yield one(gpu, module, "memcpy", 1, 32, [z(64 * 32, np.uint8), src, np.int32(0)], 0, dst.ravel())


@case
def memory_alloc(gpu):
    """malloc in a kernel: a call of the driver's functions, which may be refused."""
    module = gpu.compile(TEXT, "memory")
    out = np.zeros(64, np.int32)
    module.launch("memory__alloc", 1, 64, out)
    check("malloc", out, 120 * np.arange(64))


def atomic_text():
    text = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\ntypedef unsigned long long U64; typedef long long I64;\n"
    kernels = []
    for t, n in (("int", "i"), ("unsigned", "u"), ("I64", "l"), ("U64", "U")):
        for operation in ("Add", "Sub", "Min", "Max", "And", "Or", "Xor", "Exch", "Inc", "Dec"):
            if operation == "Sub" and n in "lU" or operation in ("Inc", "Dec") and n != "u" or n == "l" and operation in ("Add", "Exch"):
                continue
            for space in ("global", "shared", "block", "plain"):
                name = f"{operation}_{n}_{space}"
                if space == "global":
                    body = f"o[t] = atomic{operation}(g + k, v);"
                elif space == "plain":
                    body = f"atomic{operation}(g + k, v);"
                elif space == "block":
                    body = f"o[t] = atomic{operation}_block(g + k, v);"
                else:
                    body = f"__shared__ {t} s[8]; if (t < 8) s[t] = g[t]; __syncthreads(); o[t] = atomic{operation}(s + k, v); __syncthreads(); if (t < 8) g[t] = s[t];"
                text += f'extern "C" __global__ void atomics__{name}({t}* g, const {t}* x, {t}* o) {{ int t = threadIdx.x, k = t % 8; {t} v = x[t]; {body} }}\n'
                kernels.append((name, n, operation, space))
    for t, n in (("float", "f"), ("double", "d"), ("__half", "h"), ("__half2", "w"), ("__nv_bfloat16", "b"), ("__nv_bfloat162", "v")):
        for space in ("global", "shared", "plain"):
            body = {"global": "o[t] = atomicAdd(g + k, v);", "plain": "atomicAdd(g + k, v);",
                    "shared": f"__shared__ {t} s[8]; if (t < 8) s[t] = g[t]; __syncthreads(); o[t] = atomicAdd(s + k, v); __syncthreads(); if (t < 8) g[t] = s[t];"}[space]
            text += f'extern "C" __global__ void atomics__Add_{n}_{space}({t}* g, const {t}* x, {t}* o) {{ int t = threadIdx.x, k = t % 8; {t} v = x[t]; {body} }}\n'
    for t, n in (("int", "i"), ("U64", "U"), ("unsigned short", "S")):
        for space in ("global", "shared"):
            p = "g" if space == "global" else "s"
            begin = "" if space == "global" else f"__shared__ {t} s[8]; if (t < 8) s[t] = g[t]; __syncthreads();"
            end = "" if space == "global" else "__syncthreads(); if (t < 8) g[t] = s[t];"
            text += (f'extern "C" __global__ void atomics__CAS_{n}_{space}({t}* g, const {t}* x, {t}* o) {{ int t = threadIdx.x, k = t % 8; {t} v = x[t]; {begin}\n'
                     f"  {t} old = {p}[k], seen; do {{ seen = old; old = atomicCAS({p} + k, seen, ({t})(seen * 3 + v)); }} while (old != seen); o[t] = seen; {end} }}\n")
    text += r"""
extern "C" __global__ void atomics__float_exch(float* g, const float* x, float* o) { int t = threadIdx.x; o[t] = atomicExch(g + t % 8, x[t]); }
extern "C" __global__ void atomics__float_max(float* g, const float* x) { int t = threadIdx.x; int* p = (int*)(g + t % 8); int old = *p, seen; do { seen = old; if (__int_as_float(seen) >= x[t]) break; old = atomicCAS(p, seen, __float_as_int(x[t])); } while (old != seen); }
extern "C" __global__ void atomics__shared_float_max(float* g, const float* x) { __shared__ int s; int t = threadIdx.x; if (t == 0) s = 0; __syncthreads(); atomicMax(&s, __float_as_int(fabsf(x[t]))); __syncthreads(); if (t == 0) g[0] = __int_as_float(s); }
extern "C" __global__ void atomics__histogram(const unsigned char* in, unsigned* out, int n) { __shared__ unsigned h[256]; for (int i = threadIdx.x; i < 256; i += blockDim.x) h[i] = 0; __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[in[i]], 1); __syncthreads(); for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], h[i]); }
extern "C" __global__ void atomics__aggregate(const int* in, int* out, int* n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (in[t] > 0) out[atomicAdd(n, 1)] = in[t]; }
extern "C" __global__ void atomics__ptx(int* g, unsigned long long* q, int* o) { int t = threadIdx.x, r; asm volatile("atom.global.acq_rel.gpu.add.s32 %0, [%1], 2;" : "=r"(r) : "l"(g) : "memory"); o[t] = r;
  asm volatile("red.release.sys.global.max.s32 [%0], %1;" :: "l"(g + 1), "r"(t) : "memory"); asm volatile("red.global.add.u64 [%0], %1;" :: "l"(q), "l"((unsigned long long)t << 32) : "memory");
  unsigned long long a; asm volatile("atom.exch.b64 %0, [%1], %2;" : "=l"(a) : "l"(q + 1), "l"((unsigned long long)t) : "memory"); asm volatile("atom.relaxed.cta.global.cas.b32 %0, [%1], 0, 5;" : "=r"(r) : "l"(g + 2) : "memory"); o[t] += r * 0; }
"""
    return text, kernels


@case
def atomics(gpu):
    text, kernels = atomic_text()
    module = gpu.compile(text, "atomics")
    random = np.random.default_rng(31)
    types = {"i": np.int32, "u": np.uint32, "l": np.int64, "U": np.uint64}
    n = 96
    for name, kind, operation, space in kernels:
        dtype = types[kind]
        size = np.dtype(dtype).itemsize
        g0 = np.frombuffer(random.bytes(8 * size), dtype).copy()
        x = np.frombuffer(random.bytes(n * size), dtype).copy()
        if operation in ("Inc", "Dec"):
            g0, x = random.integers(0, 9, 8).astype(dtype), random.integers(1, 12, n).astype(dtype)
        g, o = g0.copy(), np.full(n, 77, dtype)
        module.launch(f"atomics__{name}", 1, n, g, x, o)
        # In the order of threads, or in any: results that depend on it are compared with the one in order.
        state = g0.copy()
        olds = np.zeros(n, dtype)
        with np.errstate(over="ignore"):
            for i in range(n):
                k = i % 8
                a, v = state[k], x[i]
                olds[i] = a
                state[k] = {"Add": lambda: a + v, "Sub": lambda: a - v, "Min": lambda: min(a, v), "Max": lambda: max(a, v), "And": lambda: a & v, "Or": lambda: a | v, "Xor": lambda: a ^ v,
                            "Exch": lambda: v, "Inc": lambda: 0 if a >= v else a + dtype(1), "Dec": lambda: v if a == 0 or a > v else a - dtype(1)}[operation]()
        failure = "" if (g == state).all() else f"memory: {g}, not {state}"
        loop = kind in "lU" and space == "shared" and operation in ("Min", "Max", "And", "Or", "Xor")
        if space != "plain" and not loop and not failure and not (o == olds).all():
            failure = f"old values {o[:9]}, not {olds[:9]}"
        if (g == g0).all() and (o == 77).all() and not (state == g0).all():
            failure = "untouched"
        yield name, failure
    floats = {"f": (np.float32, 1e-4), "d": (np.float64, 1e-9), "h": (np.float16, 0.05), "w": (np.float16, 0.05), "b": (np.uint16, 0.3), "v": (np.uint16, 0.3)}
    for kind, (dtype, tolerance) in floats.items():
        pair = 2 if kind in "wv" else 1
        for space in ("global", "shared", "plain"):
            values = random.integers(-8, 9, (n, pair)) / 4
            start = random.integers(-8, 9, (8, pair)) / 4
            to = lambda v: (v.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if kind in "bv" else v.astype(dtype)
            back = lambda v: (v.astype(np.uint32) << 16).view(np.float32) if kind in "bv" else v.astype(np.float64)
            g, x, o = to(start), to(values), np.zeros((n, pair), dtype)
            module.launch(f"atomics__Add_{kind}_{space}", 1, n, g, x, o)
            expected = start.copy()
            for i in range(n):
                expected[i % 8] += values[i]
            got = back(g)
            bad = np.abs(got - expected) > tolerance * 2
            untouched = (got == start).all() and not o.any()
            yield f"Add_{kind}_{space}", "untouched" if untouched else f"{got.ravel()}, not {expected.ravel()}" if bad.any() else ""
    for kind, dtype in (("i", np.int32), ("U", np.uint64), ("S", np.uint16)):
        for space in ("global", "shared"):
            g0 = random.integers(0, 9, 8).astype(dtype)
            x = random.integers(0, 9, n).astype(dtype)
            g, o = g0.copy(), np.zeros(n, dtype)
            module.launch(f"atomics__CAS_{kind}_{space}", 1, n, g, x, o)
            # Any order: each thread saw a value, and what follows it is what the next saw.
            failure = ""
            with np.errstate(over="ignore"):
                for k in range(8):
                    mine = [i for i in range(n) if i % 8 == k]
                    made = [int(dtype(o[i] * dtype(3) + x[i])) for i in mine]
                    if sorted([int(g0[k])] + made) != sorted([int(o[i]) for i in mine] + [int(g[k])]):
                        failure = f"word {k}: what was seen does not make a chain"
            yield f"CAS_{kind}_{space}", "untouched" if (g == g0).all() else failure
    g0, x = random.standard_normal(8).astype(np.float32), random.standard_normal(n).astype(np.float32)
    g, o = g0.copy(), np.zeros(n, np.float32)
    module.launch("atomics__float_exch", 1, n, g, x, o)
    yield "float_exch", "" if sorted(np.concatenate([o, g])) == sorted(np.concatenate([g0, x])) else "not the same values"
    g = g0.copy()
    module.launch("atomics__float_max", 1, n, g, x)
    yield "float_max", "" if (g == [max(g0[k], x[k::8].max()) for k in range(8)]).all() else "untouched" if (g == g0).all() else str(g)
    g = np.zeros(1, np.float32)
    module.launch("atomics__shared_float_max", 1, n, g, x)
    yield "shared_float_max", "" if g[0] == np.abs(x).max() else "untouched" if g[0] == 0 else str(g)
    data = random.integers(0, 256, 20000).astype(np.uint8)
    out = np.zeros(256, np.uint32)
    module.launch("atomics__histogram", 7, 200, data, out, np.int32(len(data)))
    yield "histogram", "" if (out == np.bincount(data, minlength=256)).all() else "untouched" if not out.any() else "wrong counts"
    v = random.integers(-50, 50, 2048).astype(np.int32)
    out, count = np.zeros(2048, np.int32), np.zeros(1, np.int32)
    module.launch("atomics__aggregate", 8, 256, v, out, count)
    yield "aggregate", "" if count[0] == (v > 0).sum() and sorted(out[:count[0]]) == sorted(v[v > 0]) else "untouched" if not out.any() else f"{count}"
    g, q, o = np.zeros(4, np.int32), np.zeros(2, np.uint64), np.zeros(64, np.int32)
    module.launch("atomics__ptx", 1, 64, g, q, o)
    good = g[0] == 128 and g[1] == 63 and g[2] == 5 and q[0] == 2016 << 32 and q[1] < 64 and sorted(o) == list(range(0, 128, 2))
    yield "ptx", "" if good else "untouched" if not g.any() else f"{g} {q}"


COPY = r"""
#include <cuda_pipeline.h>
extern "C" __global__ void copies__async(const char* in, char* out, int n) { __shared__ alignas(16) char s[4096]; int t = threadIdx.x;
  unsigned a = (unsigned)__cvta_generic_to_shared(s);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(a + t * 4), "l"(in + t * 4)); asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(a + 512 + t * 8), "l"(in + 512 + t * 8));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(a + 1536 + t * 16), "l"(in + 1536 + t * 16)); asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory"); __syncthreads();
  for (int i = t; i < 3584; i += 128) out[i] = s[i]; }
extern "C" __global__ void copies__zfill(const char* in, char* out, int n) { __shared__ alignas(16) char s[4096]; int t = threadIdx.x; unsigned a = (unsigned)__cvta_generic_to_shared(s); for (int i = t; i < 4096; i += 128) s[i] = 9; __syncthreads();
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(a + t * 16), "l"(in + t * 16), "r"(t % 17)); asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(a + 2048 + t * 4), "l"(in + 2048 + t * 4), "r"(t % 5));
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8, %2;" :: "r"(a + 2560 + t * 8), "l"(in + 2560 + t * 8), "r"(t % 2 * 8)); asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads(); for (int i = t; i < 3584; i += 128) out[i] = s[i]; }
extern "C" __global__ void copies__bypass(const char* in, char* out, int n) { __shared__ alignas(16) char s[2][2048]; int t = threadIdx.x; int stage = 0; long r = 0;
  auto load = [&](int k) { asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(s[k & 1]) + t * 16), "l"(in + k * 2048 + t * 16)); asm volatile("cp.async.commit_group;"); };
  load(0); for (int k = 0; k < 4; ++k) { if (k < 3) load(k + 1); else asm volatile("cp.async.commit_group;"); asm volatile("cp.async.wait_group 1;" ::: "memory"); __syncthreads(); for (int i = 0; i < 16; ++i) out[k * 2048 + t * 16 + i] = s[k & 1][(t ^ 1) * 16 + i]; __syncthreads(); } }
extern "C" __global__ void copies__pipeline(const int4* in, int4* out) { __shared__ int4 s[128]; int t = threadIdx.x; __pipeline_memcpy_async(&s[t], &in[t], 16, t % 2 ? 0 : 8); __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); out[t] = s[t ^ 1]; }
extern "C" __global__ void copies__predicated(const int4* in, int4* out, int n) { __shared__ int4 s[128]; int t = threadIdx.x; s[t] = int4{1, 2, 3, 4}; if (t % 3 == 0 && t < n) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(&s[t])), "l"(in + t)); asm volatile("cp.async.wait_all;" ::: "memory"); out[t] = s[t]; }
"""


@case
def copies(gpu):
    module = gpu.compile(COPY, "copies")
    data = np.random.default_rng(41).integers(0, 256, 8192).astype(np.uint8)
    t = np.arange(128)

    def one(name, out, expected, *arguments):
        module.launch(f"copies__{name}", 1, 128, *arguments)
        try:
            check(name, out, expected)
            return name, ""
        except Wrong as failure:
            return name, "untouched" if not out.any() else str(failure)

    out = np.zeros(3584, np.uint8)
    yield one("async", out, data[:3584], data, out, np.int32(0))
    out = np.zeros(8192, np.uint8)
    yield one("bypass", out, data.reshape(4, 128, 16)[:, t ^ 1].ravel(), data, out, np.int32(0))
    x = np.random.default_rng(1).integers(1, 999, (128, 4)).astype(np.int32)
    out = np.zeros_like(x)
    yield one("predicated", out, np.where(((t % 3 == 0) & (t < 100))[:, None], x, [1, 2, 3, 4]), x, out, np.int32(100))
    expected = data[:3584].copy()
    for u in range(128):
        expected[u * 16 + u % 17:u * 16 + 16] = 0
        expected[2048 + u * 4 + u % 5:2048 + u * 4 + 4] = 0
        if u % 2 == 0:
            expected[2560 + u * 8:2568 + u * 8] = 0
    out = np.zeros(3584, np.uint8)
    yield one("zfill", out, expected, data, out, np.int32(0))
    x = np.random.default_rng(1).integers(1, 999, (128, 4)).astype(np.int32)
    e = x.copy()
    e[::2, 2:] = 0  # by a size
    out = np.zeros_like(x)
    yield one("pipeline", out, e[t ^ 1], x, out)
