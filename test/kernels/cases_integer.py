"""Integers."""

import numpy as np

from elementwise import op, run_group
from harness import case


@case
def division(gpu):
    ops = []
    for k, t in (("i", "int"), ("u", "unsigned"), ("l", "I64"), ("U", "U64")):
        guard = f"(b == 0 {'|| b == -1' if k in 'il' else ''})"
        ops.append(op(f"quotient_{t}", k * 2, k, f"{guard} ? a : a / b"))
        ops.append(op(f"remainder_{t}", k * 2, k, f"{guard} ? b : a % b"))
        for d in (3, 7, 10, 641, 1000000007):
            ops.append(op(f"by{d}_{t}", k, k, f"a / {d} + (a % {d}) * 3"))
        ops.append(op(f"by_big_{t}", k, k, f"a / ({t})0x7ffffff1 ^ a % ({t})0x7ffffff1"))
    for k, t in (("c", "signed char"), ("C", "unsigned char"), ("s", "short"), ("S", "unsigned short")):
        n = t.replace(" ", "_")
        guard = f"(b == 0 {'|| b == -1' if k in 'cs' else ''})"
        ops.append(op(f"quotient_{n}", k * 2, k, f"{guard} ? a : ({t})(a / b)"))
        ops.append(op(f"remainder_{n}", k * 2, k, f"{guard} ? b : ({t})(a % b)"))
    return run_group(gpu, "division", ops)


@case
def products(gpu):
    ops = [
        op("mulhi", "ii", "i", "__mulhi(a, b)", "(int)((I64)a * b >> 32)"),
        op("umulhi", "uu", "u", "__umulhi(a, b)", "(unsigned)((U64)a * b >> 32)"),
        op("mul64hi", "ll", "l", "__mul64hi(a, b)", "(I64)((I128)a * b >> 64)"),
        op("umul64hi", "UU", "U", "__umul64hi(a, b)", "(U64)((U128)a * b >> 64)"),
        op("mul24", "ii", "i", "__mul24(a, b)", "(a << 8 >> 8) * (b << 8 >> 8)"),
        op("umul24", "uu", "u", "__umul24(a, b)", "(a & 0xffffff) * (b & 0xffffff)"),
        op("mad32", "iii", "i", "a * b + c"),
        op("mad_minus", "iii", "i", "c - a * b"),
        op("mul64", "ll", "l", "a * b"),
        op("mad64", "UUU", "U", "a * b + c"),
        op("wide_s", "iil", "l", "(I64)a * b + c"),
        op("wide_u", "uuU", "U", "(U64)a * b + c"),
        op("wide_minus", "iil", "l", "c - (I64)a * b"),
        op("wide_imm", "il", "l", "(I64)a * -1234567 + b"),
        op("wide_imm_u", "uU", "U", "(U64)a * 0xdeadbeefu + b"),
        op("product128_hi", "UUU", "U", "(U64)(((U128)a * b + c) >> 64)"),
        op("product128_s", "lll", "l", "(I64)(((I128)a * b + c) >> 64)"),
        op("product128_mid", "UUU", "U", "(U64)(((U128)a * b - c) >> 37)"),
        op("add128", "UUU", "U", "(U64)(((((U128)a << 64) | b) + (((U128)b << 64) | c)) >> 64)"),
        op("sub128", "UUU", "U", "(U64)(((((U128)a << 64) | b) - (((U128)b << 64) | c)) >> 64)"),
        op("square_chain", "UU", "U", "(a * a + b) * (a ^ b) * a + (b >> 3) * 1103515245u"),
        op("add64", "ll", "l", "a + b"),
        op("sub64", "ll", "l", "a - b"),
        op("neg64", "ll", "l", "-a - b - 1"),
        op("add3_64", "UUU", "U", "a + b + c"),
        op("addsub3", "iii", "i", "a - b - c"),
        op("addsub3b", "iii", "i", "-a - b + c"),
        op("mod_mul", "UUU", "U", "(U64)((U128)a * b % (c | 1))"),
        op("div128", "UUU", "U", "(U64)((((U128)(a & 0xffffffff) << 64) | b) / (c | 1))"),
        op("addc", "uuu", "u",
           '[&] { unsigned r; asm("add.cc.u32 %0, %1, %2; addc.u32 %0, %3, 5;" : "=&r"(r) : "r"(a), "r"(b), "r"(c)); return r; }()',
           "c + 5 + (unsigned)(((U64)a + b) >> 32)"),
        op("subc", "uuu", "u",
           '[&] { unsigned r; asm("sub.cc.u32 %0, %1, %2; subc.u32 %0, %3, 5;" : "=&r"(r) : "r"(a), "r"(b), "r"(c)); return r; }()',
           "c - 5 - (unsigned)(a < b)"),
        op("madc", "uuu", "u",
           '[&] { unsigned r, t; asm("mad.lo.cc.u32 %1, %2, %3, %4; madc.hi.u32 %0, %2, %3, %4;" : "=&r"(r), "=&r"(t) : "r"(a), "r"(b), "r"(c)); return r + t; }()',
           "(unsigned)((U64)a * b >> 32) + c + (unsigned)(((U64)(unsigned)(a * b) + c) >> 32) + (a * b + c)"),
    ]
    return run_group(gpu, "products", ops)


def counts(kind):
    def make(random):
        dtype = {"i": np.int32, "u": np.uint32, "l": np.int64, "U": np.uint64}
        n = 2048
        values = [np.frombuffer(random.bytes(n * np.dtype(dtype[k]).itemsize), dtype[k]) for k in kind[:-1]]
        return [*values, random.integers(0, 100, n).astype(np.uint32)]

    return make


@case
def shifts(gpu):
    def asm(text, kind, out):
        letter = {"u": "r", "i": "r", "U": "l", "l": "l"}
        t = {"u": "unsigned", "i": "int", "U": "U64", "l": "I64"}[out]
        return (f'[&] {{ {t} r; asm("{text} %0, %1, %2;" : "={letter[out]}"(r) : "{letter[kind]}"(a), "r"(b)); '
                "return r; }()")

    u, w = counts("uu"), counts("uuu")
    ops = [
        op("shl32", "uu", "u", asm("shl.b32", "u", "u"), "b > 31 ? 0 : a << b", arrays=u),
        op("shr_u32", "uu", "u", asm("shr.u32", "u", "u"), "b > 31 ? 0 : a >> b", arrays=u),
        op("shr_s32", "iu", "i", asm("shr.s32", "i", "i"), "a >> (b > 31 ? 31 : b)", arrays=counts("iu")),
        op("shl64", "Uu", "U", asm("shl.b64", "U", "U"), "b > 63 ? 0 : a << b", arrays=counts("Uu")),
        op("shr_u64", "Uu", "U", asm("shr.u64", "U", "U"), "b > 63 ? 0 : a >> b", arrays=counts("Uu")),
        op("shr_s64", "lu", "l", asm("shr.s64", "l", "l"), "a >> (b > 63 ? 63 : b)", arrays=counts("lu")),
        op("funnel_l", "uuu", "u", "__funnelshift_l(a, b, c)",
           "(unsigned)(((((U64)b << 32) | a) << (c & 31)) >> 32)", arrays=w),
        op("funnel_r", "uuu", "u", "__funnelshift_r(a, b, c)", "(unsigned)((((U64)b << 32) | a) >> (c & 31))", arrays=w),
        op("funnel_lc", "uuu", "u", "__funnelshift_lc(a, b, c)",
           "c >= 32 ? a : (unsigned)(((((U64)b << 32) | a) << c) >> 32)", arrays=w),
        op("funnel_rc", "uuu", "u", "__funnelshift_rc(a, b, c)",
           "c >= 32 ? b : (unsigned)((((U64)b << 32) | a) >> c)", arrays=w),
        op("rotate64", "Uu", "U", "(a << (b & 63)) | (a >> (-b & 63))", arrays=counts("Uu")),
        op("shift_imm", "uu", "u", "(a << 7) ^ (a >> 9) ^ (b << 31) ^ (b >> 31)"),
        op("shift_imm64", "Ul", "U", "(a << 7) ^ (a >> 9) ^ (a << 33) ^ (a >> 35) ^ (U64)(b >> 40) ^ (U64)(b >> 5)"),
        op("shift128", "UUu", "U", "(U64)((((U128)a << 64 | b) >> (c & 127)) ^ (((U128)a << 64 | b) << (c & 127)))",
           arrays=counts("UUu")),
        op("bfe_s", "iuu", "i", '[&] { int r; asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 31), "r"(c & 31)); return r; }()',
           "(c & 31) == 0 ? 0 : (int)((I64)((U64)(I64)a >> (b & 31) << (64 - (c & 31))) >> (64 - (c & 31)))"),
        op("bfe_u", "uuu", "u", '[&] { int r; asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 31), "r"(c & 31)); return r; }()',
           "(a >> (b & 31)) & ((1u << (c & 31)) - 1)"),
        op("bfi", "uuu", "u", '[&] { unsigned r; asm("bfi.b32 %0, %1, %2, %3, 11;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 15)); return r; }()',
           "(b & ~(0x7ffu << (c & 15))) | ((a & 0x7ff) << (c & 15))"),
        op("sign_extend", "iu", "i", "(a << 13 >> 13) + ((int)(b << 24) >> 24) + (short)a"),
        op("bmsk", "uu", "u", '[&] { unsigned r; asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }()',
           "a > 31 ? 0 : (b > 31 ? ~0u : (1u << b) - 1) << a", arrays=lambda r: [r.integers(0, 40, 999).astype(np.uint32), r.integers(0, 40, 999).astype(np.uint32)]),
        op("szext", "iu", "i", '[&] { int r; asm("szext.clamp.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }()',
           "b == 0 ? 0 : b > 31 ? a : (int)((unsigned)a << (32 - b)) >> (32 - b)", arrays=counts("iu")),
    ]
    return run_group(gpu, "shifts", ops)


BYTES = r"""
static inline unsigned prmt(unsigned a, unsigned b, unsigned s) { U64 x = (U64)b << 32 | a; unsigned r = 0;
  for (int i = 0; i < 4; ++i) { unsigned n = s >> 4 * i & 15, v = x >> 8 * (n & 7) & 255;
    if (n & 8) v = v & 128 ? 255 : 0; r |= v << 8 * i; } return r; }
static inline unsigned brev(unsigned a) { unsigned r = 0; for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i); return r; }
#define EACH(n, w, e) [&] { unsigned r = 0; for (int i = 0; i < n; ++i) { int x = (int)(a >> w * i) << (32 - w) >> (32 - w), \
  y = (int)(b >> w * i) << (32 - w) >> (32 - w); unsigned ux = x & ((1u << w) - 1), uy = y & ((1u << w) - 1); \
  r |= ((unsigned)(e) & ((1u << w) - 1)) << w * i; } return r; }()
static inline int clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
static inline int sb(unsigned v, int i) { return (signed char)(v >> 8 * i); }
static inline int ub(unsigned v, int i) { return v >> 8 * i & 255; }
"""


@case
def bits(gpu):
    ops = [
        op("byte_perm", "uuu", "u", "__byte_perm(a, b, c)", "prmt(a, b, c & 0x7777)"),
        op("byte_perm_imm", "uu", "u", "__byte_perm(a, b, 0x3650) ^ __byte_perm(a, b, 0x7004)",
           "prmt(a, b, 0x3650) ^ prmt(a, b, 0x7004)"),
        op("prmt", "uuu", "u", '[&] { unsigned r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }()',
           "prmt(a, b, c)"),
        op("popc", "u", "i", "__popc(a)", "__builtin_popcount(a)"),
        op("popcll", "U", "i", "__popcll(a)", "__builtin_popcountll(a)"),
        op("clz", "i", "i", "__clz(a)", "a ? __builtin_clz(a) : 32"),
        op("clzll", "l", "i", "__clzll(a)", "a ? __builtin_clzll(a) : 64"),
        op("ffs", "i", "i", "__ffs(a)", "__builtin_ffs(a)"),
        op("ffsll", "l", "i", "__ffsll(a)", "__builtin_ffsll(a)"),
        op("brev", "u", "u", "__brev(a)", "brev(a)"),
        op("brevll", "U", "U", "__brevll(a)", "(U64)brev(a) << 32 | brev(a >> 32)"),
        op("fns", "uuu", "u", "__fns(a, b & 31, 1 + (int)(c & 3))",
           "[&] { int k = 1 + (c & 3); for (unsigned i = b & 31; i < 32; ++i) if (a >> i & 1) if (--k == 0) return i; return ~0u; }()"),
        op("bfind_s", "i", "i", '[&] { int r; asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a)); return r; }()',
           "(a < 0 ? ~a : a) == 0 ? -1 : 31 - __builtin_clz(a < 0 ? ~a : a)"),
        op("bfind_shift", "u", "u", '[&] { unsigned r; asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(a)); return r; }()',
           "a == 0 ? ~0u : __builtin_clz(a)"),
        op("bfind_u64", "U", "u", '[&] { unsigned r; asm("bfind.u64 %0, %1;" : "=r"(r) : "l"(a)); return r; }()',
           "a == 0 ? ~0u : 63 - __builtin_clzll(a)"),
        op("abs", "i", "i", "a < 0 ? -a : a"),
        op("abs64", "l", "l", "a < 0 ? -a : a"),
        op("sad", "iiu", "u", "__sad(a, b, c)", "(unsigned)(a > b ? a - b : b - a) + c"),
        op("usad", "uuu", "u", "__usad(a, b, c)", "(a > b ? a - b : b - a) + c"),
        op("hadd", "ii", "i", "__hadd(a, b)", "(int)(((I64)a + b) >> 1)"),
        op("rhadd", "ii", "i", "__rhadd(a, b)", "(int)(((I64)a + b + 1) >> 1)"),
        op("uhadd", "uu", "u", "__uhadd(a, b)", "(unsigned)(((U64)a + b) >> 1)"),
        op("dp4a_s", "iii", "i", "__dp4a(a, b, c)",
           "c + sb(a,0)*sb(b,0) + sb(a,1)*sb(b,1) + sb(a,2)*sb(b,2) + sb(a,3)*sb(b,3)"),
        op("dp4a_u", "uuu", "u", "__dp4a(a, b, c)",
           "c + ub(a,0)*ub(b,0) + ub(a,1)*ub(b,1) + ub(a,2)*ub(b,2) + ub(a,3)*ub(b,3)"),
        op("dp4a_us", "uii", "i", '[&] { int r; asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }()',
           "c + ub(a,0)*sb(b,0) + ub(a,1)*sb(b,1) + ub(a,2)*sb(b,2) + ub(a,3)*sb(b,3)"),
        op("dp2a_lo", "iii", "i", "__dp2a_lo(a, b, c)", "c + (short)a*sb(b,0) + (short)(a>>16)*sb(b,1)"),
        op("dp2a_hi", "iii", "i", "__dp2a_hi(a, b, c)", "c + (short)a*sb(b,2) + (short)(a>>16)*sb(b,3)"),
        op("dp2a_lo_u", "uuu", "u", "__dp2a_lo(a, b, c)", "c + (a&0xffff)*ub(b,0) + (a>>16)*ub(b,1)"),
        op("lop3", "uuu", "u", '[&] { unsigned r; asm("lop3.b32 %0, %1, %2, %3, 0x5b;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }()',
           "[&] { unsigned r = 0; for (int i = 0; i < 32; ++i) { int k = (a>>i&1)*4+(b>>i&1)*2+(c>>i&1); r |= (0x5bu >> k & 1) << i; } return r; }()"),
        op("logic64", "UUU", "U", "(a & ~b) | (b ^ c) | ~(a | c)"),
    ]
    return run_group(gpu, "bits", ops, host_prelude=BYTES)


@case
def video(gpu):
    def each(name, n, w, e):
        return op(name, "uu", "u", f"__{name}(a, b)", f"EACH({n}, {w}, {e})")

    ops = []
    for n, w, lo, hi in ((4, 8, "-128", "127"), (2, 16, "-32768", "32767")):
        umax = (1 << w) - 1
        ops += [
            each(f"vadd{n}", n, w, "x + y"),
            each(f"vsub{n}", n, w, "x - y"),
            each(f"vaddss{n}", n, w, f"clamp(x + y, {lo}, {hi})"),
            each(f"vaddus{n}", n, w, f"ux + uy > {umax} ? {umax} : ux + uy"),
            each(f"vsubss{n}", n, w, f"clamp(x - y, {lo}, {hi})"),
            each(f"vsubus{n}", n, w, "ux < uy ? 0 : ux - uy"),
            each(f"vmaxs{n}", n, w, "x > y ? x : y"),
            each(f"vmins{n}", n, w, "x < y ? x : y"),
            each(f"vmaxu{n}", n, w, "ux > uy ? ux : uy"),
            each(f"vminu{n}", n, w, "ux < uy ? ux : uy"),
            each(f"vabsdiffu{n}", n, w, "ux > uy ? ux - uy : uy - ux"),
            each(f"vabsdiffs{n}", n, w, "x > y ? x - y : y - x"),
            each(f"vavgu{n}", n, w, "(ux + uy + 1) >> 1"),
            each(f"vavgs{n}", n, w, "(x + y + (x + y >= 0 ? 1 : 0)) >> 1") if False else each(f"vhaddu{n}", n, w, "(ux + uy) >> 1"),
            each(f"vcmpgts{n}", n, w, "x > y ? -1 : 0"),
            each(f"vcmpleu{n}", n, w, "ux <= uy ? -1 : 0"),
            each(f"vcmpeq{n}", n, w, "x == y ? -1 : 0"),
            each(f"vsetltu{n}", n, w, "ux < uy ? 1 : 0"),
            op(f"vabs{n}", "u", "u", f"__vabs{n}(a)", f"[&] {{ unsigned b = 0; return (unsigned) EACH({n}, {w}, x < 0 ? -x : x); }}()"),
            op(f"vneg{n}", "u", "u", f"__vneg{n}(a)", f"[&] {{ unsigned b = 0; return EACH({n}, {w}, -x); }}()"),
            op(f"vsadu{n}", "uu", "u", f"__vsadu{n}(a, b)",
               f"[&] {{ unsigned s = 0; for (int i = 0; i < {n}; ++i) {{ int p = a >> {w} * i & {umax}, q = b >> {w} * i & {umax}; s += p > q ? p - q : q - p; }} return s; }}()"),
        ]
    ops += [
        op("viaddmax", "iii", "i", "__viaddmax_s32(a, b, c)", "std::max(a + b, c)"),
        op("viaddmin_u", "uuu", "u", "__viaddmin_u32(a, b, c)", "std::min(a + b, c)"),
        op("vimax3", "iii", "i", "__vimax3_s32(a, b, c)", "std::max(std::max(a, b), c)"),
        op("vimin3_u", "uuu", "u", "__vimin3_u32(a, b, c)", "std::min(std::min(a, b), c)"),
        op("vimax_relu", "ii", "i", "__vimax_s32_relu(a, b)", "std::max(std::max(a, b), 0)"),
        op("viaddmax_relu", "iii", "i", "__viaddmax_s32_relu(a, b, c)", "std::max(std::max(a + b, c), 0)"),
        op("vimax3_relu", "iii", "i", "__vimax3_s32_relu(a, b, c)", "std::max(std::max(std::max(a, b), c), 0)"),
        op("vibmax", "ii", "i", "[&] { bool p; int r = __vibmax_s32(a, b, &p); return r * 2 + p; }()",
           "std::max(a, b) * 2 + (a >= b)"),
        op("vibmin_u", "uu", "u", "[&] { bool p; unsigned r = __vibmin_u32(a, b, &p); return r * 2 + p; }()",
           "std::min(a, b) * 2 + (a <= b)"),
        op("viaddmax2", "uuu", "u", "__viaddmax_s16x2(a, b, c)",
           "[&] { unsigned s = EACH(2, 16, x + y); unsigned r = 0; for (int i = 0; i < 2; ++i) { int p = (short)(s >> 16 * i), q = (short)(c >> 16 * i); r |= (unsigned)(unsigned short)(p > q ? p : q) << 16 * i; } return r; }()"),
        op("vimax3_2", "uuu", "u", "__vimax3_s16x2(a, b, c)",
           "[&] { unsigned r = 0; for (int i = 0; i < 2; ++i) { int p = (short)(a >> 16 * i), q = (short)(b >> 16 * i), s = (short)(c >> 16 * i); r |= (unsigned)(unsigned short)std::max(std::max(p, q), s) << 16 * i; } return r; }()"),
        op("vibmax2", "uu", "u", "[&] { bool p, q; unsigned r = __vibmax_s16x2(a, b, &p, &q); return r ^ (p ? 0x80000000u : 0) ^ (q ? 0x8000u : 0); }()",
           "[&] { unsigned r = 0; for (int i = 0; i < 2; ++i) { int p = (short)(a >> 16 * i), q = (short)(b >> 16 * i); r |= (unsigned)(unsigned short)std::max(p, q) << 16 * i; if (p >= q) r ^= 0x8000u << 16 * i; } return r; }()"),
    ]
    return run_group(gpu, "video", ops, host_prelude=BYTES)


@case
def comparisons(gpu):
    ops = []
    for k, t in (("i", "s32"), ("u", "u32"), ("l", "s64"), ("U", "u64")):
        ops.append(op(f"all_{t}", k * 2, "u", "(a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5"))
        if k in "uU":
            ops.append(op(f"near_{t}", k * 2, "u", "(a < b + 1) | (a <= b - 1) << 1 | (a - 1 > a) << 2 | (b == b + a) << 3"))
        ops.append(op(f"imm_{t}", k, "u", "(a < 100) | (a <= 7) << 1 | (a > 2147483647) << 2 | (a >= 65536) << 3 | (a == 255) << 4"))
        ops.append(op(f"minmax_{t}", k * 3, k, "[&] { auto x = a < b ? a : b; auto y = a < b ? b : a; auto z = y < c ? y : c; return x > z ? x : z; }()"))
        ops.append(op(f"chain_{t}", k * 3, k, "[&] { auto x = a; if (b > x) x = b; if (c > x) x = c; if (x > 1000) x = 1000; if (x < 10) x = 10; return x; }()"))
        ops.append(op(f"select_{t}", k * 3, k, "a < b && b < c ? a : a > c || b == c ? b : c"))
        ops.append(op(f"logic_{t}", k * 3, "i", "((a < b) ^ (b < c)) ? ((a == c) != (b >= c)) : ((a > b) == (a > c))"))
    ops.append(op("mixed", "il", "i", "(I64)a < b ? 1 : (I64)a == b ? 0 : -1"))
    ops.append(op("avg", "ll", "l", "(a & b) + ((a ^ b) >> 1)"))
    return run_group(gpu, "comparisons", ops)
