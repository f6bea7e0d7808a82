"""Operations on each element of arrays: a kernel for each, and the same in C++ on this machine."""

import ctypes
import subprocess
import tempfile

import numpy as np

KINDS = {  # letter: NumPy, C++
    "c": ("int8", "signed char"),
    "C": ("uint8", "unsigned char"),
    "s": ("int16", "short"),
    "S": ("uint16", "unsigned short"),
    "i": ("int32", "int"),
    "u": ("uint32", "unsigned"),
    "l": ("int64", "long long"),
    "U": ("uint64", "unsigned long long"),
    "f": ("float32", "float"),
    "d": ("float64", "double"),
    "h": ("uint16", "unsigned short"),  # bits of a half
    "b": ("uint16", "unsigned short"),  # of a bfloat16
    "w": ("uint32", "unsigned"),  # of two halves
    "v": ("uint32", "unsigned"),  # of two bfloat16
}
SPECIAL = {
    "f": [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 1e-45, -1e-45, 1e-40, -3e-39, 1.17549435e-38,
          3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan, 2147483648.0, -2147483648.0, 4294967296.0,
          2147483520.0, 9.223372e18, 1.8446744e19, -9.223372e18, 127.5, 128, 255.5, 32767.5, 65535.5, 65504,
          65520, 0.1, 1e10, 1e-10, 0.99999994, 1.0000001, 3.0, 7.0, 100.0, 1e30, 1e-30],
    "d": [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308,
          1.7976931348623157e308, -1.7976931348623157e308, np.inf, -np.inf, np.nan, 2147483647.5,
          -2147483648.5, 4294967295.5, 9.223372036854775e18, 9.3e18, -9.3e18, 1.9e19, 65504, 65520, 1e-45,
          3.5e38, 1e-40, 7e-46, 0.1, 1e100, 1e-100, 127.5, 3.0, 1.0000000000000002],
    "i": [0, 1, -1, 2, -2, 3, 5, 7, 10, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, -128, 32767, 32768,
          65535, 65536, 2147483647, -2147483648, -2147483647, 1000000007, 16777217, 2147483520, 0x7fffffbf],
    "l": [0, 1, -1, 2, -2, 3, 7, 10, 31, 32, 33, 63, 64, 65, 127, 2**31 - 1, 2**31, -(2**31), 2**32 - 1,
          2**32, 2**53 + 1, 2**62 - 1, 2**63 - 1, -(2**63), -(2**63) + 1, 10**18, 0x7FFFFFBFFFFFFFFF, 2**24 + 1],
}


def inputs(kind, count, random):
    """Half special values, half random bits or sizes."""
    dtype = np.dtype(KINDS[kind][0])
    bits = random.bytes(count * dtype.itemsize)
    values = np.frombuffer(bits, dtype).copy()
    if kind in "fd":
        # Powers of two: the same bits on every machine, which powers of ten by NumPy are not.
        ordinary = np.ldexp(random.standard_normal(count), random.integers(-13, 14, count)).astype(dtype)
        pick = random.random(count)
        values = np.where(pick < 0.5, ordinary, values)
        special = random.choice(np.array(SPECIAL[kind], np.float64), count).astype(dtype)
        return np.where(pick < 0.25, special, values)
    if kind in "iulU":
        small = random.integers(0, 1000, count).astype(dtype)
        pool = np.array([x & (2 ** (8 * dtype.itemsize) - 1) for x in SPECIAL["i" if kind in "iu" else "l"]],
                        f"uint{8 * dtype.itemsize}").view(dtype)
        pick = random.random(count)
        values = np.where(pick < 0.5, random.choice(pool, count), values)
        return np.where(pick < 0.15, small, values)
    if kind in "wv":
        return inputs(kind == "w" and "h" or "b", 2 * count, random).view(np.uint32)
    if kind in "hb":
        ordinary = np.ldexp(random.standard_normal(count), random.integers(-10, 11, count)).astype(np.float32)
        if kind == "h":
            ordinary = ordinary.astype(np.float16).view(np.uint16)
            special = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0xBC00]
        else:
            ordinary = (ordinary.view(np.uint32) >> 16).astype(np.uint16)
            special = [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0xBF80]
        pick = random.random(count)
        values = np.where(pick < 0.6, ordinary, values)
        return np.where(pick < 0.2, random.choice(np.array(special, np.uint16), count), values)
    return values


def op(name, ins, out, device, host=None, ulps=None, arrays=None):
    """`device` and `host`: expressions of a, b, c. `ulps`: how far off a float may be; `arrays`: inputs."""
    return dict(name=name, ins=ins, out=out, device=device, host=host or device, ulps=ulps, arrays=arrays)


def host_library(name, ops, prelude):
    text = HOST_PRELUDE + prelude
    for o in ops:
        text += f'extern "C" void op_{o["name"]}('
        text += ", ".join(f"const {KINDS[k][1]}* p{x}" for k, x in zip(o["ins"], "abc"))
        out = "long double" if o["ulps"] is not None else KINDS[o["out"]][1]
        text += f", {out}* r, int n) {{ for (int i = 0; i < n; ++i) {{"
        text += "".join(f" const {KINDS[k][1]} {x} = p{x}[i];" for k, x in zip(o["ins"], "abc"))
        text += f" r[i] = {o['host']}; }} }}\n"
    with tempfile.TemporaryDirectory() as directory:
        source, library = f"{directory}/{name}.cc", f"{directory}/{name}.so"
        with open(source, "w") as file:
            file.write(text)
        subprocess.run(
            ["g++", "-std=c++17", "-O1", "-fwrapv", "-frounding-math", "-ffp-contract=off", "-mfma",
             "-mf16c", "-w", "-fPIC", "-shared", source, "-o", library], check=True,
        )
        return ctypes.CDLL(library)


def run_group(gpu, name, ops, device_prelude="", host_prelude="", count=1531):
    """Yields (operation, what is wrong or '')."""
    host = host_library(name, ops, host_prelude)
    text = DEVICE_PRELUDE + device_prelude
    for o in ops:
        text += f'extern "C" __global__ void {name}__{o["name"]}('
        text += ", ".join(f"const {KINDS[k][1]}* pa{x}" for k, x in zip(o["ins"], "abc"))
        text += f", {KINDS[o['out']][1]}* r, int n) {{\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        text += "  if (i >= n) return;\n"
        text += "".join(f"  const {KINDS[k][1]} {x} = pa{x}[i];\n" for k, x in zip(o["ins"], "abc"))
        text += f"  r[i] = {o['device']};\n}}\n"
    module = gpu.compile(text, name)
    for o in ops:
        random = np.random.default_rng(7)
        arrays = o["arrays"](random) if o["arrays"] else [inputs(k, count, random) for k in o["ins"]]
        arrays = [np.ascontiguousarray(a) for a in arrays]
        size = len(arrays[0])
        got = np.full(size, 77, KINDS[o["out"]][0])
        module.launch(f"{name}__{o['name']}", (size + 127) // 128, 128, *arrays, got, np.int32(size))
        expected = np.zeros(size, np.longdouble if o["ulps"] is not None else got.dtype)
        getattr(host, 'op_' + o["name"])(*(a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, expected)), size)
        yield o["name"], "untouched" if (got == 77).all() and not (expected == 77).all() else compare(o, arrays, got, expected)


def is_nan(kind, values):
    if kind in "fd":
        return np.isnan(values)
    if kind == "h":
        return (values & 0x7FFF) > 0x7C00
    if kind == "b":
        return (values & 0x7FFF) > 0x7F80
    return np.zeros(len(values), bool)


def compare(o, arrays, got, expected):
    kind = o["out"]
    if kind in "wv":
        halves = dict(o, out="h" if kind == "w" else "b")
        wide = [np.repeat(a, 2) for a in arrays]
        return compare(halves, wide, got.view(np.uint16), expected.view(np.uint16))
    if o["ulps"] is None:
        unsigned = f"uint{8 * got.dtype.itemsize}"
        same = got.view(unsigned) == expected.view(unsigned)
        same |= is_nan(kind, got) & is_nan(kind, expected)
        shown = expected
    else:
        with np.errstate(all="ignore"):
            rounded = expected.astype(got.dtype)
            unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(got.dtype).tiny)).astype(np.longdouble)
            difference = np.abs(got.astype(np.longdouble) - expected) / unit
            same = (difference <= o["ulps"] + 0.5) | (got == rounded) | (np.isnan(got) & np.isnan(rounded))
            # At the edge of what there is: as good as.
            same |= np.isinf(rounded) & (np.abs(got) >= np.finfo(got.dtype).max * 0.9999) & (
                np.sign(got) == np.sign(rounded))
            same |= np.isinf(got) & (np.abs(rounded) >= np.finfo(got.dtype).max * 0.9999)
        shown = rounded
    if same.all():
        return ""
    if (got == 77).all():
        return "untouched"
    at = int(np.argwhere(~same)[0][0])

    def show(k, v):
        if k in "hbwvuU":
            return f"{int(v):#x}"
        return f"{v!s}" + (f"[{v.view(np.uint32 if k == 'f' else np.uint64):#x}]" if k in "fd" else "")

    having = ", ".join(show(k, a[at]) for k, a in zip(o["ins"], arrays))
    return (f"{int((~same).sum())} of {len(same)}: {o['device']} of ({having}) = {show(kind, got[at])}, "
            f"not {show(kind, shown[at])}")


HOST_PRELUDE = r"""
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <algorithm>
#include <limits>
typedef unsigned long long U64; typedef long long I64; typedef __int128 I128; typedef unsigned __int128 U128;
template <typename T, typename F> static inline T bit(F f) { T t; std::memcpy(&t, &f, sizeof t); return t; }
static inline float h2f(unsigned short h) { return bit<_Float16>(h); }
static inline unsigned short d2h(double d) { return d != d ? 0x7fff : bit<unsigned short>((_Float16)d); }
static inline float b2f(unsigned short b) { return bit<float>((unsigned)b << 16); }
static inline unsigned short f2b(float f) {
  unsigned u = bit<unsigned>(f); if (f != f) return 0x7fff; return (u + 0x7fff + (u >> 16 & 1)) >> 16; }
// With the last bit set if inexact, from a result rounded to zero.
struct Odd { Odd() { fesetround(FE_TOWARDZERO); feclearexcept(FE_ALL_EXCEPT); }
  float operator()(volatile float v) { bool x = fetestexcept(FE_INEXACT); fesetround(FE_TONEAREST);
    float w = v; return x ? bit<float>(bit<unsigned>(w) | 1) : w; } };
static inline unsigned short bfma(unsigned short a, unsigned short b, unsigned short c) {
  Odd odd; volatile float x = b2f(a), y = b2f(b), z = b2f(c); return f2b(odd(fmaf(x, y, z))); }
static inline unsigned short d2b(double d) { Odd odd; volatile double x = d; return f2b(odd((float)x)); }
template <typename T, typename F> static inline T in_mode(int mode, F f) {
  static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  fesetround(modes[mode]); volatile T v = f(); fesetround(FE_TONEAREST); return v; }
#define RN(T, e) in_mode<T>(0, [&] { volatile auto A = a; volatile auto B = b; return (e); })
#define MODE1(T, m, e) in_mode<T>(m, [&] { volatile auto A = a; return (T)(e); })
#define MODE2(T, m, e) in_mode<T>(m, [&] { volatile auto A = a; volatile auto B = b; return (T)(e); })
#define MODE3(T, m, e) in_mode<T>(m, [&] { volatile auto A = a; volatile auto B = b; volatile auto C = c; return (T)(e); })
// To an integer, saturated; what a NaN gives.
template <typename T> static inline T to_int(int mode, double v, T nan) {
  if (v != v) return nan;
  double r = mode == 0 ? nearbyint(v) : mode == 1 ? floor(v) : mode == 2 ? ceil(v) : trunc(v);
  if (r >= (double)std::numeric_limits<T>::max()) return std::numeric_limits<T>::max();
  if (r <= (double)std::numeric_limits<T>::min()) return std::numeric_limits<T>::min();
  return (T)r; }
static inline float ftz(float f) { return std::fabs(f) < 1.17549435e-38f ? copysignf(0, f) : f; }
static inline unsigned pair(unsigned short lo, unsigned short hi) { return lo | (unsigned)hi << 16; }
#define LO(x) ((unsigned short)(x))
#define HI(x) ((unsigned short)((x) >> 16))
"""

DEVICE_PRELUDE = r"""
typedef unsigned long long U64; typedef long long I64; typedef __int128 I128; typedef unsigned __int128 U128;
"""
