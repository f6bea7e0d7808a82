"""Divergence, and threads that wait for others."""

import numpy as np

from harness import case, check

ONE = r"""
extern "C" __global__ void control__loops(const int* in, int* out, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x; if (t >= n) return;
  int sum = 0;
  for (int i = 0; i < in[t] % 23; ++i) {
    if (i == t % 5) continue;
    for (int j = 0; ; ++j) { if (j * i > t % 17) break; if ((j ^ i) % 7 == 3) continue; if (j > 30) break; sum += i * j + 1; }
    if (sum > 500 + t) break;
    int k = i; while (k % 4 != 0) { k += t % 3 + 1; if (k > 40) goto out; sum ^= k; }
    do { sum += k; k -= 5; } while (k > 0 && sum % 3);
  }
out: out[t] = sum; }
extern "C" __global__ void control__table(const int* in, int* out, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x; if (t >= n) return; int x = in[t], r = 0;
  for (int k = 0; k < 4; ++k) { switch ((unsigned)x % 13) {
    case 0: r += 7; break; case 1: r ^= x; case 2: r = r * 3 + 1; break; case 3: r -= k; break; case 4: r += x >> 3; break; case 5: r = ~r; break;
    case 6: r = r << 2 | 1; break; case 7: if (r & 1) break; r += 11; case 8: r /= 2; break; case 9: r %= 1000; break; case 10: r = -r; break; case 11: r += 100; break; default: r ^= 0x55; }
    x = x / 13 + r % 5 + k; }
  out[t] = r; }
__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void control__recursion(int* out) { int t = threadIdx.x; out[t] = fib(t % 11) * 1000 + (t < 16 ? ackermann(2, t % 4) : 0); }
__device__ __noinline__ int f0(int x) { return x + 1; } __device__ __noinline__ int f1(int x) { return x * 3; } __device__ __noinline__ int f2(int x) { return x % 2 ? f0(x) : f1(x) - 5; }
__device__ __noinline__ int f3(int x) { int s = 0; for (int i = 0; i < x % 9; ++i) s += f2(i); return s; }
typedef int (*function)(int);
__device__ function functions[4] = {f0, f1, f2, f3};
extern "C" __global__ void control__pointers(int* out) { int t = threadIdx.x, x = t; for (int i = 0; i < 5; ++i) x = functions[(t + i * x) & 3](x) & 0xffff; out[t] = x; }
struct Base { __device__ virtual int value(int x) { return x; } }; struct A : Base { int k; __device__ A(int k) : k(k) {} __device__ int value(int x) override { return x * k; } };
struct B : Base { __device__ int value(int x) override { return x < 2 ? 1 : value(x - 1) + value(x - 2); } };
extern "C" __global__ void control__virtual(int* out) { int t = threadIdx.x; A a(t); B b; Base c; Base* p = t % 3 == 0 ? (Base*)&a : t % 3 == 1 ? (Base*)&b : &c; out[t] = p->value(t % 12); }
extern "C" __global__ void control__early(const int* in, int* out) { int t = threadIdx.x; if (in[t] < 0) return; __shared__ int s[256]; s[t] = in[t]; __syncthreads();
  int sum = 0; for (int i = 0; i < 256; ++i) if (in[i] >= 0) sum += s[i]; out[t] = sum; }
extern "C" __global__ void control__collatz(const int* in, int* out, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t >= n) return; long long x = in[t]; int c = 0; while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; ++c; } out[t] = c; }
extern "C" __global__ void control__syncwarp(int* out) { __shared__ volatile int s[64]; int t = threadIdx.x; s[t] = t; __syncwarp();
  if (t < 16) { int v = s[t ^ 8]; __syncwarp(0xffff); s[t] = v + 1; __syncwarp(0xffff); v = s[15 - t]; __syncwarp(0xffff); s[t] = v; }
  else { int v = s[t ^ 1]; __syncwarp(0xffff0000); s[t] = v * 2; __syncwarp(0xffff0000); for (int i = 0; i < t - 15; ++i) v += s[16 + i % 16]; __syncwarp(0xffff0000); s[t] = v; }
  __syncwarp(); out[t] = s[31 - t]; }
extern "C" __global__ void control__masks(const int* in, int* out) { int t = threadIdx.x, x = in[t], r = 0;
  unsigned left = __ballot_sync(~0u, x > 0); out[32 + t] = left;
  if (x > 0) { unsigned m = __activemask() & left; m = left; int lane = t; for (int o = 1; o < 32; o <<= 1) { int v = __shfl_sync(m, x, (lane + o) & 31); if (m >> ((lane + o) & 31) & 1) r += v; } 
    if (x & 1) { unsigned odd = __ballot_sync(m, 1) & __ballot_sync(m, x & 1); r += 0 * odd; } else { unsigned a = __ballot_sync(m, 1), b = __ballot_sync(m, x & 1); r += 0 * (a + b); } }
  out[t] = r; }
extern "C" __global__ void control__nested(const int* in, int* out) { int t = threadIdx.x, x = in[t], r = 0;
  if (x & 1) { r += __popc(__ballot_sync(__activemask(), x & 2)) * 0 + 1; if (x & 2) { if (x & 4) r += 10; else r += 20; r += 100; } else if (x & 8) { for (int i = 0; i < (x & 7); ++i) { if (i == 3) continue; r += i; } } else return; r += 1000; }
  else { while (x > 0) { x >>= 1; if (x % 3 == 0) continue; if (x == 7) { r = -1; break; } r += x; } }
  out[t] = r; }
"""


def loops(t, x):
    x = int(x)
    total = 0
    limit = int(np.fmod(x, 23))
    for i in range(max(limit, 0)):
        if i == t % 5:
            continue
        j = -1
        while True:
            j += 1
            if j * i > t % 17:
                break
            if (j ^ i) % 7 == 3:
                continue
            if j > 30:
                break
            total += i * j + 1
        if total > 500 + t:
            break
        k = i
        gone = False
        while k % 4 != 0:
            k += t % 3 + 1
            if k > 40:
                gone = True
                break
            total ^= k
        if gone:
            return total
        while True:
            total += k
            k -= 5
            if not (k > 0 and int(np.fmod(total, 3))):
                break
    return total


def i32(x):
    return (x + 2**31) % 2**32 - 2**31


def cdiv(a, b):
    return int(a / b) if abs(a) < 2**52 else None


def table(x):
    r = 0
    for k in range(4):
        c = (x % 2**32) % 13
        if c == 0:
            r += 7
        elif c in (1, 2):
            if c == 1:
                r ^= x
            r = r * 3 + 1
        elif c == 3:
            r -= k
        elif c == 4:
            r += x >> 3
        elif c == 5:
            r = ~r
        elif c == 6:
            r = i32(r << 2) | 1
        elif c in (7, 8):
            if c == 8 or not r & 1:
                if c == 7:
                    r += 11
                r = cdiv(i32(r), 2)
        elif c == 9:
            r = int(np.fmod(r, 1000))
        elif c == 10:
            r = -r
        elif c == 11:
            r += 100
        else:
            r ^= 0x55
        r = i32(r)
        x = i32(cdiv(x, 13) + int(np.fmod(r, 5)) + k)
    return r


@case
def control(gpu):
    module = gpu.compile(ONE, "control")
    random = np.random.default_rng(11)
    n = 1000
    v = random.integers(0, 10**6, n).astype(np.int32)
    out = np.zeros(n, np.int32)
    results = []

    def one(name, got, expected):
        try:
            check(name, got, expected)
            results.append((name, "untouched" if False else ""))
        except Exception as failure:
            results.append((name, "untouched" if not np.any(got) else str(failure)))

    module.launch("control__loops", 8, 128, v, out, np.int32(n))
    one("loops", out, np.array([loops(t, v[t]) for t in range(n)], np.int32))
    w = random.integers(0, 2**31 - 1, n).astype(np.int32)
    module.launch("control__table", 8, 128, w, out, np.int32(n))
    one("table", out, np.array([table(int(x)) for x in w], np.int32))
    out = np.zeros(64, np.int32)
    module.launch("control__recursion", 1, 64, out)
    fib = [0, 1]
    for _ in range(20):
        fib.append(fib[-1] + fib[-2])
    one("recursion", out, np.array([fib[t % 11] * 1000 + (2 * (t % 4) + 3 if t < 16 else 0) for t in range(64)], np.int32))
    f0, f1 = lambda x: x + 1, lambda x: x * 3
    f2 = lambda x: f0(x) if x % 2 else f1(x) - 5
    f3 = lambda x: sum(f2(i) for i in range(x % 9))
    out = np.zeros(96, np.int32)
    module.launch("control__pointers", 1, 96, out)
    expected = []
    for t in range(96):
        x = t
        for i in range(5):
            x = (f0, f1, f2, f3)[(t + i * x) & 3](x) & 0xFFFF
        expected.append(x)
    one("pointers", out, np.array(expected, np.int32))
    module.launch("control__virtual", 1, 96, out)
    b = [1, 1]
    for _ in range(20):
        b.append(b[-1] + b[-2])
    one("virtual", out, np.array([(t % 12) * t if t % 3 == 0 else b[t % 12] if t % 3 == 1 else t % 12 for t in range(96)], np.int32))
    x = random.integers(-50, 50, 256).astype(np.int32)
    out = np.full(256, -7, np.int32)
    module.launch("control__early", 1, 256, x, out)
    one("early", out, np.where(x < 0, -7, x[x >= 0].sum()).astype(np.int32))
    x = random.integers(1, 3000, 500).astype(np.int32)
    out = np.zeros(500, np.int32)

    def collatz(y):
        c, y = 0, int(y)
        while y != 1:
            y = 3 * y + 1 if y & 1 else y // 2
            c += 1
        return c

    module.launch("control__collatz", 4, 128, x, out, np.int32(500))
    one("collatz", out, np.array([collatz(y) for y in x], np.int32))
    out = np.zeros(32, np.int32)
    module.launch("control__syncwarp", 1, 32, out)
    low = np.arange(16)[::-1]
    low = (low ^ 8) + 1
    s = (np.arange(16, 32) ^ 1) * 2
    high = [int(t ^ 1) + int(s[:t - 15].sum()) for t in range(16, 32)]
    one("syncwarp", out, np.concatenate([low, high])[::-1].astype(np.int32))
    x = random.integers(-5, 9, 32).astype(np.int32)
    out = np.zeros(64, np.int32)
    module.launch("control__masks", 1, 32, x, out)
    expected = np.array([sum(int(x[(t + o) & 31]) for o in (1, 2, 4, 8, 16) if x[(t + o) & 31] > 0) if x[t] > 0 else 0 for t in range(32)])
    one("masks", out[:32], expected.astype(np.int32))
    x = random.integers(0, 200, 32).astype(np.int32)
    out = np.full(32, -9, np.int32)
    module.launch("control__nested", 1, 32, x, out)

    def nested(y):
        r, y = 0, int(y)
        if y & 1:
            r = 1
            if y & 2:
                r += (10 if y & 4 else 20) + 100
            elif y & 8:
                r += sum(i for i in range(y & 7) if i != 3)
            else:
                return -9
            return r + 1000
        while y > 0:
            y >>= 1
            if y % 3 == 0:
                continue
            if y == 7:
                return -1
            r += y
        return r

    one("nested", out, np.array([nested(y) for y in x], np.int32))
    return results


WAIT = r"""
extern "C" __global__ void waiting__lock_blocks(int* lock, int* counter) {  // a lock that a thread of each block takes
  if (threadIdx.x == 0) { for (int i = 0; i < 3; ++i) { while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20); __threadfence(); int v = *(volatile int*)counter; *(volatile int*)counter = v + 1; __threadfence(); atomicExch(lock, 0); } } }
extern "C" __global__ void waiting__lock_warps(int* counter) { __shared__ int lock; if (threadIdx.x == 0) lock = 0; __syncthreads();
  if (threadIdx.x % 32 == 0) { while (atomicCAS(&lock, 0, 1)) ; __threadfence_block(); *(volatile int*)counter += 1; __threadfence_block(); atomicExch(&lock, 0); } }
extern "C" __global__ void waiting__lock_lanes(int* lock, int* counter) { bool done = false;  // every lane of a warp
  while (!done) { if (atomicCAS(lock, 0, 1) == 0) { __threadfence(); *(volatile int*)counter += 1; __threadfence(); atomicExch(lock, 0); done = true; } } }
extern "C" __global__ void waiting__lock_lanes_naive(int* lock, int* counter) {  // needs forward progress of lanes
  while (atomicCAS(lock, 0, 1) != 0) ; __threadfence(); *(volatile int*)counter += 1; __threadfence(); atomicExch(lock, 0); }
extern "C" __global__ void waiting__lanes(volatile int* flag, int* out) { int t = threadIdx.x;  // lane 31 first, then the one below
  if (t < 31) while (flag[t + 1] == 0) ; out[t] = t == 31 ? 1 : out[t + 1] + 1; __threadfence(); flag[t] = 1; }
extern "C" __global__ void waiting__chain(volatile int* flag, volatile int* data) { int b = blockIdx.x;  // block after block
  if (threadIdx.x == 0) { if (b > 0) while (flag[b - 1] == 0) ; data[b] = (b > 0 ? data[b - 1] : 0) + b; __threadfence(); flag[b] = 1; } }
extern "C" __global__ void waiting__chain_down(volatile int* flag, volatile int* data) { int b = blockIdx.x, n = gridDim.x;  // all must be there at once
  if (threadIdx.x == 0) { if (b + 1 < n) while (flag[b + 1] == 0) ; data[b] = (b + 1 < n ? data[b + 1] : 0) + b; __threadfence(); flag[b] = 1; } }
extern "C" __global__ void waiting__lookback(const int* in, int* out, unsigned long long* state, int* ticket) {
  __shared__ int s[256], part, base; int t = threadIdx.x; if (t == 0) part = atomicAdd(ticket, 1); __syncthreads(); int p = part; s[t] = in[p * 256 + t]; __syncthreads();
  for (int o = 1; o < 256; o <<= 1) { int v = t >= o ? s[t - o] : 0; __syncthreads(); s[t] += v; __syncthreads(); }
  if (t == 0) { int total = s[255], sum = 0; volatile unsigned long long* st = state;
    if (p == 0) st[0] = 2ull << 32 | (unsigned)total; else { st[p] = 1ull << 32 | (unsigned)total; __threadfence();
      for (int q = p - 1; q >= 0; --q) { unsigned long long v; while ((v = st[q]) >> 32 == 0) ; sum += (int)(unsigned)v; if (v >> 32 == 2) break; }
      st[p] = 2ull << 32 | (unsigned)(sum + total); } base = sum; }
  __syncthreads(); out[p * 256 + t] = s[t] + base; }
extern "C" __global__ void waiting__flags(int* flag, int* data, int* out) {  // acquire and release, by PTX
  int t = threadIdx.x; if (blockIdx.x == 0) { data[t] = t * 3; __syncthreads(); if (t == 0) asm volatile("fence.acq_rel.gpu; st.release.gpu.s32 [%0], 1;" :: "l"(flag) : "memory"); }
  else { if (t == 0) { int v; do asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (!v); } __syncthreads(); out[t] = data[t] + 1; } }
extern "C" __global__ void waiting__last_block(const int* in, int* partial, unsigned* count, int* out) { __shared__ int s; __shared__ bool last; int t = threadIdx.x;
  if (t == 0) s = 0; __syncthreads(); atomicAdd(&s, in[blockIdx.x * blockDim.x + t]); __syncthreads();
  if (t == 0) { partial[blockIdx.x] = s; __threadfence(); last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1; } __syncthreads();
  if (last && t == 0) { int sum = 0; for (int i = 0; i < gridDim.x; ++i) sum += ((volatile int*)partial)[i]; *out = sum; } }
extern "C" __global__ void waiting__count(const int* in, int* out) { int t = threadIdx.x, x = in[t];
  out[t] = __syncthreads_count(x > 0) * 4 + (__syncthreads_and(x > -100) != 0) * 2 + (__syncthreads_or(x == 77) != 0); }
extern "C" __global__ void waiting__named(int* out) { __shared__ int s[192]; int t = threadIdx.x, g = t / 96; s[t] = t;
  for (int i = 0; i < 3; ++i) { asm volatile("bar.sync %0, 96;" :: "r"(g + 1) : "memory"); int v = s[g * 96 + (t + 1) % 96]; asm volatile("bar.sync %0, 96;" :: "r"(g + 1) : "memory"); s[t] = v; }
  __syncthreads(); out[t] = s[t]; }
extern "C" __global__ void waiting__producer(int* out) { __shared__ volatile int s[32]; int t = threadIdx.x;
  if (t < 32) { for (int i = 0; i < 4; ++i) { s[t] = t * 10 + i; asm volatile("bar.arrive 1, 64;" ::: "memory"); asm volatile("bar.sync 2, 64;" ::: "memory"); } }
  else { int sum = 0; for (int i = 0; i < 4; ++i) { asm volatile("bar.sync 1, 64;" ::: "memory"); sum += s[t - 32]; asm volatile("bar.arrive 2, 64;" ::: "memory"); } out[t - 32] = sum; } }
extern "C" __global__ void waiting__partial_warp(int* out) { __shared__ int s[64]; int t = threadIdx.x; s[t] = t; asm volatile("bar.sync 1, 64;" ::: "memory"); out[t] = s[(t + 5) % 48]; }
extern "C" __global__ void waiting__bar_red(const int* in, int* out) { int t = threadIdx.x, r, p, q; int x = in[t];
  asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 0; bar.red.popc.u32 %0, 3, 64, p; }" : "=r"(r) : "r"(x) : "memory");
  asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %1, 0; bar.red.and.pred q, 4, 64, p; selp.s32 %0, 1, 0, q; }" : "=r"(p) : "r"(x) : "memory");
  asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %1, 0; bar.red.or.pred q, 5, p; selp.s32 %0, 1, 0, q; }" : "=r"(q) : "r"(x) : "memory"); out[t] = r * 4 + p * 2 + q; }
extern "C" __global__ void waiting__clocks(long long* out) { long long a = clock64(); unsigned long long g, h; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g)); unsigned c = clock(); for (int i = 0; i < 50; ++i) __nanosleep(10);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(h)); long long b = clock64(); out[0] = b - a; out[1] = h - g; out[2] = c != 0; out[3] = g; }
extern "C" __global__ void waiting__timeout(long long* out) { long long start = clock64(); int n = 0; while (clock64() - start < 20000) ++n; out[0] = n; }
"""



zeros = lambda n=1, t=np.int32: np.zeros(n, t)  # noqa: E731


def waiting(kernel, grid, block, arrays, result, expected, **how):
    """Registers a case of one kernel: `result` is the number of the array to compare."""

    def run(gpu):
        module = gpu.compile(WAIT, "waiting")
        given = arrays() if callable(arrays) else arrays
        module.launch(f"waiting__{kernel}", grid, block, *given)
        expectation = expected(given) if callable(expected) else expected
        check(kernel, given[result], np.asarray(expectation))

    run.__name__ = f"waiting_{kernel}_{block}"
    case(run, **how)


def filled(n, low=-9, high=99):
    return np.random.default_rng(12).integers(low, high, n).astype(np.int32)


waiting("lock_blocks", 40, 64, lambda: [zeros(), zeros()], 1, [120])
waiting("lock_lanes", 4, 64, lambda: [zeros(), zeros()], 1, [256])
waiting("lock_lanes_naive", 2, 64, lambda: [zeros(), zeros()], 1, [128])
waiting("lock_warps", 1, 512, lambda: [zeros()], 0, [16])
waiting("lanes", 1, 32, lambda: [zeros(32), zeros(32)], 1, 32 - np.arange(32))
waiting("chain", 200, 32, lambda: [zeros(200), zeros(200)], 1, np.cumsum(np.arange(200)))
waiting("chain_down", 64, 32, lambda: [zeros(64), zeros(64)], 1, np.cumsum(np.arange(64)[::-1])[::-1])
waiting("lookback", 100, 256, lambda: [filled(25600), zeros(25600), zeros(100, np.uint64), zeros()], 1, lambda a: np.cumsum(a[0]).astype(np.int32))
waiting("flags", 2, 128, lambda: [zeros(), zeros(128), zeros(128)], 2, np.arange(128) * 3 + 1)
waiting("last_block", 30, 128, lambda: [filled(3840), zeros(30), zeros(1, np.uint32), zeros()], 3, lambda a: [a[0].sum()])
for size in (64, 100, 1024):
    waiting("count", 1, size, lambda size=size: [filled(size, -9, 9), zeros(size)], 1, lambda a: np.full(len(a[0]), (a[0] > 0).sum() * 4 + 2))
waiting("named", 1, 192, lambda: [zeros(192)], 0, np.concatenate([(np.arange(96) + 3) % 96, 96 + (np.arange(96) + 3) % 96]))
waiting("producer", 1, 64, lambda: [zeros(32)], 0, np.arange(32) * 40 + 6)
waiting("partial_warp", 1, 48, lambda: [zeros(48)], 0, (np.arange(48) + 5) % 48)
waiting("bar_red", 1, 64, lambda: [filled(64, -9, 9), zeros(64)], 1, lambda a: np.full(64, (a[0] > 0).sum() * 4 + 1))
waiting("clocks", 1, 1, lambda: [zeros(4, np.int64)], 0, lambda a: np.where([a[0][0] > 0, a[0][1] >= 0, a[0][2] == 1, a[0][3] > 0], a[0], -1))
waiting("timeout", 1, 1, lambda: [zeros(1, np.int64)], 0, lambda a: [max(a[0][0], 1)])
