"""Halves and bfloat16: arithmetic, comparisons, conversions."""

from elementwise import inputs, op, run_group
from harness import case

DEVICE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define H(x) __ushort_as_half(x)
#define S(x) __half_as_ushort(x)
#define B(x) __ushort_as_bfloat16(x)
#define SB(x) __bfloat16_as_ushort(x)
__device__ __half2 H2(unsigned x) { return *(__half2*)&x; }
__device__ unsigned S2(__half2 x) { return *(unsigned*)&x; }
__device__ __nv_bfloat162 B2(unsigned x) { return *(__nv_bfloat162*)&x; }
__device__ unsigned SB2(__nv_bfloat162 x) { return *(unsigned*)&x; }
"""
HOST = r"""
static inline double hd(unsigned short h) { return h2f(h); }
static inline double bd(unsigned short h) { return b2f(h); }
static inline unsigned short relu_h(unsigned short h) { float f = h2f(h); return f != f ? 0x7fff : f > 0 ? h : 0; }
static inline unsigned short relu_b(unsigned short h) { float f = b2f(h); return f != f ? 0x7fff : f > 0 ? h : 0; }
static inline unsigned short sat_h(unsigned short h) { float f = h2f(h); return f > 0 ? f < 1 ? h : 0x3c00 : 0; }
static inline unsigned short sat_b(unsigned short h) { float f = b2f(h); return f > 0 ? f < 1 ? h : 0x3f80 : 0; }
static inline unsigned short hfma(unsigned short a, unsigned short b, unsigned short c) {
  // A product of halves is exact in double; of what the sum loses, only that it does matters.
  double p = hd(a) * hd(b), z = hd(c); fesetround(FE_TOWARDZERO); feclearexcept(FE_ALL_EXCEPT);
  volatile double s = p + z; bool x = fetestexcept(FE_INEXACT); fesetround(FE_TONEAREST);
  double t = s; if (x) t = bit<double>(bit<U64>(t) | 1); if (p + z == 0) t = p + z; return d2h(t); }
static inline unsigned short hmin(unsigned short a, unsigned short b, bool min, bool nan) {
  float x = h2f(a), y = h2f(b); if (x != x || y != y) return nan || (x != x && y != y) ? 0x7fff : x != x ? b : a;
  if (x == y) return min ? a | b : a & b; return (x < y) == min ? a : b; }
static inline unsigned short bmin(unsigned short a, unsigned short b, bool min, bool nan) {
  float x = b2f(a), y = b2f(b); if (x != x || y != y) return nan || (x != x && y != y) ? 0x7fff : x != x ? b : a;
  if (x == y) return min ? a | b : a & b; return (x < y) == min ? a : b; }
static inline unsigned short h_mode(int mode, double v) {
  if (v != v) return 0x7fff; double m = std::fabs(v); bool neg = std::signbit(v);
  if (std::isinf(v)) return neg << 15 | 0x7c00;
  int e; std::frexp(m, &e); e = std::max(e - 11, -24); double q = std::ldexp(m, -e), f = std::floor(q), r = f;
  bool up = mode == 0 ? q - f > 0.5 || (q - f == 0.5 && std::fmod(f, 2) == 1) : mode == 1 ? neg && q != f : mode == 2 ? !neg && q != f : false;
  if (up) r = f + 1; r = std::ldexp(r, e); unsigned short h;
  if (r > 65504) h = mode == 0 || (mode == 1 && neg) || (mode == 2 && !neg) ? 0x7c00 : 0x7bff; else h = bit<unsigned short>((_Float16)r);
  return h | neg << 15; }
static inline unsigned short b_mode(int mode, float v) {
  if (v != v) return 0x7fff; unsigned u = bit<unsigned>(v); bool neg = u >> 31, x = u & 0xffff;
  if (mode == 0) return f2b(v); return (u >> 16) + (x && ((mode == 1 && neg) || (mode == 2 && !neg))); }
"""


def both(name, ins, half, bfloat, host_half, host_bfloat):
    """The same of a half, a bfloat16 and of pairs of them."""
    return [op(f"{name}_h", "h" * ins, "h", half, host_half), op(f"{name}_b", "b" * ins, "b", bfloat, host_bfloat)]


def scalar_and_pair(name, ins, function, h, b, pair=None):
    names = "abc"[:ins]
    pair = pair or function.replace("__h", "__h", 1) + "2"
    ops = []
    ops.append(op(f"{name}_h", "h" * ins, "h", f"S({function}({', '.join(f'H({x})' for x in names)}))", h(*names)))
    ops.append(op(f"{name}_b", "b" * ins, "b", f"SB({function}({', '.join(f'B({x})' for x in names)}))", b(*names)))
    ops.append(op(f"{name}_h2", "w" * ins, "w", f"S2({pair}({', '.join(f'H2({x})' for x in names)}))",
                  f"pair({h(*(f'LO({x})' for x in names))}, {h(*(f'HI({x})' for x in names))})"))
    ops.append(op(f"{name}_b2", "v" * ins, "v", f"SB2({pair}({', '.join(f'B2({x})' for x in names)}))",
                  f"pair({b(*(f'LO({x})' for x in names))}, {b(*(f'HI({x})' for x in names))})"))
    return ops


@case
def half_arithmetic(gpu):
    ops = []
    for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*")):
        h = lambda a, b, s=sign: f"d2h(hd({a}) {s} hd({b}))"
        b = lambda a, b, s=sign: f"d2b(bd({a}) {s} bd({b}))"
        ops += scalar_and_pair(name, 2, f"__h{name}", h, b)
        ops += scalar_and_pair(f"{name}_rn", 2, f"__h{name}_rn", h, b, f"__h{name}2_rn")
        ops += scalar_and_pair(f"{name}_sat", 2, f"__h{name}_sat", lambda a, c: f"sat_h({h(a, c)})",
                               lambda a, c: f"sat_b({b(a, c)})", f"__h{name}2_sat")
    ops += scalar_and_pair("fma", 3, "__hfma", lambda a, b, c: f"hfma({a}, {b}, {c})", lambda a, b, c: f"bfma({a}, {b}, {c})")
    ops += scalar_and_pair("fma_relu", 3, "__hfma_relu", lambda a, b, c: f"relu_h(hfma({a}, {b}, {c}))",
                           lambda a, b, c: f"relu_b(bfma({a}, {b}, {c}))", "__hfma2_relu")
    ops += scalar_and_pair("fma_sat", 3, "__hfma_sat", lambda a, b, c: f"sat_h(hfma({a}, {b}, {c}))",
                           lambda a, b, c: f"sat_b(bfma({a}, {b}, {c}))", "__hfma2_sat")
    ops += scalar_and_pair("neg", 1, "__hneg", lambda a: f"(unsigned short)({a} ^ 0x8000)", lambda a: f"(unsigned short)({a} ^ 0x8000)")
    ops += scalar_and_pair("abs", 1, "__habs", lambda a: f"(unsigned short)({a} & 0x7fff)", lambda a: f"(unsigned short)({a} & 0x7fff)")
    for name, least in (("min", "true"), ("max", "false")):
        ops += scalar_and_pair(name, 2, f"__h{name}", lambda a, b: f"hmin({a}, {b}, {least}, false)", lambda a, b: f"bmin({a}, {b}, {least}, false)")
        ops += scalar_and_pair(f"{name}_nan", 2, f"__h{name}_nan", lambda a, b: f"hmin({a}, {b}, {least}, true)",
                               lambda a, b: f"bmin({a}, {b}, {least}, true)", f"__h{name}2_nan")
    ops += both("div", 2, "S(__hdiv(H(a), H(b)))", "SB(__hdiv(B(a), B(b)))", "d2h(hd(a) / hd(b))", "d2b(bd(a) / bd(b))")
    ops += [
        op("low_times_high", "ww", "w", "S2(__hmul2(__low2half2(H2(a)), __high2half2(H2(b))))", "pair(d2h(hd(LO(a)) * hd(HI(b))), d2h(hd(LO(a)) * hd(HI(b))))"),
        op("swap_fma", "www", "w", "S2(__hfma2(__lowhigh2highlow(H2(a)), H2(b), __low2half2(H2(c))))", "pair(hfma(HI(a), LO(b), LO(c)), hfma(LO(a), HI(b), LO(c)))"),
        op("swap_fma_b", "vvv", "v", "SB2(__hfma2(__lowhigh2highlow(B2(a)), B2(b), __high2bfloat162(B2(c))))", "pair(bfma(HI(a), LO(b), HI(c)), bfma(LO(a), HI(b), HI(c)))"),
        op("immediates", "w", "w", "S2(__hfma2(H2(a), __floats2half2_rn(2.5f, -3.0f), __floats2half2_rn(1.0f, 0.125f)))", "pair(hfma(LO(a), 0x4100, 0x3c00), hfma(HI(a), 0xc200, 0x3000))"),
        op("immediates_b", "v", "v", "SB2(__hfma2(B2(a), __floats2bfloat162_rn(2.5f, -3.0f), __floats2bfloat162_rn(1.0f, 0.125f)))", "pair(bfma(LO(a), 0x4020, 0x3f80), bfma(HI(a), 0xc040, 0x3e00))"),
        op("neg_abs_fma", "www", "w", "S2(__hfma2(__hneg2(H2(a)), __habs2(H2(b)), __hneg2(H2(c))))", "pair(hfma(LO(a) ^ 0x8000, LO(b) & 0x7fff, LO(c) ^ 0x8000), hfma(HI(a) ^ 0x8000, HI(b) & 0x7fff, HI(c) ^ 0x8000))"),
        op("cmadd", "www", "w", "S2(__hcmadd(H2(a), H2(b), H2(c)))",
           "[&] { unsigned short x = LO(a), y = HI(a), p = LO(b), q = HI(b); unsigned short re = hfma(x, p, LO(c)), im = hfma(x, q, HI(c)); return pair(hfma(y ^ 0x8000, q, re), hfma(y, p, im)); }()"),
    ]
    return run_group(gpu, "half_arithmetic", ops, DEVICE, HOST)


@case
def half_comparisons(gpu):
    ops = []
    for name, sign, unordered in (("eq", "==", 1), ("ne", "!=", 0), ("lt", "<", 1), ("le", "<=", 1), ("gt", ">", 1), ("ge", ">=", 1)):
        for u in ("", "u"):
            hold = lambda f, x, y: (f"({f}({x}) != {f}({x}) || {f}({y}) != {f}({y}) ? {'true' if u else 'false'} : {f}({x}) {sign} {f}({y}))")
            ops.append(op(f"{name}{u}_h", "hh", "i", f"__h{name}{u}(H(a), H(b))", hold("hd", "a", "b")))
            ops.append(op(f"{name}{u}_b", "bb", "i", f"__h{name}{u}(B(a), B(b))", hold("bd", "a", "b")))
            ops.append(op(f"{name}{u}_h2", "ww", "w", f"S2(__h{name}{u}2(H2(a), H2(b)))",
                          f"pair({hold('hd', 'LO(a)', 'LO(b)')} ? 0x3c00 : 0, {hold('hd', 'HI(a)', 'HI(b)')} ? 0x3c00 : 0)"))
            ops.append(op(f"{name}{u}_b2", "vv", "v", f"SB2(__h{name}{u}2(B2(a), B2(b)))",
                          f"pair({hold('bd', 'LO(a)', 'LO(b)')} ? 0x3f80 : 0, {hold('bd', 'HI(a)', 'HI(b)')} ? 0x3f80 : 0)"))
            ops.append(op(f"{name}{u}_mask", "ww", "u", f"__h{name}{u}2_mask(H2(a), H2(b))",
                          f"pair({hold('hd', 'LO(a)', 'LO(b)')} ? 0xffff : 0, {hold('hd', 'HI(a)', 'HI(b)')} ? 0xffff : 0)"))
            ops.append(op(f"b{name}{u}_h2", "ww", "i", f"__hb{name}{u}2(H2(a), H2(b))", f"{hold('hd', 'LO(a)', 'LO(b)')} && {hold('hd', 'HI(a)', 'HI(b)')}"))
            ops.append(op(f"b{name}{u}_b2", "vv", "i", f"__hb{name}{u}2(B2(a), B2(b))", f"{hold('bd', 'LO(a)', 'LO(b)')} && {hold('bd', 'HI(a)', 'HI(b)')}"))
    ops.append(op("isnan", "w", "w", "S2(__hisnan2(H2(a)))", "pair(hd(LO(a)) != hd(LO(a)) ? 0x3c00 : 0, hd(HI(a)) != hd(HI(a)) ? 0x3c00 : 0)"))
    return run_group(gpu, "half_comparisons", ops, DEVICE, HOST)


@case
def half_conversions(gpu):
    ops = []
    many = lambda kind: lambda r: [inputs(kind, 4000, r)]
    for m, n in (("rn", 0), ("rd", 1), ("ru", 2), ("rz", 3)):
        ops += [
            op(f"float2half_{m}", "f", "h", f"S(__float2half_{m}(a))", f"h_mode({n}, a)", arrays=many("f")),
            op(f"float2bfloat_{m}", "f", "b", f"SB(__float2bfloat16_{m}(a))", f"b_mode({n}, a)", arrays=many("f")),
            op(f"half2int_{m}", "h", "i", f"__half2int_{m}(H(a))", f"to_int<int>({n}, hd(a), 0)"),
            op(f"half2uint_{m}", "h", "u", f"__half2uint_{m}(H(a))", f"to_int<unsigned>({n}, hd(a), 0)"),
            op(f"half2ll_{m}", "h", "l", f"__half2ll_{m}(H(a))", f"to_int<I64>({n}, hd(a), (I64)0x8000000000000000ull)"),
            op(f"half2ull_{m}", "h", "U", f"__half2ull_{m}(H(a))", f"to_int<U64>({n}, hd(a), 0x8000000000000000ull)"),
            op(f"half2short_{m}", "h", "s", f"__half2short_{m}(H(a))", f"to_int<short>({n}, hd(a), 0)"),
            op(f"half2ushort_{m}", "h", "S", f"__half2ushort_{m}(H(a))", f"to_int<unsigned short>({n}, hd(a), 0)"),
            op(f"int2half_{m}", "i", "h", f"S(__int2half_{m}(a))", f"h_mode({n}, a)"),
            op(f"uint2half_{m}", "u", "h", f"S(__uint2half_{m}(a))", f"h_mode({n}, a)"),
            op(f"short2half_{m}", "s", "h", f"S(__short2half_{m}(a))", f"h_mode({n}, a)"),
            op(f"ushort2half_{m}", "S", "h", f"S(__ushort2half_{m}(a))", f"h_mode({n}, a)"),
            op(f"ll2half_{m}", "l", "h", f"S(__ll2half_{m}(a))", f"h_mode({n}, std::max(std::min(a, (I64)1 << 40), -((I64)1 << 40)))"),
            op(f"ull2half_{m}", "U", "h", f"S(__ull2half_{m}(a))", f"h_mode({n}, std::min(a, (U64)1 << 40))"),
            op(f"bfloat2int_{m}", "b", "i", f"__bfloat162int_{m}(B(a))", f"to_int<int>({n}, bd(a), 0)"),
            op(f"bfloat2ll_{m}", "b", "l", f"__bfloat162ll_{m}(B(a))", f"to_int<I64>({n}, bd(a), (I64)0x8000000000000000ull)"),
            op(f"bfloat2ushort_{m}", "b", "S", f"__bfloat162ushort_{m}(B(a))", f"to_int<unsigned short>({n}, bd(a), 0)"),
        ]
    ops += [
        op("half2float", "h", "f", "__half2float(H(a))", "h2f(a)"),
        op("bfloat2float", "b", "f", "__bfloat162float(B(a))", "b2f(a)"),
        op("double2half", "d", "h", "S(__double2half(a))", "d2h(a)", arrays=many("d")),
        op("half2double", "h", "d", "(double)__half2float(H(a))", "hd(a)"),
        op("double2bfloat", "d", "b", "SB(__double2bfloat16(a))", "d2b(a)", arrays=many("d")),
        op("floats2half2", "ff", "w", "S2(__floats2half2_rn(a, b))", "pair(d2h(a), d2h(b))"),
        op("floats2bfloat2", "ff", "v", "SB2(__floats2bfloat162_rn(a, b))", "pair(f2b(a), f2b(b))"),
        op("relu_half2", "ff", "w", '[&] { unsigned r; asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(a), "f"(b)); return r; }()', "pair(relu_h(d2h(b)), relu_h(d2h(a)))"),
        op("relu_bfloat2", "ff", "v", '[&] { unsigned r; asm("cvt.rz.relu.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(a), "f"(b)); return r; }()', "pair(relu_b(b_mode(3, b)), relu_b(b_mode(3, a)))"),
        op("half2_sum", "w", "f", "__low2float(H2(a)) + __high2float(H2(a))", "h2f(LO(a)) + h2f(HI(a))"),
        op("tf32", "f", "u", '[&] { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(a)); return a != a ? 0 : r & 0xffffe000; }()',
           "a != a ? 0 : std::isinf(a) ? bit<unsigned>(a) : (bit<unsigned>(a) + 0x1000) & 0xffffe000"),
        op("hfloor", "h", "h", "S(hfloor(H(a)))", "d2h(std::floor(hd(a)))"),
        op("hrint", "h", "h", "S(hrint(H(a)))", "d2h(std::nearbyint(hd(a)))"),
        op("htrunc2", "w", "w", "S2(h2trunc(H2(a)))", "pair(d2h(std::trunc(hd(LO(a)))), d2h(std::trunc(hd(HI(a)))))"),
        op("hceil_b", "b", "b", "SB(hceil(B(a)))", "d2b(std::ceil(bd(a)))"),
    ]
    near = lambda name, host, low, high: [
        op(f"h{name}", "h", "i", f"(int)(fabsf(__half2float(h{name}(H(a))) - ({host}f(__half2float(H(a))))) <= 0.002f * fmaxf(1.0f, fabsf({host}f(__half2float(H(a))))))", "1",
           arrays=lambda r: [r.uniform(low, high, 999).astype("float16").view("uint16")]),
        op(f"h2{name}_b", "v", "i", f"(int)(fabsf(__low2float(h2{name}(B2(a))) - ({host}f(__low2float(B2(a))))) <= 0.01f * fmaxf(1.0f, fabsf({host}f(__low2float(B2(a))))))", "1",
           arrays=lambda r: [(r.uniform(low, high, 1998).astype("float32").view("uint32") >> 16).astype("uint16").view("uint32")]),
    ]
    for name, host, low, high in (("exp", "exp", -4, 4), ("exp2", "exp2", -4, 4), ("log", "log", 0.01, 50), ("log2", "log2", 0.01, 50), ("sqrt", "sqrt", 0, 100),
                                  ("rsqrt", "rsqrt", 0.01, 100), ("rcp", "1.0f/", 0.1, 9), ("sin", "sin", -3, 3), ("cos", "cos", -3, 3)):
        if name == "rcp":
            ops += [op("hrcp", "h", "i", "(int)(fabsf(__half2float(hrcp(H(a))) * __half2float(H(a)) - 1) < 0.002f)", "1", arrays=lambda r: [r.uniform(0.1, 9, 999).astype("float16").view("uint16")])]
        else:
            ops += near(name, host, low, high)
    ops += [op("htanh_approx", "h", "i", '[&] { unsigned short r; asm("tanh.approx.f16 %0, %1;" : "=h"(r) : "h"(a)); return (int)(fabsf(__half2float(H(r)) - tanhf(__half2float(H(a)))) < 0.002f); }()', "1",
               arrays=lambda r: [r.uniform(-4, 4, 999).astype("float16").view("uint16")]),
            op("tanh_approx_h2", "w", "i", '[&] { unsigned r; asm("tanh.approx.f16x2 %0, %1;" : "=r"(r) : "r"(a)); return (int)(fabsf(__high2float(H2(r)) - tanhf(__high2float(H2(a)))) < 0.002f); }()', "1",
               arrays=lambda r: [r.uniform(-4, 4, 1998).astype("float16").view("uint32")]),
            op("ex2_h2", "w", "i", '[&] { unsigned r; asm("ex2.approx.f16x2 %0, %1;" : "=r"(r) : "r"(a)); return (int)(fabsf(__high2float(H2(r)) - exp2f(__high2float(H2(a)))) < 0.02f); }()', "1",
               arrays=lambda r: [r.uniform(-4, 4, 1998).astype("float16").view("uint32")])]
    return run_group(gpu, "half_conversions", ops, DEVICE, HOST)


FP8 = r"""
#include <cuda_fp8.h>
"""


@case
def fp8(gpu):
    host = r"""
// Numbers of 8 bits, by going through all of them.
static double f8(unsigned char v, bool e4) { int e = e4 ? v >> 3 & 15 : v >> 2 & 31, m = e4 ? v & 7 : v & 3; int bits = e4 ? 3 : 2, bias = e4 ? 7 : 15; double r;
  if (e4 && (v & 127) == 127) r = NAN; else if (!e4 && e == 31) r = m ? NAN : INFINITY;
  else r = e ? std::ldexp(1 + m / (double)(1 << bits), e - bias) : std::ldexp(m / (double)(1 << bits), 1 - bias); return v & 128 ? -r : r; }
static unsigned char to8(double v, bool e4) { if (v != v) return 127; unsigned char s = std::signbit(v) ? 128 : 0; double m = std::fabs(v), top = e4 ? 448 : 57344; if (m >= top) return s | (e4 ? 126 : 123);
  int best = 0; for (int i = 0; i < (e4 ? 127 : 124); ++i) { double x = f8(i, e4), y = f8(best, e4); double dx = std::fabs(x - m), dy = std::fabs(y - m); if (dx < dy || (dx == dy && !(i & 1))) best = i; } return s | best; }
"""
    ops = [
        op("to_e4m3", "f", "C", "__nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E4M3)", "to8(a, true)"),
        op("to_e5m2", "f", "C", "__nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E5M2)", "to8(a, false)"),
        op("half_to_e4m3", "h", "C", "__nv_cvt_halfraw_to_fp8(__half_raw(H(a)), __NV_SATFINITE, __NV_E4M3)", "to8(h2f(a), true)"),
        op("of_e4m3", "C", "h", "((__half_raw)__nv_cvt_fp8_to_halfraw(a, __NV_E4M3)).x", "d2h(f8(a, true))"),
        op("of_e5m2", "C", "h", "((__half_raw)__nv_cvt_fp8_to_halfraw(a, __NV_E5M2)).x", "d2h(f8(a, false))"),
        op("pair_e4m3", "ff", "S", "__nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3)", "to8(a, true) | to8(b, true) << 8"),
        op("pair_of_e5m2", "S", "w", "[&] { auto r = __nv_cvt_fp8x2_to_halfraw2(a, __NV_E5M2); return r.x | (unsigned)r.y << 16; }()", "pair(d2h(f8(a & 255, false)), d2h(f8(a >> 8, false)))"),
    ]
    return run_group(gpu, "fp8", ops, DEVICE + FP8, HOST + host)
