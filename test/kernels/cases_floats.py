"""Floats and doubles: arithmetic in all rounding modes, conversions, functions."""

import numpy as np

from elementwise import op, run_group
from harness import case

MODES = (("rn", 0), ("rd", 1), ("ru", 2), ("rz", 3))


def arithmetic(k, t, prefix, fma):
    ops = []
    for m, n in MODES:
        ops += [
            op(f"add_{m}", k * 2, k, f"__{prefix}add_{m}(a, b)", f"MODE2({t}, {n}, A + B)"),
            op(f"sub_{m}", k * 2, k, f"__{prefix}sub_{m}(a, b)", f"MODE2({t}, {n}, A - B)"),
            op(f"mul_{m}", k * 2, k, f"__{prefix}mul_{m}(a, b)", f"MODE2({t}, {n}, A * B)"),
            op(f"fma_{m}", k * 3, k, f"__{fma}_{m}(a, b, c)", f"MODE3({t}, {n}, std::fma(({t})A, ({t})B, ({t})C))"),
            op(f"div_{m}", k * 2, k, f"__{prefix}div_{m}(a, b)", f"MODE2({t}, {n}, A / B)"),
            op(f"sqrt_{m}", k, k, f"__{prefix}sqrt_{m}(a)", f"MODE1({t}, {n}, std::sqrt(({t})A))"),
            op(f"rcp_{m}", k, k, f"__{prefix}rcp_{m}(a)", f"MODE1({t}, {n}, 1 / A)"),
        ]
    return ops


def more_arithmetic(k, t, s):
    return [
        op("add", k * 2, k, "a + b"),
        op("sub", k * 2, k, "a - b"),
        op("mul", k * 2, k, "a * b"),
        op("div", k * 2, k, "a / b"),
        op("fma", k * 3, k, f"fma{s}(a, b, c)", f"std::fma(a, b, c)"),
        op("fma_neg", k * 3, k, f"fma{s}(-a, b, -c)", f"std::fma(-a, b, -c)"),
        op("sqrt", k, k, f"sqrt{s}(a)", f"std::sqrt(a)"),
        op("min", k * 2, k, f"fmin{s}(a, b)", "a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b"),
        op("max", k * 2, k, f"fmax{s}(a, b)", "a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b"),
        op("abs", k, k, f"fabs{s}(a)", "std::fabs(a)"),
        op("neg_abs", k, k, f"-fabs{s}(a)", "-std::fabs(a)"),
        op("abs_arith", k * 3, k, f"fabs{s}(a) * -fabs{s}(b) + fabs{s}(c)" if False else f"fabs{s}(a) + -fabs{s}(b)", "std::fabs(a) + -std::fabs(b)"),
        op("compare", k * 2, "u", "(a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5 | (!(a < b)) << 6 | (!(a >= b)) << 7 | (!(a == b)) << 8 | (a < b || a > b) << 9 | (isnan(a) || isnan(b)) << 10",
           "(a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5 | (!(a < b)) << 6 | (!(a >= b)) << 7 | (!(a == b)) << 8 | (a < b || a > b) << 9 | (std::isnan(a) || std::isnan(b)) << 10"),
        op("select", k * 3, k, "a < b ? c : -c"),
        op("ternary_max", k * 3, k, "a > b ? a > c ? a : c : b > c ? b : c"),
        op("copysign", k * 2, k, f"copysign{s}(a, b)", "std::copysign(a, b)"),
        op("floor", k, k, f"floor{s}(a)", "std::floor(a)"),
        op("ceil", k, k, f"ceil{s}(a)", "std::ceil(a)"),
        op("trunc", k, k, f"trunc{s}(a)", "std::trunc(a)"),
        op("rint", k, k, f"rint{s}(a)", "std::nearbyint(a)"),
        op("round", k, k, f"round{s}(a)", "std::round(a)"),
        op("fmod", k * 2, k, f"fmod{s}(a, b)", "std::fmod(a, b)"),
        op("remainder", k * 2, k, f"remainder{s}(a, b)", "std::remainder(a, b)"),
        op("ldexp", k + "i", k, f"ldexp{s}(a, b % 400)", "std::ldexp(a, b % 400)"),
        op("frexp", k, k, f"[&] {{ int e; auto m = frexp{s}(a, &e); return isfinite(a) ? m + e : a; }}()",
           "[&] { int e; auto m = std::frexp(a, &e); return std::isfinite(a) ? m + e : a; }()"),
        op("modf", k, k, f"[&] {{ {t} w; auto f = modf{s}(a, &w); return w; }}()",
           f"[&] {{ {t} w; auto f = std::modf(a, &w); return w; }}()") if k == "d" else
        op("modf", k, k, f"[&] {{ {t} w; auto f = modf{s}(a, &w); return w; }}()",
           f"[&] {{ {t} w; auto f = std::modf(a, &w); return w; }}()"),
        op("logb", k, k, f"logb{s}(a)", "std::logb(a)"),
        op("ilogb", k, "i", f"isfinite(a) && a != 0 ? ilogb{s}(a) : 0", "std::isfinite(a) && a != 0 ? std::ilogb(a) : 0"),
        op("nextafter", k * 2, k, f"nextafter{s}(a, b)", "std::nextafter(a, b)"),
        op("fdim", k * 2, k, f"fdim{s}(a, b)", "std::fdim(a, b)"),
        op("classify", k, "u", "isnan(a) | isinf(a) << 1 | isfinite(a) << 2 | (signbit(a) != 0) << 3",
           "std::isnan(a) | std::isinf(a) << 1 | std::isfinite(a) << 2 | std::signbit(a) << 3"),
    ]


@case
def float_arithmetic(gpu):
    ops = arithmetic("f", "float", "f", "fmaf") + more_arithmetic("f", "float", "f")
    for o in ops:
        if o["name"].startswith(("sub_",)):
            pass
    ops += [
        op("saturate", "f", "f", "__saturatef(a)", "a > 0 ? a < 1 ? a : 1 : 0"),
        op("saturate_add", "ff", "f", "__saturatef(a + b)", "a + b > 0 ? a + b < 1 ? a + b : 1 : 0"),
        op("saturate_fma", "fff", "f", "__saturatef(fmaf(a, b, c))", "std::fma(a, b, c) > 0 ? std::fma(a, b, c) < 1 ? std::fma(a, b, c) : 1 : 0"),
        op("min_nan", "ff", "f", '[&] { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }()',
           "a != a ? a : b != b ? b : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b"),
        *([] if gpu.architecture < 86 else [op("max_xorsign", "ff", "f", '[&] { float r; asm("max.xorsign.abs.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }()',
           "[&] { if (a != a || b != b) return a != a && b != b ? NAN : a != a ? b : a; float m = std::max(std::fabs(a), std::fabs(b)); return std::signbit(a) != std::signbit(b) ? -m : m; }()",
           arrays=lambda r: [np.float32(r.standard_normal(999)), np.float32(r.standard_normal(999))])]),
        op("frcp_sqrt", "f", "f", "__frsqrt_rn(a)", "(float)(1 / std::sqrt((double)a))", ulps=0.01),
    ]
    return run_group(gpu, "float_arithmetic", ops)


@case
def float_flush(gpu):
    """With -ftz=true, -prec-div=false and the like."""
    ops = [
        op("add", "ff", "f", "a + b", "ftz(ftz(a) + ftz(b))"),
        # Flushed is what was too small before it was rounded.
        op("mul", "ff", "f", "a * b", "[&] { double e = (double)ftz(a) * ftz(b); return std::fabs(e) < 0x1p-126 ? std::copysign(0.0f, (float)e) : ftz((float)e); }()"),
        op("fma", "fff", "f", "fmaf(a, b, c)", "ftz(std::fma(ftz(a), ftz(b), ftz(c)))"),
        op("add_rd", "ff", "f", "__fadd_rd(a, b)", "ftz(MODE2(float, 1, ftz(A) + ftz(B)))"),
        op("compare", "ff", "u", "(a < b) | (a == b) << 1 | (a > b) << 2", "(ftz(a) < ftz(b)) | (ftz(a) == ftz(b)) << 1 | (ftz(a) > ftz(b)) << 2"),
        op("min", "ff", "f", "fminf(a, b)", "[&] { float x = ftz(a), y = ftz(b); return x != x ? y : y != y ? x : x == y ? (std::signbit(x) ? x : y) : x < y ? x : y; }()"),
        op("to_double", "f", "d", "(double)a", "(double)ftz(a)"),
        op("to_int", "f", "i", "(int)a", "to_int<int>(3, ftz(a), 0)"),
        op("to_int_up", "f", "i", "__float2int_ru(a)", "to_int<int>(2, ftz(a), 0)"),
        op("floor", "f", "f", "floorf(a)", "std::floor(ftz(a))"),
        op("from_double", "d", "f", "(float)a", "ftz((float)a)"),
    ]
    module_options = gpu.compile
    gpu.compile = lambda text, name: module_options(text, name, ("-ftz=true", "-fmad=false"))
    return run_group(gpu, "float_flush", ops)


@case
def double_arithmetic(gpu):
    ops = arithmetic("d", "double", "d", "fma") + more_arithmetic("d", "double", "")
    return run_group(gpu, "double_arithmetic", ops)


@case
def conversions(gpu):
    ops = []
    ints = (("i", "int", "int"), ("u", "uint", "unsigned"), ("l", "ll", "I64"), ("U", "ull", "U64"))
    for k, n, t in ints:
        for m, mode in MODES:
            nan = "0" if k in "iu" else "(I64)0x8000000000000000ull" if k == "l" else "0x8000000000000000ull"
            ops.append(op(f"float2{n}_{m}", "f", k, f"__float2{n}_{m}(a)", f"to_int<{t}>({mode}, a, {nan})"))
            nan = {"i": "(int)0x80000000", "u": "0x80000000u"}.get(k, nan)
            ops.append(op(f"double2{n}_{m}", "d", k, f"__double2{n}_{m}(a)", f"to_int<{t}>({mode}, a, {nan})"))
            ops.append(op(f"{n}2float_{m}", k, "f", f"__{n}2float_{m}(a)", f"MODE1(float, {mode}, (float)A)"))
            if n not in ("int", "uint"):
                ops.append(op(f"{n}2double_{m}", k, "d", f"__{n}2double_{m}(a)", f"MODE1(double, {mode}, (double)A)"))
        ops.append(op(f"{n}2double", k, "d", "(double)a"))
        ops.append(op(f"{n}2double_back", k, k, f"({t})((double)a * 0.5)", f"to_int<{t}>(3, (double)a * 0.5, 0)"))
    for m, mode in MODES:
        ops.append(op(f"double2float_{m}", "d", "f", f"__double2float_{m}(a)", f"MODE1(float, {mode}, (float)A)"))
    for k, t, n in (("c", "signed char", "s8"), ("C", "unsigned char", "u8"), ("s", "short", "s16"), ("S", "unsigned short", "u16")):
        for f, ft, letter in (("f", "f32", "f"), ("d", "f64", "d")):
            for m, mode in (("rni", 0), ("rmi", 1), ("rpi", 2), ("rzi", 3)):
                code = f'[&] {{ short r; asm("cvt.{m}.sat.{n}.{ft} %0, %1;" : "=h"(r) : "{letter}"(a)); return ({t})r; }}()'
                if n[1:] == "8":
                    code = f'[&] {{ int r; asm("cvt.{m}.sat.{n}.{ft} %0, %1;" : "=r"(r) : "{letter}"(a)); return ({t})r; }}()'
                # What of a NaN: not compared.
                keep = (lambda f: lambda r: [__import__("elementwise").inputs(f, 4000, r)])(f)
                ops.append(op(f"sat_{n}_{ft}_{m}", f, k, f"a != a ? 0 : {code}", f"to_int<{t}>({mode}, a, 0)", arrays=keep))
        ops.append(op(f"{n}_to_float", k, "f", "(float)a * 1.5f"))
        ops.append(op(f"{n}_to_double", k, "d", "(double)a * 1.5"))
        for dst, dn, dt in (("i", "s32", "int"), ("u", "u32", "unsigned"), ("l", "s64", "I64")):
            ops.append(op(f"sat_{n}_{dn}", dst, k,
                          f'[&] {{ int r; asm("cvt.sat.{n}.{dn} %0, %1;" : "=r"(r) : "{"l" if dst == "l" else "r"}"(a)); return ({t})r; }}()',
                          f"[&] {{ I128 v = a, lo = std::numeric_limits<{t}>::min(), hi = std::numeric_limits<{t}>::max(); return ({t})(v < lo ? lo : v > hi ? hi : v); }}()"))
        ops.append(op(f"bytes_{n}_float", "u", "f", f"(float)({t})(a >> 8) + (float)({t})(a >> 16)" + ("+ (float)(" + t + ")(a >> 24)" if n[1:] == "8" else "")))
    for src, sn, dst, dn, t in (("l", "s64", "i", "s32", "int"), ("U", "u64", "u", "u32", "unsigned"), ("i", "s32", "u", "u32", "unsigned"),
                                ("u", "u32", "i", "s32", "int"), ("l", "s64", "U", "u64", "U64"), ("U", "u64", "i", "s32", "int")):
        i, o = ("l" if src in "lU" else "r"), ("l" if dst in "lU" else "r")
        ops.append(op(f"sat_{dn}_{sn}", src, dst, f'[&] {{ {t} r; asm("cvt.sat.{dn}.{sn} %0, %1;" : "={o}"(r) : "{i}"(a)); return r; }}()',
                      f"[&] {{ I128 v = a, lo = std::numeric_limits<{t}>::min(), hi = std::numeric_limits<{t}>::max(); return ({t})(v < lo ? lo : v > hi ? hi : v); }}()"))
    for m, mode in (("rni", 0), ("rmi", 1), ("rpi", 2), ("rzi", 3)):
        f = ("std::nearbyint", "std::floor", "std::ceil", "std::trunc")[mode]
        ops.append(op(f"integral_sat_{m}", "f", "f", f'[&] {{ float r; asm("cvt.{m}.sat.f32.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }}()',
                      f"[&] {{ float v = {f}(a); return v > 0 ? v < 1 ? v : 1.0f : 0.0f; }}()"))
    ops += [
        op("pack_sat_u8", "iiu", "u", '[&] { unsigned r; asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }()',
           "c << 16 | std::min(std::max(a, 0), 255) << 8 | std::min(std::max(b, 0), 255)"),
        op("pack_sat_s8", "iiu", "u", '[&] { unsigned r; asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }()',
           "c << 16 | (std::min(std::max(a, -128), 127) & 255) << 8 | (std::min(std::max(b, -128), 127) & 255)"),
        op("pack_sat_s16", "ii", "u", '[&] { unsigned r; asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }()',
           "(unsigned)std::min(std::max(a, -32768), 32767) << 16 | (std::min(std::max(b, -32768), 32767) & 65535)"),
        op("bits_of", "f", "i", "__float_as_int(a) ^ 0x1234", "bit<int>(a) ^ 0x1234"),
        op("double_bits", "d", "l", "__double_as_longlong(a) + __double2hiint(a)", "bit<I64>(a) + (bit<I64>(a) >> 32)"),
        op("hiloint", "ii", "d", "__hiloint2double(a, b)", "bit<double>((U64)(unsigned)a << 32 | (unsigned)b)"),
    ]
    return run_group(gpu, "conversions", ops)


def uniform(low, high, count=2000, dtype=np.float32, second=None):
    def make(random):
        first = random.uniform(low, high, count).astype(dtype)
        if second is None:
            return [first]
        return [first, random.uniform(*second, count).astype(dtype)]

    return make


def library(k, s, scale=1, large=1e8):
    dtype = np.float32 if k == "f" else np.float64
    L = "(long double)"

    def one(name, host, ulps, low=None, high=None):
        arrays = None if low is None else uniform(low, high, dtype=dtype)
        return op(name + ("" if low is None else f"_in_{abs(int(high))}"), k, k, f"{name}{s}(a)", host, ulps=ulps, arrays=arrays)

    top = 88 if k == "f" else 700
    ops = []
    for name, host, ulps in (
        ("sin", "sinl", 2), ("cos", "cosl", 2), ("tan", "tanl", 4), ("exp", "expl", 2), ("exp2", "exp2l", 2), ("exp10", "exp10l", 2),
        ("expm1", "expm1l", 1), ("log", "logl", 1), ("log2", "log2l", 1), ("log10", "log10l", 2), ("log1p", "log1pl", 1),
        ("asin", "asinl", 2), ("acos", "acosl", 2), ("atan", "atanl", 2), ("sinh", "sinhl", 3), ("cosh", "coshl", 2), ("tanh", "tanhl", 2),
        ("asinh", "asinhl", 3), ("acosh", "acoshl", 4), ("atanh", "atanhl", 3), ("cbrt", "cbrtl", 1), ("erf", "erfl", 2), ("erfc", "erfcl", 5),
        ("tgamma", "tgammal", 11), ("rsqrt", "1/sqrtl", 2), ("rcbrt", "1/cbrtl", 1),
    ):
        ops.append(one(name, f"{host}({L}a)", ulps))
    ops += [
        one("sin", f"sinl({L}a)", 2, -10, 10), one("cos", f"cosl({L}a)", 2, -10, 10), one("tan", f"tanl({L}a)", 4, -10, 10),
        one("sin", f"sinl({L}a)", 2, -large, large), one("cos", f"cosl({L}a)", 2, -large, large), one("tan", f"tanl({L}a)", 4, -large, large),
        one("exp", f"expl({L}a)", 2, -top, top), one("sinh", f"sinhl({L}a)", 3, -2, 2), one("tanh", f"tanhl({L}a)", 2, -3, 3),
        one("erf", f"erfl({L}a)", 2, -4, 4), one("erfc", f"erfcl({L}a)", 5, -4, 8), one("tgamma", f"tgammal({L}a)", 11, -5, 30),
        one("log", f"logl({L}a)", 1, 0.5, 2), one("asin", f"asinl({L}a)", 2, -1, 1), one("acos", f"acosl({L}a)", 2, -1, 1),
        one("atanh", f"atanhl({L}a)", 3, -1, 1), one("log1p", f"log1pl({L}a)", 1, -0.9, 3), one("lgamma", f"lgammal({L}a)", 6, 3, 100),
        one("sinpi", f"sinl({L}3.14159265358979323846264338327950288L * a)", 20 if k == "d" else 2, -0.9, 0.9),
        one("cospi", f"cosl({L}3.14159265358979323846264338327950288L * a)", 20 if k == "d" else 2, -0.4, 0.4),
        one("normcdf", f"0.5L * erfcl(-{L}a * 0.707106781186547524400844362104849039L)", 5, -5, 5),
        one("erfinv", f"[&] {{ long double x = erfinv_start(a); for (int k = 0; k < 6; ++k) x -= (erfl(x) - a) / (1.128379167095512573896L * expl(-x * x)); return x; }}()", 6, -0.999, 0.999),
        one("j0", f"j0l({L}a)", 60, 0.1, 2), one("j1", f"j1l({L}a)", 60, 0.1, 3), one("y0", f"y0l({L}a)", 60, 1, 3),
        op("pow", k * 2, k, f"pow{s}(a, b)", f"powl({L}a, {L}b)", ulps=4),
        op("pow_in", k * 2, k, f"pow{s}(a, b)", f"powl({L}a, {L}b)", ulps=4, arrays=uniform(0, 20, dtype=dtype, second=(-10, 10))),
        op("pow_int", k, k, f"pow{s}(a, 3) + pow{s}(a, 2)", f"(long double)(({'float' if k == 'f' else 'double'})powl({L}a, 3) + ({'float' if k == 'f' else 'double'})powl({L}a, 2))", ulps=8, arrays=uniform(0, 20, dtype=dtype)),
        op("atan2", k * 2, k, f"atan2{s}(a, b)", f"atan2l({L}a, {L}b)", ulps=3),
        op("hypot", k * 2, k, f"hypot{s}(a, b)", f"hypotl({L}a, {L}b)", ulps=3),
        op("rhypot", k * 2, k, f"rhypot{s}(a, b)", f"1 / hypotl({L}a, {L}b)", ulps=3, arrays=uniform(0.1, 20, dtype=dtype, second=(-10, 10))),
        op("norm3d", k * 3, k, f"norm3d{s}(a, b, c)", f"hypotl(hypotl({L}a, {L}b), {L}c)", ulps=4),
        op("sincos", k, k, f"[&] {{ {'float' if k == 'f' else 'double'} x, y; sincos{s}(a, &x, &y); return x; }}()", f"sinl({L}a)", ulps=2),
        op("sincospi", k, k, f"[&] {{ {'float' if k == 'f' else 'double'} x, y; sincospi{s}(a, &x, &y); return y; }}()",
           f"cosl(3.14159265358979323846264338327950288L * a)", ulps=20 if k == "d" else 2, arrays=uniform(-0.4, 0.4, dtype=dtype)),
    ]
    return [o for o in ops if o["name"] not in ("tgamma", "erfinv_in_0x")]


START = r"""
static long double erfinv_start(double y) { double w = -std::log((1 - y) * (1 + y)), l = 2 / (3.14159265 * 0.147) - w / 2;
  double x = std::sqrt(std::sqrt(l * l + w / 0.147) - l); return y < 0 ? -x : x; }
"""


@case
def float_library(gpu):
    return run_group(gpu, "float_library", library("f", "f"), host_prelude=START)


@case
def double_library(gpu):
    return run_group(gpu, "double_library", library("d", "", large=1e15), host_prelude=START, count=700)


@case
def fast_math(gpu):
    L = "(long double)"
    ops = [
        op("sinf", "f", "f", "fabsf(__sinf(a) - sinf(a)) < 4e-6f", "1", arrays=uniform(-3.14, 3.14)),
        op("cosf", "f", "f", "fabsf(__cosf(a) - cosf(a)) < 4e-6f", "1", arrays=uniform(-3.14, 3.14)),
        op("tanf", "f", "f", "fabsf(__tanf(a) - tanf(a)) < 4e-5f", "1", arrays=uniform(-1, 1)),
        op("expf", "f", "f", "__expf(a)", f"expl({L}a)", ulps=8, arrays=uniform(-5, 5)),
        op("exp10f", "f", "f", "__exp10f(a)", f"exp10l({L}a)", ulps=20, arrays=uniform(-5, 5)),
        op("logf", "f", "f", "__logf(a)", f"logl({L}a)", ulps=8, arrays=uniform(2, 50)),
        op("log2f", "f", "f", "__log2f(a)", f"log2l({L}a)", ulps=8, arrays=uniform(2, 50)),
        op("log10f", "f", "f", "__log10f(a)", f"log10l({L}a)", ulps=8, arrays=uniform(2, 50)),
        op("powf", "ff", "f", "__powf(a, b)", f"powl({L}a, {L}b)", ulps=64, arrays=uniform(1, 20, second=(-4, 4))),
        op("fdividef", "ff", "f", "__fdividef(a, b)", f"{L}a / b", ulps=2, arrays=uniform(-20, 20, second=(0.1, 1000))),
        op("rsqrt", "f", "f", "rsqrtf(a)", f"1 / sqrtl({L}a)", ulps=2),
        op("sinf_large", "f", "f", "__sinf(a) <= 1.0f && __sinf(a) >= -1.0f", "1", arrays=uniform(-1e6, 1e6)),
        op("tanh_approx", "f", "f", '[&] { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }()', f"tanhl({L}a)", ulps=8000, arrays=uniform(-9, 9)),
        op("ex2_ftz", "f", "f", '[&] { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }()', f"exp2l({L}a)", ulps=4, arrays=uniform(-120, 120)),
        op("ex2", "f", "f", '[&] { float r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }()', f"exp2l({L}a)", ulps=4, arrays=uniform(-148, 128)),
        op("lg2", "f", "f", '[&] { float r; asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }()', f"log2l({L}a)", ulps=8, arrays=uniform(0, 1e-38)),
        op("rcp_approx", "f", "f", '[&] { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }()', f"1 / {L}a", ulps=2),
        op("rcp_ftz64", "d", "d", '[&] { double r; asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a)); return r; }()', f"1 / {L}a", ulps=2.0**33, arrays=uniform(0.001, 1000, dtype=np.float64)),
        op("rsqrt64", "d", "d", '[&] { double r; asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a)); return r; }()', f"1 / sqrtl({L}a)", ulps=2.0**33, arrays=uniform(0.001, 1000, dtype=np.float64)),
        op("sqrt_approx", "f", "f", '[&] { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }()', f"sqrtl({L}a)", ulps=2),
        op("div_full", "ff", "f", '[&] { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }()', f"{L}a / b", ulps=2, arrays=uniform(-1e30, 1e30, second=(1e10, 1e38))),
    ]
    return run_group(gpu, "fast_math", ops)


@case
def fast_math_option(gpu):
    """The same functions with --use_fast_math."""
    L = "(long double)"
    ops = [
        op("expf", "f", "f", "expf(a)", f"expl({L}a)", ulps=8, arrays=uniform(-5, 5)),
        op("logf", "f", "f", "logf(a)", f"logl({L}a)", ulps=8, arrays=uniform(2, 50)),
        op("div", "ff", "f", "a / b", f"{L}a / b", ulps=2, arrays=uniform(-20, 20, second=(0.1, 1000))),
        op("sqrt", "f", "f", "sqrtf(a)", f"sqrtl({L}a)", ulps=2, arrays=uniform(0.1, 1e6)),
        op("sigmoid", "f", "f", "1.0f / (1.0f + expf(-a))", f"1 / (1 + expl(-{L}a))", ulps=16, arrays=uniform(-20, 20)),
        op("gelu", "f", "f", "0.5f * a * (1.0f + erff(a * 0.70710678f))", f"0.5L * a * (1 + erfl(a * 0.70710678118654752L))", ulps=32, arrays=uniform(-1, 5)),
        op("tanh", "f", "f", "tanhf(a)", f"tanhl({L}a)", ulps=8000, arrays=uniform(-5, 5)),
        op("fmod", "ff", "f", "fmodf(a, b)", "std::fmod(a, b)", arrays=uniform(-100, 100, second=(0.5, 8))),
        op("double", "dd", "d", "a / b + sqrt(fabs(a))", "a / b + std::sqrt(std::fabs(a))"),
    ]
    compile_ = gpu.compile
    gpu.compile = lambda text, name: compile_(text, name, ("--use_fast_math",))
    return run_group(gpu, "fast_math_option", ops)
