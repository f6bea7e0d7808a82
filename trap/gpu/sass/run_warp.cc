#include "trap/gpu/sass/run_warp.h"

#include <algorithm>
#include <cstring>

#include "trap/gpu/sass/lanes.h"

namespace phantora::sass {
namespace {

using Path = Warp::Path;
using State = Warp::Path::State;

// Threads that wait for others of their warp, which may spin for them: after so many instructions
// it is another path's turn.
constexpr uint64_t kTurn = 4096;
// Of threads that wait for others of their warp in a loop, before others need not wait for them.
constexpr uint32_t kMostYields = 1024;
// By the ABI of compilers.
constexpr int kStackPointer = 1;

class Runner {
 public:
  Runner(Warp& warp, const Program& program) : warp_(warp), program_(program) {}

  WarpState Run(uint64_t most) {
    uint64_t left = most, threads = 0;
    WarpState result = WarpState::kPaused;
    for (;;) {
      if (!Resume()) {
        if (GoOnForWarpSync()) continue;
        result = warp_.paths.empty() ? WarpState::kExited : WarpState::kWaiting;
        break;
      }
      const uint64_t turn = warp_.paths.empty() ? left : std::min(left, kTurn);
      const uint64_t done = RunPath(turn, threads);
      left -= std::min(left, done);
      clock_ += done;
      if (warp_.failed()) {
        result = WarpState::kStopped;
        break;
      }
      if (warp_.running != 0) {
        // Its turn is over: the others go first.
        warp_.paths.insert(warp_.paths.begin(), {.pc = warp_.pc, .threads = warp_.running});
      }
      if (warp_.gives_way) {
        warp_.gives_way = false;
        result = WarpState::kLooking;
        break;
      }
      if (left == 0) break;
    }
    warp_.launch->clock = clock_;
    warp_.launch->thread_instructions += threads;
    return result;
  }

 private:
  // Takes the path that is ready and came last.
  bool Resume() {
    for (size_t at = warp_.paths.size(); at-- > 0;) {
      if (warp_.paths[at].state != State::kReady) continue;
      if ((warp_.paths[at].threads & warp_.thread_state.back()) != 0) continue;
      warp_.pc = warp_.paths[at].pc;
      warp_.running = warp_.paths[at].threads;
      warp_.paths.erase(warp_.paths.begin() + static_cast<ptrdiff_t>(at));
      return true;
    }
    return false;
  }

  // Until the path ends or waits (`running` is 0 then), or after `most` instructions.
  uint64_t RunPath(uint64_t most, uint64_t& threads) {
    const Instruction* const code = program_.data();
    const uint32_t size = program_.size();
    uint64_t done = 0;
    while (done < most) {
      if (warp_.pc >= size) {
        warp_.Fail(Stop::Reason::kBadTarget, uint64_t{warp_.pc} * kWordBytes);
        return done;
      }
      const Instruction& i = code[warp_.pc];
      const uint32_t guard = __builtin_expect(i.guard_is_uniform, 0)
                                 ? 0u - warp_.uniform_predicates[i.guard]
                                 : warp_.predicates[i.guard];
      warp_.active = warp_.running & (i.guard_inverted ? ~guard : guard);
      ++done;
      threads += static_cast<uint64_t>(__builtin_popcount(warp_.active));
      if (warp_.active == 0 && i.flow != Flow::kDivergence) {
        ++warp_.pc;
        continue;
      }
      if (i.flow == Flow::kPlain) {
        i.handler(warp_, i);
        if (__builtin_expect(warp_.failed(), 0)) return done;
        ++warp_.pc;
        continue;
      }
      warp_.launch->clock = clock_ + done;
      Step(i);
      if (warp_.running == 0 || warp_.gives_way || warp_.failed()) return done;
    }
    return done;
  }

  void Push(uint32_t pc, uint32_t threads) {
    if (threads != 0) warp_.paths.push_back({.pc = pc, .threads = threads});
  }
  // Running threads for which `is` does not hold come to this instruction once more.
  template <typename Is>
  void KeepAlike(Is is) {
    uint32_t alike = 0;
    for (uint32_t rest = warp_.running; rest != 0; rest &= rest - 1) {
      if (is(First(rest))) alike |= Bit(First(rest));
    }
    Push(warp_.pc, warp_.running & ~alike);
    warp_.running = alike;
  }
  // Those whom the guard leaves out go on by themselves.
  void LeaveOthers() {
    Push(warp_.pc + 1, warp_.running & ~warp_.active);
    warp_.running = warp_.active;
  }

  void Step(const Instruction& i) {
    switch (i.flow) {
      case Flow::kBranch:
        Branch(i);
        return;
      case Flow::kBranchIfUniform:
        if (warp_.uniform_predicates[i.Bits(24, 3)] == i.Bit(27)) {
          ++warp_.pc;
        } else {
          Branch(i);
        }
        return;
      case Flow::kBranchTogether:
        warp_.pc = (warp_.active & PredicateAt(warp_, i, 87, 90)) != 0 ? i.target : warp_.pc + 1;
        return;
      case Flow::kTryWait:
        i.handler(warp_, i);
        if (!warp_.repeats) ++warp_.pc;
        warp_.repeats = false;
        return;
      case Flow::kSetsExited:
        i.handler(warp_, i);
        ++warp_.pc;
        Release();
        return;
      case Flow::kReadsAddress:
        warp_.address = program_.AddressOf(warp_.pc, warp_.launch->code_address);
        [[fallthrough]];
      case Flow::kReadsClock:
        i.handler(warp_, i);
        ++warp_.pc;
        return;
      case Flow::kDivergence: {
        // Whether the threads that execute it are those that a register names. All go the same way.
        const uint32_t named = i.a.negate ? ~warp_.uniform[i.a.index] : warp_.uniform[i.a.index];
        const bool wants_equal = i.Bits(32, 2) == 3;
        warp_.pc = (warp_.active == named) == wants_equal ? i.target : warp_.pc + 1;
        return;
      }
      case Flow::kCall:
        LeaveOthers();
        warp_.pc = i.target;
        return;
      case Flow::kReturn:
      case Flow::kIndirectBranch:
        IndirectBranch(i);
        return;
      case Flow::kUniformIndirectBranch:
        LeaveOthers();
        JumpTo(i, warp_.uniform[i.a.index]);
        return;
      case Flow::kExit:
        Exit(i);
        return;
      case Flow::kSetConvergence: {
        SetConvergence(static_cast<uint8_t>(i.Bits(16, 4)));
        ++warp_.pc;
        return;
      }
      case Flow::kConverge:
        Converge(i);
        return;
      case Flow::kBreak: {
        const uint32_t leaving = warp_.active & PredicateAt(warp_, i, 87, 90);
        LeaveConvergence(static_cast<uint8_t>(i.Bits(16, 4)), leaving);
        ++warp_.pc;
        Release();
        return;
      }
      case Flow::kWarpSync:
        WarpSync(i);
        return;
      case Flow::kBarrier:
        Barrier(i);
        return;
      case Flow::kYield:
        ++warp_.pc;
        Yield();
        return;
      case Flow::kAbsoluteCall:
      case Flow::kAbsoluteReturn:
      case Flow::kAbsoluteBranch:
        AbsoluteBranch(i);
        return;
      default:
        warp_.Fail(Stop::Reason::kTrap);
        return;
    }
  }

  void Branch(const Instruction& i) {
    const uint32_t taken = warp_.active & PredicateAt(warp_, i, 87, 90);
    if (taken == 0) {
      ++warp_.pc;
    } else if (taken == warp_.running) {
      warp_.pc = i.target;
    } else {
      Push(i.target, taken);
      warp_.running &= ~taken;
      ++warp_.pc;
    }
  }

  void JumpTo(const Instruction& i, uint64_t by) {
    const uint64_t target = uint64_t{i.target} * kWordBytes + by;
    warp_.pc = target % kWordBytes == 0 && target / kWordBytes < program_.size()
                   ? static_cast<uint32_t>(target / kWordBytes)
                   : UINT32_MAX;
  }

  // Each group of threads that go to the same place is a path.
  void IndirectBranch(const Instruction& i) { JumpTo(i, TakeAlike(i)); }
  // To an address of the GPU's memory.
  void AbsoluteBranch(const Instruction& i) {
    if (i.flow == Flow::kAbsoluteBranch) {
      // Whom it leaves out goes on, as after all branches.
      const uint32_t taken = warp_.active & PredicateAt(warp_, i, 87, 90);
      Push(warp_.pc + 1, warp_.running & ~taken);
      warp_.running = taken;
      if (taken == 0) return;
    } else {
      LeaveOthers();
    }
    uint64_t target = 0;
    if (i.a.kind == Source::Kind::kRegister) target = TakeAlike(i);
    if (i.b.kind == Source::Kind::kConstant) {
      NoteConstants(warp_, i.b.index, i.b.value, sizeof target);
      std::memcpy(&target, warp_.launch->constants[i.b.index] + i.b.value, sizeof target);
    } else if (i.flow == Flow::kAbsoluteReturn || i.a.kind != Source::Kind::kRegister) {
      target += AbsoluteTarget(i.word, warp_.launch->architecture);
    }
    const auto index = program_.IndexOf(target, warp_.launch->code_address);
    if (!index) {
      warp_.Fail(Stop::Reason::kElsewhere, target);
      return;
    }
    warp_.pc = *index;
  }
  // The address in the first thread's register; threads that have another are left behind.
  uint64_t TakeAlike(const Instruction& i) {
    LeaveOthers();
    const uint32_t* const low = warp_.registers[i.a.index];
    const uint32_t* const high = warp_.registers[i.a.index + 1];
    const int lane = First(warp_.running);
    KeepAlike([&](int other) { return low[other] == low[lane] && high[other] == high[lane]; });
    return low[lane] | uint64_t{high[lane]} << 32;
  }

  void Exit(const Instruction& i) {
    const uint32_t leaving = warp_.active & PredicateAt(warp_, i, 87, 90);
    warp_.exited |= leaving;
    warp_.running &= ~leaving;
    warp_.block->living -= static_cast<uint32_t>(__builtin_popcount(leaving));
    ++warp_.pc;
    Release();
  }

  void Wait(State state, uint8_t barrier, uint32_t wanted) {
    warp_.paths.push_back({warp_.pc, warp_.running, state, barrier, wanted});
    warp_.running = 0;
    Release();
  }

  void SetConvergence(uint8_t barrier) {
    uint32_t* const row = warp_.convergence[barrier];
    Warp::Region& region = warp_.regions[barrier];
    const uint32_t* const mask = warp_.ActiveRow();
    const uint32_t stack = warp_.registers[kStackPointer][First(warp_.active)];
    if (region.pc != warp_.pc || region.stack != stack) region.threads = 0;
    const uint32_t before = region.threads & ~warp_.exited & ~warp_.active;
    const uint32_t together = before | warp_.active;
    region = {warp_.pc, stack, together};
    for (int lane = 0; lane < kLanes; ++lane) {
      row[lane] = (together & mask[lane]) | (row[lane] & ~mask[lane]);
    }
    if (before == 0) return;
    for (uint32_t rest = before; rest != 0; rest &= rest - 1) row[First(rest)] = together;
    for (Path& path : warp_.paths) {
      if (path.state == State::kConverging && path.barrier == barrier &&
          (path.threads & ~before) == 0) {
        path.wanted = together;
      }
    }
  }

  void Converge(const Instruction& i) {
    LeaveOthers();
    const auto barrier = static_cast<uint8_t>(i.Bits(16, 4));
    const uint32_t* const row = warp_.convergence[barrier];
    const uint32_t wanted = row[First(warp_.running)];
    KeepAlike([&](int lane) { return row[lane] == wanted; });
    if ((wanted & ~warp_.exited & ~warp_.running) == 0) {
      warp_.regions[barrier].threads &= ~warp_.running;
      ++warp_.pc;
      return;
    }
    Wait(State::kConverging, barrier, wanted);
  }

  void WarpSync(const Instruction& i) {
    LeaveOthers();
    uint32_t wanted = kAllLanes;
    if (i.word.form() == 1) {
      // Threads may name different masks at one place; each waits for its own.
      const Source& mask = i.b.kind == Source::Kind::kRegister ? i.b : i.a;
      const uint32_t* const row = warp_.registers[mask.index];
      wanted = row[First(warp_.running)];
      KeepAlike([&](int lane) { return row[lane] == wanted; });
    } else if (!i.Bit(86) && i.Bits(32, 32) != 0) {
      wanted = i.Bits(32, 32);
    }
    if ((wanted & ~warp_.exited & ~warp_.running) == 0) {
      ++warp_.pc;
      return;
    }
    Wait(State::kWarpSync, 0, wanted);
  }

  // Others of the warp come first. Threads that only wait to converge with threads that yield again
  // and again are not kept: the latter may wait for what the former do next, as with a lock.
  void Yield() {
    if (warp_.paths.empty()) return;
    const bool any_ready =
        std::any_of(warp_.paths.begin(), warp_.paths.end(),
                    [](const Path& path) { return path.state == State::kReady; });
    if (any_ready) {
      warp_.yields = 0;
    } else if (++warp_.yields == kMostYields) {
      warp_.yields = 0;
      for (Path& path : warp_.paths) {
        if (path.state != State::kConverging) continue;
        LeaveConvergence(path.barrier, path.threads);
        path = {.pc = path.pc + 1, .threads = path.threads};
      }
    }
    warp_.paths.insert(warp_.paths.begin(), {.pc = warp_.pc, .threads = warp_.running});
    warp_.running = 0;
  }
  // Whom a WARPSYNC waits for does not wait to converge with those who are there: what a program
  // demands comes before what a compiler thinks is faster.
  bool GoOnForWarpSync() {
    uint32_t there = 0;
    for (const Path& path : warp_.paths) {
      if (path.state == State::kWarpSync) there |= path.threads;
    }
    bool any = false;
    for (Path& path : warp_.paths) {
      if (path.state != State::kConverging || (path.wanted & there) == 0) continue;
      LeaveConvergence(path.barrier, path.threads);
      path = {.pc = path.pc + 1, .threads = path.threads};
      any = true;
    }
    return any;
  }
  void LeaveConvergence(uint8_t barrier, uint32_t leaving) {
    for (uint32_t& wanted : warp_.convergence[barrier]) wanted &= ~leaving;
    warp_.regions[barrier].threads &= ~leaving;
    for (Path& path : warp_.paths) {
      if (path.state == State::kConverging && path.barrier == barrier) path.wanted &= ~leaving;
    }
  }

  // Paths whose threads are all there go on together, from each place where some are.
  void Release() {
    for (size_t at = 0; at < warp_.paths.size();) {
      const Path path = warp_.paths[at];
      if ((path.state != State::kConverging && path.state != State::kWarpSync) ||
          !IsComplete(path)) {
        ++at;
        continue;
      }
      std::vector<Path> going;
      std::erase_if(warp_.paths, [&](const Path& other) {
        if (!WaitsWith(path, other)) return false;
        if (other.state == State::kConverging) {
          warp_.regions[other.barrier].threads &= ~other.threads;
        }
        const auto same = std::find_if(going.begin(), going.end(),
                                       [&](const Path& one) { return one.pc == other.pc + 1; });
        if (same != going.end()) {
          same->threads |= other.threads;
        } else {
          going.push_back({.pc = other.pc + 1, .threads = other.threads});
        }
        return true;
      });
      warp_.paths.insert(warp_.paths.end(), going.begin(), going.end());
      at = 0;
    }
  }
  static bool WaitsWith(const Path& path, const Path& other) {
    return other.state == path.state && other.barrier == path.barrier &&
           other.wanted == path.wanted;
  }
  bool IsComplete(const Path& path) const {
    uint32_t here = 0;
    for (const Path& other : warp_.paths) {
      if (WaitsWith(path, other)) here |= other.threads;
    }
    return (path.wanted & ~warp_.exited & ~here) == 0;
  }

  void Barrier(const Instruction& i) {
    LeaveOthers();
    uint32_t id = i.Bits(54, 4), expected = i.Bits(42, 12);
    if (i.word.form() <= 2) {
      const uint32_t value = warp_.registers[i.b.index][First(warp_.running)];
      id = value & 15;
      if (i.word.form() == 1) expected = value >> 16 & 0xfff;
    }
    const auto number = static_cast<uint8_t>(id);
    BlockState::Barrier& barrier = warp_.block->barriers[number];
    const auto count = static_cast<uint32_t>(__builtin_popcount(warp_.running));
    const uint32_t kind = i.Bits(77, 2);
    barrier.arrived += count;
    barrier.expected = expected;
    if (expected != 0) {
      // A warp counts whole, also for threads that it lacks, once all that it has are there.
      uint32_t here = warp_.running | warp_.exited;
      for (const Path& path : warp_.paths) {
        if (path.state == State::kBarrier && path.barrier == number) here |= path.threads;
      }
      if (here == kAllLanes) {
        barrier.arrived += static_cast<uint32_t>(__builtin_popcount(warp_.exited));
      }
    }
    if (kind == 1) {  // .ARV
      ++warp_.pc;
      return;
    }
    if (kind == 2) {
      const uint32_t holds = warp_.running & PredicateAt(warp_, i, 87, 90);
      barrier.count += static_cast<uint32_t>(__builtin_popcount(holds));
      barrier.all &= holds == warp_.running;
      barrier.any |= holds != 0;
      Wait(State::kReduction, number, i.Bits(74, 2));
      return;
    }
    Wait(State::kBarrier, number, 0);
  }

  Warp& warp_;
  const Program& program_;
  uint64_t clock_ = warp_.launch->clock;  // without the path at hand
};

}  // namespace

WarpState RunWarp(Warp& warp, const Program& program, uint64_t most) {
  return Runner(warp, program).Run(most);
}

bool ReleaseBarriers(absl::Span<Warp* const> warps, BlockState& block) {
  bool any = false;
  for (size_t number = 0; number < block.barriers.size(); ++number) {
    BlockState::Barrier& barrier = block.barriers[number];
    const uint32_t expected = barrier.expected != 0 ? barrier.expected : block.living;
    if (barrier.arrived == 0 || barrier.arrived < expected) continue;
    for (Warp* warp : warps) {
      std::vector<Path> going;
      std::erase_if(warp->paths, [&](const Path& path) {
        if ((path.state != State::kBarrier && path.state != State::kReduction) ||
            path.barrier != number) {
          return false;
        }
        if (path.state == State::kReduction) {
          warp->barrier_count = barrier.count;
          warp->barrier_result = path.wanted == 1 ? barrier.all : barrier.any;
        }
        const auto same = std::find_if(going.begin(), going.end(),
                                       [&](const Path& one) { return one.pc == path.pc + 1; });
        if (same != going.end()) {
          same->threads |= path.threads;
        } else {
          going.push_back({.pc = path.pc + 1, .threads = path.threads});
        }
        return true;
      });
      any |= !going.empty();
      warp->paths.insert(warp->paths.end(), going.begin(), going.end());
    }
    barrier = {};
  }
  return any;
}

}  // namespace phantora::sass
