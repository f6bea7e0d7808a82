"""Products of matrices by warps, and the moves that feed them."""

import numpy as np

from harness import Wrong, case, check


def bf(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def of_bf(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


# Name, shape, types of d a b c in PTX, registers of each, how elements lie: see fragments().
MMA = [
    ("f16_16816", (16, 8, 16), "f32.f16.f16.f32", (4, 4, 2, 4)),
    ("f16_1688", (16, 8, 8), "f32.f16.f16.f32", (4, 2, 1, 4)),
    ("f16acc_16816", (16, 8, 16), "f16.f16.f16.f16", (2, 4, 2, 2)),
    ("f16acc_1688", (16, 8, 8), "f16.f16.f16.f16", (2, 2, 1, 2)),
    ("bf16_16816", (16, 8, 16), "f32.bf16.bf16.f32", (4, 4, 2, 4)),
    ("bf16_1688", (16, 8, 8), "f32.bf16.bf16.f32", (4, 2, 1, 4)),
    ("tf32_1688", (16, 8, 8), "f32.tf32.tf32.f32", (4, 4, 2, 4)),
    ("tf32_1684", (16, 8, 4), "f32.tf32.tf32.f32", (4, 2, 1, 4)),
    ("s8_16832", (16, 8, 32), "s32.s8.s8.s32", (4, 4, 2, 4)),
    ("s8_16816", (16, 8, 16), "s32.s8.s8.s32", (4, 2, 1, 4)),
    ("u8_16832", (16, 8, 32), "s32.u8.u8.s32", (4, 4, 2, 4)),
    ("us8_16832", (16, 8, 32), "s32.u8.s8.s32", (4, 4, 2, 4)),
    ("s8_8816", (8, 8, 16), "s32.s8.s8.s32", (2, 1, 1, 2)),
    ("s8sat_16832", (16, 8, 32), "satfinite.s32.s8.s8.s32", (4, 4, 2, 4)),
    ("s4_16864", (16, 8, 64), "s32.s4.s4.s32", (4, 4, 2, 4)),
    ("u4_16832", (16, 8, 32), "s32.u4.u4.s32", (4, 2, 1, 4)),
    ("s4_8832", (8, 8, 32), "s32.s4.s4.s32", (2, 1, 1, 2)),
    ("su4_8832", (8, 8, 32), "s32.s4.u4.s32", (2, 1, 1, 2)),
    ("us4_16864", (16, 8, 64), "s32.u4.s4.s32", (4, 4, 2, 4)),
    ("b1_168256", (16, 8, 256), "b1", (4, 4, 2, 4)),
    ("b1_168128", (16, 8, 128), "b1", (4, 2, 1, 4)),
    ("b1_88128", (8, 8, 128), "b1", (2, 1, 1, 2)),
    ("b1and_88128", (8, 8, 128), "b1", (2, 1, 1, 2)),
    ("b1and_168256", (16, 8, 256), "b1", (4, 4, 2, 4)),
    ("f64_884", (8, 8, 4), "f64.f64.f64.f64", (2, 1, 1, 2)),
    ("f64_1688", (16, 8, 8), "f64.f64.f64.f64", (4, 4, 2, 4)),
    ("f64_16816", (16, 8, 16), "f64.f64.f64.f64", (4, 8, 4, 4)),
]
LANE = np.arange(32)


def fragment_a(m, k, per, registers):
    """Rows and columns of the elements of each lane: [lane, register, part]."""
    g, t = LANE[:, None, None] // 4, LANE[:, None, None] % 4
    r, p = np.arange(registers)[None, :, None], np.arange(per)[None, None, :]
    rows = 2 if m == 16 else 1
    return (g + 8 * (r % rows)) + 0 * p, t * per + p + (r // rows) * 4 * per


def fragment_b(per, registers):
    g, t = LANE[:, None, None] // 4, LANE[:, None, None] % 4
    r, p = np.arange(registers)[None, :, None], np.arange(per)[None, None, :]
    return t * per + p + r * 4 * per, g + 0 * r + 0 * p


def fragment_c(m, registers):
    g, t = LANE[:, None] // 4, LANE[:, None] % 4
    r = np.arange(registers)[None]
    return g + 8 * (r // 2), t * 2 + r % 2


def mma_text(only90):
    text = "typedef unsigned u32;\n"
    for name, (m, n, k), types, (rd, ra, rb, rc) in MMA:
        if name in ("f64_1688", "f64_16816") and not only90:
            continue
        f64, f32 = "f64" in types, types.startswith("f32")
        ab, cd = ("double", "d") if f64 else ("u32", "r"), ("double", "d") if f64 else ("float", "f") if f32 else ("u32", "r")
        text += f'extern "C" __global__ void mma__{name}(const {ab[0]}* a, const {ab[0]}* b, const {cd[0]}* c, {cd[0]}* d) {{ int t = threadIdx.x; {cd[0]} x[{rd}];\n'
        op = f"mma.sync.aligned.m{m}n{n}k{k}.row.col." + types
        if types == "b1":
            op = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.s32.b1.b1.s32.{'and' if 'and' in name else 'xor'}.popc"
        if types.startswith("satfinite"):
            op = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.satfinite.s32.s8.s8.s32"
        at, slots = 0, []
        for count in (rd, ra, rb, rc):
            slots.append("{" + ", ".join(f"%{at + i}" for i in range(count)) + "}")
            at += count
        outs = ", ".join(f'"={cd[1]}"(x[{i}])' for i in range(rd))
        ins = ", ".join([f'"{ab[1]}"(a[t * {ra} + {i}])' for i in range(ra)] + [f'"{ab[1]}"(b[t * {rb} + {i}])' for i in range(rb)] + [f'"{cd[1]}"(c[t * {rc} + {i}])' for i in range(rc)])
        text += f'  asm volatile("{op} {", ".join(slots)};" : {outs} : {ins}); for (int i = 0; i < {rd}; ++i) d[t * {rd} + i] = x[i]; }}\n'
    return text


@case
def mma(gpu):
    module = gpu.compile(mma_text(gpu.architecture >= 90), "mma")
    random = np.random.default_rng(51)
    for name, (m, n, k), types, (rd, ra, rb, rc) in MMA:
        if name in ("f64_1688", "f64_16816") and gpu.architecture < 90:
            continue
        def values(shape, which):
            kind = types.replace("satfinite.", "").split(".")[which] if types != "b1" else "b1"
            if kind == "b1":
                return random.integers(0, 2, shape)
            if kind[0] in "su" and kind != "s32":
                low, high = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16)}[kind]
                return random.integers(low, high, shape)
            return random.standard_normal(shape)

        a, b = values((m, k), 1 if types != "b1" else 0), values((k, n), 2 if types != "b1" else 0)
        kind = types.replace("satfinite.", "").split(".")[1] if types != "b1" else "b1"
        if kind == "f16":
            a, b = a.astype(np.float16), b.astype(np.float16)
        elif kind == "bf16":
            a, b = of_bf(bf(a)), of_bf(bf(b))
        elif kind == "tf32":
            a, b = ((x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))

        def words(matrix, rows, columns, bits):
            part = matrix[rows, columns]  # [lane, register, part]
            if kind == "f64":
                return np.ascontiguousarray(part[..., 0].astype(np.float64))
            if kind == "tf32":
                return np.ascontiguousarray(part[..., 0].astype(np.float32).view(np.uint32))
            if kind == "f16":
                raw = part.astype(np.float16).view(np.uint16).astype(np.uint64)
            elif kind == "bf16":
                raw = bf(part).astype(np.uint64)
            else:
                raw = part.astype(np.int64).astype(np.uint64) & np.uint64(2**bits - 1)
            shift = np.uint64(bits) * np.arange(part.shape[-1], dtype=np.uint64)
            return np.ascontiguousarray((raw << shift).sum(-1).astype(np.uint32))

        bits = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}[kind]
        per = 32 // bits if kind != "f64" else 1
        other = types.replace("satfinite.", "").split(".")[2] if types != "b1" else "b1"
        aw = words(a, *fragment_a(m, k, per, ra), bits)
        bw = words(b, *fragment_b(per, rb), bits)
        rows, columns = fragment_c(m, 4 if m == 16 else 2)
        if kind == "f64":
            c = random.standard_normal((m, n))
            cw, d = np.ascontiguousarray(c[rows, columns]), np.zeros((32, rd))
        elif types.startswith("f32"):
            c = random.standard_normal((m, n)).astype(np.float32)
            cw, d = np.ascontiguousarray(c[rows, columns]), np.zeros((32, rd), np.float32)
        elif types.startswith("f16"):
            c = random.standard_normal((m, n)).astype(np.float16)
            cw, d = np.ascontiguousarray(c[rows, columns]).view(np.uint32), np.zeros((32, rd), np.uint32)
        else:
            c = random.integers(-1000, 1000, (m, n)).astype(np.int32)
            if "sat" in name:
                c[:4], c[4:] = 2**31 - 5, -(2**31) + 5
            cw, d = np.ascontiguousarray(c[rows, columns]), np.zeros((32, rd), np.int32)
        module.launch(f"mma__{name}", 1, 32, aw, bw, cw, d)
        if types == "b1":
            e = ((a[:, :, None] & b[None]) if "and" in name else (a[:, :, None] ^ b[None])).sum(1) + c
        else:
            e = a.astype(np.float64) @ b.astype(np.float64) + c
        if "sat" in name:
            e = np.clip(e, -(2**31), 2**31 - 1)
        e = e[rows, columns]
        got = d
        if types.startswith("f16"):
            got = d.view(np.float16).astype(np.float64)
        if not d.any():
            yield name, "untouched"
            continue
        tolerance = {"f16": 2e-5, "bf16": 2e-5, "tf32": 2e-5, "f64": 1e-12}.get(kind)
        if types.startswith("f16"):
            tolerance = 4e-3
        try:
            check(name, got, e if tolerance else e.astype(np.int64).astype(np.int32), tolerance)
            yield name, ""
        except Wrong as failure:
            yield name, str(failure)


MATRIX = r"""
typedef unsigned u32;
#define SHARED(p) ((u32)__cvta_generic_to_shared(p))
extern "C" __global__ void matrices__load(const short* in, u32* out) { __shared__ alignas(16) short s[32 * 8]; int t = threadIdx.x; for (int i = t; i < 256; i += 32) s[i] = in[i]; __syncthreads(); u32 x[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x[0]) : "r"(SHARED(s + (t & 7) * 8))); out[t] = x[0];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(SHARED(s + (t & 15) * 8))); out[32 + t] = x[0]; out[64 + t] = x[1];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(SHARED(s + ((t * 5) & 31) * 8))); for (int i = 0; i < 4; ++i) out[96 + 32 * i + t] = x[i];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(SHARED(s + t * 8))); for (int i = 0; i < 4; ++i) out[224 + 32 * i + t] = x[i];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(SHARED(s + (t & 15) * 8))); out[352 + t] = x[0]; out[384 + t] = x[1]; }
extern "C" __global__ void matrices__move(const u32* in, u32* out) { u32 x; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(x) : "r"(in[threadIdx.x])); out[threadIdx.x] = x; }
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void matrices__store(const u32* in, short* out) { __shared__ alignas(16) short s[512]; int t = threadIdx.x; u32 a = in[t], b = in[32 + t], c = in[64 + t], d = in[96 + t];
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(SHARED(s + t * 8)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" :: "r"(SHARED(s + 256 + (t & 15) * 8)), "r"(a), "r"(b) : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(SHARED(s + 384 + (t & 7) * 8)), "r"(c) : "memory"); __syncthreads(); for (int i = t; i < 448; i += 32) out[i] = s[i]; }
#endif
"""


@case
def matrices(gpu):
    module = gpu.compile(MATRIX, "matrices")
    random = np.random.default_rng(61)
    s = random.integers(1, 2**15, (32, 8)).astype(np.int16)
    out = np.zeros(416, np.uint32)
    module.launch("matrices__load", 1, 32, s, out)
    u = s.view(np.uint16).astype(np.uint32)
    g, c = LANE // 4, LANE % 4 * 2

    def plain(m):
        return m[g, c] | m[g, c + 1] << 16

    def transposed(m):
        return m[c, g] | m[c + 1, g] << 16

    mixed = u[(np.arange(32) * 5) & 31]
    expected = [plain(u[:8]), plain(u[:8]), plain(u[8:16])] + [plain(mixed[8 * i:8 * i + 8]) for i in range(4)]
    expected += [transposed(u[8 * i:8 * i + 8]) for i in range(4)] + [transposed(u[:8]), transposed(u[8:16])]
    for i, (name) in enumerate(["x1", "x2_0", "x2_1"] + [f"x4_{i}" for i in range(4)] + [f"x4t_{i}" for i in range(4)] + ["x2t_0", "x2t_1"]):
        check(name, out[32 * i:32 * i + 32], expected[i])
    words = np.ascontiguousarray(plain(u[:8]).astype(np.uint32))
    out = np.zeros(32, np.uint32)
    module.launch("matrices__move", 1, 32, words, out)
    check("movmatrix", out, transposed(u[:8]))
    if gpu.architecture >= 90:
        packed = np.concatenate([plain(u[8 * i:8 * i + 8]) for i in range(4)]).astype(np.uint32)
        out = np.zeros(448, np.int16)
        module.launch("matrices__store", 1, 32, packed, out)
        check("stmatrix x4", out[:256].reshape(32, 8), s)
        check("stmatrix x2 trans", out[256:384].reshape(16, 8), np.concatenate([s[:8].T, s[8:16].T]))
        check("stmatrix x1", out[384:].reshape(8, 8), s[16:24])


WMMA = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
template <typename T, typename C, int M, int N, int K, typename A> __device__ void product(const T* a, const T* b, const C* c, C* d) {
  wmma::fragment<wmma::matrix_a, M, N, K, A, wmma::row_major> fa; wmma::fragment<wmma::matrix_b, M, N, K, A, wmma::col_major> fb; wmma::fragment<wmma::accumulator, M, N, K, C> fc;
  wmma::load_matrix_sync(fa, a, K); wmma::load_matrix_sync(fb, b, K); wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major); wmma::mma_sync(fc, fa, fb, fc); for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i]; wmma::store_matrix_sync(d, fc, N, wmma::mem_row_major); }
extern "C" __global__ void wmma__f16(const __half* a, const __half* b, const float* c, float* d) { product<__half, float, 16, 16, 16, __half>(a, b, c, d); }
extern "C" __global__ void wmma__f16_wide(const __half* a, const __half* b, const float* c, float* d) { product<__half, float, 32, 8, 16, __half>(a, b, c, d); }
extern "C" __global__ void wmma__half(const __half* a, const __half* b, const __half* c, __half* d) { product<__half, __half, 8, 32, 16, __half>(a, b, c, d); }
extern "C" __global__ void wmma__bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c, float* d) { product<__nv_bfloat16, float, 16, 16, 16, __nv_bfloat16>(a, b, c, d); }
extern "C" __global__ void wmma__tf32(const float* a, const float* b, const float* c, float* d) { product<float, float, 16, 16, 8, wmma::precision::tf32>(a, b, c, d); }
extern "C" __global__ void wmma__s8(const signed char* a, const signed char* b, const int* c, int* d) { product<signed char, int, 16, 16, 16, signed char>(a, b, c, d); }
extern "C" __global__ void wmma__u8(const unsigned char* a, const unsigned char* b, const int* c, int* d) { product<unsigned char, int, 32, 8, 16, unsigned char>(a, b, c, d); }
extern "C" __global__ void wmma__f64(const double* a, const double* b, const double* c, double* d) { product<double, double, 8, 8, 4, double>(a, b, c, d); }
"""


@case
def wmma(gpu):
    module = gpu.compile(WMMA, "wmma")
    random = np.random.default_rng(71)
    for name, m, n, k, ab, cd, tolerance in (
        ("f16", 16, 16, 16, np.float16, np.float32, 1e-4), ("f16_wide", 32, 8, 16, np.float16, np.float32, 1e-4), ("half", 8, 32, 16, np.float16, np.float16, 1e-2),
        ("bf16", 16, 16, 16, "bf", np.float32, 1e-4), ("tf32", 16, 16, 8, "tf", np.float32, 1e-4), ("s8", 16, 16, 16, np.int8, np.int32, 0), ("u8", 32, 8, 16, np.uint8, np.int32, 0),
        ("f64", 8, 8, 4, np.float64, np.float64, 1e-12),
    ):
        if ab in (np.int8, np.uint8):
            a, b, c = (random.integers(0, 100, s) for s in ((m, k), (n, k), (m, n)))
            if ab == np.int8:
                a, b = a - 50, b - 50
        else:
            a, b, c = (random.standard_normal(s) for s in ((m, k), (n, k), (m, n)))
        if ab == "bf":
            aw, bw = bf(a), bf(b)
            a, b = of_bf(aw), of_bf(bw)
        elif ab == "tf":
            aw, bw = (np.ascontiguousarray((x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)) for x in (a, b))
            a, b = aw, bw
        else:
            aw, bw = a.astype(ab), b.astype(ab)
            a, b = aw, bw
        c = c.astype(cd)
        d = np.zeros((m, n), cd)
        module.launch(f"wmma__{name}", 1, 32, aw, bw, c, d)
        e = 2 * (a.astype(np.float64) @ b.astype(np.float64).T + c)
        try:
            check(name, d, e, tolerance)
            yield name, ""
        except Wrong as failure:
            yield name, "untouched" if not d.any() else str(failure)


@case
def tensor_gemm(gpu):
    """A product of matrices by blocks of four warps, with cp.async, ldmatrix and mma.sync."""
    module = gpu.compile(r"""
#include <cuda_fp16.h>
typedef unsigned u32;
#define SHARED(p) ((u32)__cvta_generic_to_shared(p))
extern "C" __global__ void tensor_gemm__run(const __half* a, const __half* b, float* c, int m, int n, int k) {  // a m x k, b n x k
  __shared__ alignas(16) __half sa[2][64][40], sb[2][64][40]; int t = threadIdx.x, w = t / 32, l = t % 32, bm = blockIdx.y * 64, bn = blockIdx.x * 64, wm = w / 2 * 32, wn = w % 2 * 32;
  float acc[2][4][4] = {};
  auto load = [&](int s, int at) { for (int i = t; i < 256; i += 128) { int r = i / 4, q = i % 4 * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(SHARED(&sa[s][r][q])), "l"(a + (bm + r) * k + at + q)); asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(SHARED(&sb[s][r][q])), "l"(b + (bn + r) * k + at + q)); }
    asm volatile("cp.async.commit_group;"); };
  load(0, 0);
  for (int at = 0, s = 0; at < k; at += 32, s ^= 1) { if (at + 32 < k) load(s ^ 1, at + 32); else asm volatile("cp.async.commit_group;"); asm volatile("cp.async.wait_group 1;" ::: "memory"); __syncthreads();
    for (int kk = 0; kk < 32; kk += 16) { u32 fa[2][4], fb[4][2];
      for (int i = 0; i < 2; ++i) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(SHARED(&sa[s][wm + i * 16 + l % 16][kk + l / 16 * 8])));
      for (int j = 0; j < 4; ++j) asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(fb[j][0]), "=r"(fb[j][1]) : "r"(SHARED(&sb[s][wn + j * 8 + l % 8][kk + l / 8 % 2 * 8])));
      for (int i = 0; i < 2; ++i) for (int j = 0; j < 4; ++j) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3]) : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1])); }
    __syncthreads(); }
  for (int i = 0; i < 2; ++i) for (int j = 0; j < 4; ++j) for (int e = 0; e < 4; ++e) c[(bm + wm + i * 16 + l / 4 + e / 2 * 8) * n + bn + wn + j * 8 + l % 4 * 2 + e % 2] = acc[i][j][e]; }
""", "tensor_gemm")
    random = np.random.default_rng(81)
    a, b = random.standard_normal((128, 96)).astype(np.float16), random.standard_normal((192, 96)).astype(np.float16)
    c = np.zeros((128, 192), np.float32)
    module.launch("tensor_gemm__run", (3, 2), 128, a, b, c, np.int32(128), np.int32(192), np.int32(96))
    check("product", c, a.astype(np.float64) @ b.astype(np.float64).T, 1e-4)


CLUSTER = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void clusters__sum(const int* in, int* out) { __shared__ int s; auto cluster = cg::this_cluster(); if (threadIdx.x == 0) s = in[blockIdx.x]; cluster.sync();
  int sum = 0; for (unsigned r = 0; r < cluster.num_blocks(); ++r) sum += *cluster.map_shared_rank(&s, r); cluster.sync(); if (threadIdx.x == 0) out[blockIdx.x] = sum * 10 + cluster.block_rank(); }
"""


@case(only=90)
def clusters(gpu):
    module = gpu.compile(CLUSTER, "clusters")
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    module.launch("clusters__sum", 8, 32, x, out, cluster=4)
    check("clusters", out, np.repeat(x.reshape(2, 4).sum(1), 4) * 10 + np.arange(8) % 4)


@case(only=90)
def hopper(gpu):
    """mbarrier, bulk copies, elect, setmaxnreg."""
    module = gpu.compile(r"""
typedef unsigned u32; typedef unsigned long long u64;
#define SHARED(p) ((u32)__cvta_generic_to_shared(p))
extern "C" __global__ void hopper__mbarrier(const int* in, int* out) { __shared__ alignas(8) u64 bar; __shared__ int s[128]; int t = threadIdx.x; if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 128;" :: "r"(SHARED(&bar))); __syncthreads();
  s[t] = in[t]; u64 state; asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(SHARED(&bar)) : "memory"); u32 done; do asm volatile("{.reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(SHARED(&bar)), "l"(state) : "memory"); while (!done); out[t] = s[127 - t]; }
extern "C" __global__ void hopper__bulk(const int* in, int* out) { __shared__ alignas(16) int s[256]; __shared__ alignas(8) u64 bar; int t = threadIdx.x; if (t == 0) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(SHARED(&bar))); asm volatile("fence.mbarrier_init.release.cluster;"); } __syncthreads();
  if (t == 0) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 1024;" :: "r"(SHARED(&bar)) : "memory"); asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" :: "r"(SHARED(s)), "l"(in), "r"(SHARED(&bar)) : "memory"); }
  u32 done; do asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(SHARED(&bar)) : "memory"); while (!done); out[t] = s[t ^ 1]; }
extern "C" __global__ void hopper__elect(int* out) { int t = threadIdx.x; u32 p, l; asm volatile("{.reg .pred p; elect.sync %1|p, -1; selp.u32 %0, 1, 0, p;}" : "=r"(p), "=r"(l)); out[t] = p * 100 + l; }
""", "hopper")
    for name, n, expected in (("mbarrier", 128, lambda x: x[:128][::-1]), ("bulk", 256, lambda x: x[np.arange(256) ^ 1]), ("elect", 32, lambda x: np.where(np.arange(32) == 0, 100, 0))):
        x, out = np.arange(1, 257, dtype=np.int32), np.zeros(n, np.int32)
        module.launch(f"hopper__{name}", 1, n, *([x] if name != "elect" else []), out)
        try:
            check(name, out, expected(x))
            yield name, ""
        except Wrong as failure:
            yield name, "untouched" if not out.any() else str(failure)
