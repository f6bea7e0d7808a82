"""Between the threads of a warp."""

import numpy as np

from harness import Wrong, case, check

LANES = np.arange(32)


def warp_reference(values, mode, by, width, valid=None):
    """__shfl_*_sync of 32 lanes."""
    out = values.copy()
    for lane in range(32):
        first = lane // width * width
        if mode == "idx":
            source = first + by % width
        elif mode == "up":
            source = lane - by if lane - by >= first else lane
        elif mode == "down":
            source = lane + by if lane + by < first + width else lane
        else:
            source = lane ^ by if (lane ^ by) < first + width else lane
        out[lane] = values[source % 32]
    return out


@case
def shuffles(gpu):
    text, launches = "", []
    random = np.random.default_rng(3)
    data = random.integers(0, 2**32, 32, dtype=np.uint32)
    for mode, name in (("idx", "__shfl_sync"), ("up", "__shfl_up_sync"), ("down", "__shfl_down_sync"), ("xor", "__shfl_xor_sync")):
        for width in (2, 4, 8, 16, 32):
            for by in (0, 1, 2, 3, 5, 7, 15, 16, 31):
                kernel = f"shuffles__{mode}_{width}_{by}"
                text += f'extern "C" __global__ void {kernel}(unsigned* d) {{ d[threadIdx.x] = {name}(~0u, d[threadIdx.x], {by}, {width}); }}\n'
                launches.append((kernel, mode, by, width))
    text += r"""
extern "C" __global__ void shuffles__variable(unsigned* d, const int* by, int width) {
  int t = threadIdx.x; unsigned v = d[t];
  d[t] = __shfl_sync(~0u, v, by[t], width); d[32 + t] = __shfl_up_sync(~0u, v, width / 3, width);
  d[64 + t] = __shfl_down_sync(~0u, v, width / 3, width); d[96 + t] = __shfl_xor_sync(~0u, v, width / 2, width); }
extern "C" __global__ void shuffles__wide(double* d, long long* l) { int t = threadIdx.x;
  d[t] = __shfl_down_sync(~0u, d[t], 5); l[t] = __shfl_xor_sync(~0u, l[t], 9, 16); }
extern "C" __global__ void shuffles__predicate(unsigned* d) { int t = threadIdx.x; unsigned v = d[t], r; int p;
  asm("{ .reg .pred q; shfl.sync.down.b32 %0|q, %2, 3, 0x1807, -1; selp.s32 %1, 1, 0, q; }" : "=r"(r), "=r"(p) : "r"(v));
  d[t] = p; d[32 + t] = r; }
extern "C" __global__ void shuffles__reduce(float* d) { int t = threadIdx.x; float v = d[t];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); d[t] = v; }
extern "C" __global__ void shuffles__scan(int* d) { int t = threadIdx.x, v = d[t];
  for (int o = 1; o < 32; o <<= 1) { int u = __shfl_up_sync(~0u, v, o); if (t >= o) v += u; } d[t] = v; }
"""
    module = gpu.compile(text, "shuffles")
    for kernel, mode, by, width in launches:
        got = data.copy()
        module.launch(kernel, 1, 32, got)
        check(kernel, got, warp_reference(data, mode, by, width))
    for width in (4, 8, 32):
        by = random.integers(0, 64, 32).astype(np.int32)
        got = np.zeros(128, np.uint32)
        got[:32] = data
        module.launch("shuffles__variable", 1, 32, got, by, np.int32(width))
        check("variable idx", got[:32], data[LANES // width * width + by % width])
        for part, mode, n in ((1, "up", width // 3), (2, "down", width // 3), (3, "xor", width // 2)):
            check(f"variable {mode} {width}", got[32 * part:32 * part + 32], warp_reference(data, mode, n, width))
    d, l = random.standard_normal(32), random.integers(-(2**63), 2**63 - 1, 32)
    d0, l0 = d.copy(), l.copy()
    module.launch("shuffles__wide", 1, 32, d, l)
    check("double", d, np.concatenate([d0[5:], d0[27:]]))
    check("long", l, warp_reference(l0, "xor", 9, 16))
    got = np.zeros(64, np.uint32)
    got[:32] = data
    module.launch("shuffles__predicate", 1, 32, got)
    check("predicate", got[:32], (LANES % 8 + 3 < 8).astype(np.uint32))
    check("predicate's value", got[32:], warp_reference(data, "down", 3, 8))
    f = np.arange(32, dtype=np.float32)
    module.launch("shuffles__reduce", 1, 32, f)
    check("reduce", f, np.full(32, 496, np.float32))
    i = random.integers(-99, 99, 32).astype(np.int32)
    i0 = i.copy()
    module.launch("shuffles__scan", 1, 32, i)
    check("scan", i, np.cumsum(i0).astype(np.int32))


@case
def votes(gpu):
    module = gpu.compile(r"""
extern "C" __global__ void votes__all(const int* v, unsigned* o, unsigned mask) { int t = threadIdx.x;
  if (!(mask >> t & 1)) return;
  int p = v[t];
  o[t] = __ballot_sync(mask, p); o[32 + t] = __all_sync(mask, p); o[64 + t] = __any_sync(mask, p); o[96 + t] = __uni_sync(mask, p);
  o[128 + t] = __activemask(); }
extern "C" __global__ void votes__match(const int* v, const long long* w, unsigned* o, unsigned mask) { int t = threadIdx.x;
  if (!(mask >> t & 1)) return;
  int p, q; o[t] = __match_any_sync(mask, v[t]); o[32 + t] = __match_any_sync(mask, w[t]); o[64 + t] = __match_all_sync(mask, v[t], &p);
  o[96 + t] = p; o[128 + t] = __match_all_sync(mask, w[t] >> 63, &q); o[160 + t] = q; }
extern "C" __global__ void votes__reduce(const int* v, int* o, unsigned mask) { int t = threadIdx.x;
  if (!(mask >> t & 1)) return;
  int x = v[t];
  o[t] = __reduce_add_sync(mask, x); o[32 + t] = __reduce_min_sync(mask, x); o[64 + t] = __reduce_max_sync(mask, x);
  o[96 + t] = __reduce_min_sync(mask, (unsigned)x); o[128 + t] = __reduce_max_sync(mask, (unsigned)x);
  o[160 + t] = __reduce_and_sync(mask, (unsigned)x); o[192 + t] = __reduce_or_sync(mask, (unsigned)x); o[224 + t] = __reduce_xor_sync(mask, (unsigned)x); }
extern "C" __global__ void votes__divergent(const int* v, int* o) { int t = threadIdx.x;
  if (t % 3 == 0) o[t] = __reduce_add_sync(0x49249249u, v[t]);
  else if (t % 3 == 1) o[t] = __reduce_max_sync(0x92492492u, v[t]);
  else o[t] = __popc(__ballot_sync(0x24924924u, v[t] > 0)) + 100 * __shfl_sync(0x24924924u, t, 8);
  unsigned lower; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower)); unsigned ge; asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
  o[32 + t] = __popc(lower) + 64 * __popc(ge); unsigned id; asm("mov.u32 %0, %%laneid;" : "=r"(id)); o[64 + t] = id; }
""", "votes")
    random = np.random.default_rng(5)
    for mask in (0xFFFFFFFF, 0x0000FFFF, 0x55555555, 0x80000001, 0x00000100):
        member = (mask >> LANES) & 1 == 1
        for values in (random.integers(0, 2, 32), np.ones(32), np.zeros(32)):
            v = values.astype(np.int32)
            o = np.zeros(160, np.uint32)
            module.launch("votes__all", 1, 32, v, o, np.uint32(mask))
            ballot = sum(1 << int(t) for t in LANES if member[t] and v[t])
            expected = [ballot, ballot == mask, ballot != 0, ballot in (0, mask), mask]
            for part, value in enumerate(expected):
                check(f"vote {part} of {mask:#x}", o[32 * part:32 * part + 32][member], np.full(member.sum(), value, np.uint32))
        v = random.integers(-2, 3, 32).astype(np.int32)
        w = random.integers(0, 3, 32) << 33
        o = np.zeros(192, np.uint32)
        module.launch("votes__match", 1, 32, v, w, o, np.uint32(mask))
        for part, x in ((0, v), (1, w)):
            expected = np.array([sum(1 << int(u) for u in LANES if member[u] and x[u] == x[t]) for t in LANES], np.uint32)
            check(f"match_any {part} {mask:#x}", o[32 * part:32 * part + 32][member], expected[member])
        alike = len(set(v[member].tolist())) == 1
        check(f"match_all {mask:#x}", o[64:96][member], np.full(member.sum(), mask if alike else 0, np.uint32))
        check(f"match_all's predicate {mask:#x}", o[96:128][member], np.full(member.sum(), alike, np.uint32))
        check(f"match_all 64 {mask:#x}", o[128:160][member], np.full(member.sum(), mask, np.uint32))
        v = random.integers(-(2**31), 2**31 - 1, 32).astype(np.int32)
        o = np.zeros(256, np.int32)
        module.launch("votes__reduce", 1, 32, v, o, np.uint32(mask))
        x = v[member]
        u = x.view(np.uint32)
        expected = [x.sum(dtype=np.int32), x.min(), x.max(), u.min(), u.max(), np.bitwise_and.reduce(u), np.bitwise_or.reduce(u), np.bitwise_xor.reduce(u)]
        for part, value in enumerate(expected):
            check(f"reduce {part} {mask:#x}", o[32 * part:32 * part + 32][member], np.full(member.sum(), value).astype(np.uint32).view(np.int32))
    v = random.integers(-9, 10, 32).astype(np.int32)
    o = np.zeros(96, np.int32)
    module.launch("votes__divergent", 1, 32, v, o)
    expected = np.where(LANES % 3 == 0, v[::3].sum(), np.where(LANES % 3 == 1, v[1::3].max(), (v[2::3] > 0).sum() + 800))
    check("divergent", o[:32], expected.astype(np.int32))
    check("lane masks", o[32:64], (LANES + 64 * (32 - LANES)).astype(np.int32))
    check("lane ids", o[64:], LANES.astype(np.int32))


@case
def cooperative_groups(gpu):
    module = gpu.compile(r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cooperative_groups__tiles(int* o) {
  cg::thread_block block = cg::this_thread_block(); int t = block.thread_rank();
  auto t4 = cg::tiled_partition<4>(block); auto t8 = cg::tiled_partition<8>(block); auto t32 = cg::tiled_partition<32>(block);
  o[t] = cg::reduce(t4, t, cg::plus<int>()); o[256 + t] = cg::reduce(t8, t, cg::greater<int>()); o[512 + t] = cg::reduce(t32, t, cg::plus<int>());
  o[768 + t] = t8.shfl(t, 3) + 1000 * t8.meta_group_rank(); o[1024 + t] = t4.any(t == 5) + 2 * t4.all(t >= 128) + 4 * t4.ballot(t & 1);
  o[1280 + t] = cg::inclusive_scan(t32, t & 3); o[1536 + t] = cg::exclusive_scan(t8, 1);
  auto t16 = cg::tiled_partition(block, 16); t16.sync(); o[1792 + t] = t16.thread_rank() + 100 * t16.size(); block.sync(); }
extern "C" __global__ void cooperative_groups__coalesced(int* counter, int* o) {
  int t = threadIdx.x;
  if (t % 3 == 1) { auto g = cg::coalesced_threads(); int first;
    if (g.thread_rank() == 0) first = atomicAdd(counter, (int)g.size());
    first = g.shfl(first, 0); o[t] = first + g.thread_rank(); o[64 + t] = g.size(); o[128 + t] = cg::reduce(g, t, cg::plus<int>()); o[192 + t] = g.shfl_down(t, 1); }
  auto p = cg::labeled_partition(cg::tiled_partition<32>(cg::this_thread_block()), t % 5); o[256 + t] = p.size() * 100 + p.thread_rank();
  auto b = cg::binary_partition(cg::tiled_partition<32>(cg::this_thread_block()), t % 4 == 0); o[320 + t] = b.size() * 100 + b.thread_rank(); }
extern "C" __global__ void cooperative_groups__block_reduce(int* o) { __shared__ cg::block_tile_memory<256> memory;
  auto block = cg::this_thread_block(memory); auto tile = cg::tiled_partition<64>(block); o[block.thread_rank()] = cg::reduce(tile, (int)block.thread_rank(), cg::plus<int>()); }
""", "cooperative_groups")
    o = np.zeros(2048, np.int32)
    module.launch("cooperative_groups__tiles", 1, 256, o)
    t = np.arange(256)
    tile = lambda n, f: np.repeat(f(t.reshape(-1, n)), n)
    check("tile of 4", o[:256], tile(4, lambda x: x.sum(1)))
    check("tile of 8 max", o[256:512], tile(8, lambda x: x.max(1)))
    check("tile of 32", o[512:768], tile(32, lambda x: x.sum(1)))
    check("tile's shuffle", o[768:1024], t // 8 * 8 + 3 + 1000 * (t // 8))
    check("tile's votes", o[1024:1280], (t // 4 == 1) + 2 * (t >= 128) + 4 * 10)
    check("inclusive scan", o[1280:1536], (t & 3).reshape(8, 32).cumsum(1).ravel())
    check("exclusive scan", o[1536:1792], t % 8)
    check("dynamic tile", o[1792:], t % 16 + 1600)
    counter, o = np.zeros(1, np.int32), np.zeros(384, np.int32)
    module.launch("cooperative_groups__coalesced", 1, 64, counter, o)
    t = np.arange(64)
    for warp in (0, 1):
        group = [x for x in range(32 * warp, 32 * warp + 32) if x % 3 == 1]
        place = o[group] - o[group[0]]
        check("coalesced ranks", place, np.arange(len(group)))
        check("coalesced size", o[64:][group], np.full(len(group), len(group)))
        check("coalesced sum", o[128:][group], np.full(len(group), sum(group)))
        check("coalesced shuffle", o[192:][group][:-1], group[1:])
    check("coalesced count", counter, np.array([sum(x % 3 == 1 for x in t)]))
    labels = np.array([100 * sum(u // 32 == x // 32 and u % 5 == x % 5 for u in t) + sum(u // 32 == x // 32 and u % 5 == x % 5 for u in range(x)) for x in t])
    check("labeled", o[256:320], labels)
    halves = np.array([100 * sum(u // 32 == x // 32 and (u % 4 == 0) == (x % 4 == 0) for u in t) + sum(u // 32 == x // 32 and (u % 4 == 0) == (x % 4 == 0) for u in range(x)) for x in t])
    check("binary", o[320:384], halves)
    o = np.zeros(256, np.int32)
    module.launch("cooperative_groups__block_reduce", 1, 256, o)
    check("tile of 64", o, np.repeat(np.arange(256).reshape(4, 64).sum(1), 64))


@case
def grid_sync(gpu):
    module = gpu.compile(r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void grid_sync__steps(int* a, int* b, int steps) {
  cg::grid_group grid = cg::this_grid(); int i = grid.thread_rank(), n = grid.size();
  for (int s = 0; s < steps; ++s) { b[i] = a[(i + 1) % n] + a[(i + n - 1) % n]; grid.sync(); a[i] = b[i] % 1000; grid.sync(); } }
""", "grid_sync")
    a = np.arange(8 * 96, dtype=np.int32)
    b = np.zeros_like(a)
    expected = a.copy()
    for _ in range(5):
        expected = (np.roll(expected, -1) + np.roll(expected, 1)) % 1000
    module.launch("grid_sync__steps", 8, 96, a, b, np.int32(5), cooperative=True)
    check("grid sync", a, expected)
