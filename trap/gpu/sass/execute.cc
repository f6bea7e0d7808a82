#include "trap/gpu/sass/execute.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/gpu/sass/run_warp.h"

namespace phantora::sass {
namespace {

// What the bytes after a bank's end may be read as: the second half of something wide.
constexpr size_t kSlack = 16;
// A block that takes more warp instructions than this may be waiting for the next one.
constexpr uint64_t kTurnOfBlock = 1 << 18, kLeastTurnOfBlock = 256;
// Nobody in a cluster has done anything else than to look so many times: nobody ever will. They may
// count their looks, and go on.
constexpr uint32_t kMostLooks = 1 << 12;
// Clusters that are under way at one time, and blocks that are kept for the next launch.
constexpr size_t kMostBlocks = 256;
constexpr size_t kMostIdle = 2;
// Of this machine, for what a launch writes.
constexpr uint64_t kMostBytes = uint64_t{4} << 30;
// Thread instructions: some milliseconds.
constexpr uint64_t kBetweenQuestions = 10'000'000;
constexpr uint64_t kMostThreads = 1024;
constexpr uint32_t kMostShared = 1 << 18;
// On sm_90 the addresses of shared memory begin behind what the hardware keeps for itself.
constexpr uint32_t kReservedShared = 1024;

constexpr uint64_t kClusterWindow = uint64_t{1} << 32;
constexpr uint64_t kSharedWindow = 0x7f4000000000, kLocalWindow = 0x7f5000000000;

// Launches that say nothing of clusters have none.
Dims AtLeastOne(const Dims& dims) {
  return {std::max(dims.x, 1u), std::max(dims.y, 1u), std::max(dims.z, 1u)};
}
// A grid consists of whole clusters.
bool IsPossible(const Dims& grid, const Dims& cluster) {
  return cluster.count() >= 1 && cluster.count() <= kMostBlocksOfCluster &&
         grid.x % cluster.x == 0 && grid.y % cluster.y == 0 && grid.z % cluster.z == 0;
}

}  // namespace

struct Executor::Block {
  BlockState state;
  WarpState now = WarpState::kPaused;
  std::vector<std::unique_ptr<Warp>> all;  // that were made
  std::vector<Warp*> warps;                // of this block
  std::vector<WarpState> states;

  void Start(LaunchState& launch, Dims index, ClusterState& cluster) {
    state.index = index;
    state.cluster = &cluster;
    state.rank = static_cast<uint32_t>(cluster.blocks.size());
    cluster.blocks.push_back(&state);
    now = WarpState::kPaused;
    state.shared.assign(launch.shared_bytes, 0);
    state.barriers = {};
    state.warpgroups = {};
    const uint64_t threads = launch.block.count();
    state.living = static_cast<uint32_t>(threads);
    const size_t count = (threads + kLanes - 1) / kLanes;
    state.warps = static_cast<uint32_t>(count);
    while (all.size() < count) all.push_back(std::make_unique<Warp>());
    warps.clear();
    for (size_t i = 0; i < count; ++i) {
      all[i]->Start(launch, state, static_cast<uint32_t>(i));
      warps.push_back(all[i].get());
    }
    states.assign(count, WarpState::kPaused);
  }

  // kExited when all are, kPaused after `most` instructions, kLooking when nobody does anything but
  // look whether others have done something.
  WarpState Run(const Program& program, uint64_t most, Stop& stop) {
    LaunchState& launch = *warps.front()->launch;
    const uint64_t end = launch.clock + most;
    for (;;) {
      bool any = false, any_works = false, all_exited = true;
      const uint64_t events = launch.events;
      for (size_t i = 0; i < warps.size(); ++i) {
        if (states[i] == WarpState::kPaused || states[i] == WarpState::kLooking) {
          any = true;
          // A part of its turn: others of its block may be what it waits for.
          states[i] = RunWarp(*warps[i], program, std::max<uint64_t>(most / 8, 1));
          if (states[i] == WarpState::kStopped) {
            stop = warps[i]->stop;
            return WarpState::kStopped;
          }
          any_works |= states[i] != WarpState::kLooking;
        }
        all_exited &= states[i] == WarpState::kExited;
      }
      if (all_exited) return WarpState::kExited;
      if (ReleaseBarriers(warps, state)) {
        any_works = true;
        for (size_t i = 0; i < warps.size(); ++i) {
          if (states[i] == WarpState::kWaiting) states[i] = WarpState::kPaused;
        }
      } else if (!any) {
        stop = {.reason = Stop::Reason::kDeadlock, .instruction = FirstWaiting()};
        return WarpState::kStopped;
      }
      if (!any_works && events == launch.events) return WarpState::kLooking;
      if (launch.clock >= end) return WarpState::kPaused;
    }
  }

  uint32_t FirstWaiting() const {
    for (const Warp* warp : warps) {
      if (!warp->paths.empty()) return warp->paths.front().pc;
    }
    return 0;
  }
};

// Blocks that run together, since each may wait for any other.
struct Executor::Cluster {
  ClusterState state;
  std::vector<std::unique_ptr<Block>> blocks;
  uint32_t looks = 0;  // in a row, in which nothing happened

  WarpState Run(const Program& program, uint64_t most, Stop& stop) {
    LaunchState& launch = *blocks.front()->warps.front()->launch;
    const uint64_t end = launch.clock + most;
    for (;;) {
      bool all_exited = true, all_look = true;
      const uint64_t events = launch.events;
      for (const auto& block : blocks) {
        if (block->now == WarpState::kExited) continue;
        block->now = block->Run(program, std::max<uint64_t>(most / blocks.size(), 1), stop);
        if (block->now == WarpState::kStopped) return WarpState::kStopped;
        all_exited &= block->now == WarpState::kExited;
        all_look &= block->now == WarpState::kLooking;
      }
      if (all_exited) return WarpState::kExited;
      looks = all_look && events == launch.events ? looks + 1 : 0;
      if (looks == kMostLooks) {
        for (const auto& block : blocks) {
          if (block->now == WarpState::kExited) continue;
          stop = {.reason = Stop::Reason::kDeadlock, .instruction = block->FirstWaiting()};
          return WarpState::kStopped;
        }
      }
      if (launch.clock >= end) return WarpState::kPaused;
    }
  }
};

Executor::Executor() : zeros_(kConstantBytes + kSlack) {
  for (auto& bank : banks_) bank.resize(kConstantBytes + kSlack);
}
Executor::~Executor() = default;

std::unique_ptr<Executor::Block> Executor::NewBlock() {
  if (idle_.empty()) return std::make_unique<Block>();
  auto block = std::move(idle_.back());
  idle_.pop_back();
  return block;
}

std::unique_ptr<Executor::Cluster> Executor::NewCluster(LaunchState& launch, uint64_t number) {
  auto cluster = std::make_unique<Cluster>();
  const Dims& size = launch.cluster;
  const uint64_t across = launch.grid.x / size.x, down = launch.grid.y / size.y;
  const Dims first = {static_cast<uint32_t>(number % across) * size.x,
                      static_cast<uint32_t>(number / across % down) * size.y,
                      static_cast<uint32_t>(number / across / down) * size.z};
  for (uint32_t rank = 0; rank < size.count(); ++rank) {
    auto block = NewBlock();
    block->Start(launch,
                 {first.x + rank % size.x, first.y + rank / size.x % size.y,
                  first.z + rank / size.x / size.y},
                 cluster->state);
    cluster->blocks.push_back(std::move(block));
  }
  return cluster;
}

Outcome Executor::Run(const Launch& launch, const Program& program, AddressSpace& space,
                      uint64_t most, const std::function<bool()>& interrupted) {
  Outcome outcome;
  LaunchMemory memory(space, kMostBytes);
  LaunchState state = {
      .architecture = program.architecture(),
      .grid = launch.grid,
      .block = launch.block,
      .cluster = AtLeastOne(launch.cluster),
      // What was in registers before is another launch's, of another process perhaps.
      .registers = program.registers(),
      .shared_bytes = launch.shared_bytes,
      .shared_window = launch.shared_window != 0 ? launch.shared_window : kSharedWindow,
      .local_window = launch.local_window != 0 ? launch.local_window : kLocalWindow,
      .memory = &memory,
      .code_address = launch.code_address,
      .began = launch.began};
  if (state.architecture >= 90) state.shared_bytes += kReservedShared;
  const uint64_t threads = launch.block.count(), blocks = launch.grid.count();
  if (threads == 0 || threads > kMostThreads || state.shared_bytes > kMostShared ||
      !IsPossible(launch.grid, state.cluster) ||
      // Windows of a cluster's blocks lie one after the other.
      (state.cluster.count() > 1 && state.shared_window % kClusterWindow != 0)) {
    outcome.stop = {.reason = Stop::Reason::kRefused, .what = "a launch of this shape"};
    return outcome;
  }
  state.constants.fill(zeros_.data());
  for (size_t bank = 0; bank < banks_.size(); ++bank) {
    const auto& from = launch.constants[bank];
    const size_t bytes = std::min<size_t>(from.size(), kConstantBytes);
    std::copy_n(from.begin(), bytes, banks_[bank].begin());
    if (used_[bank] > bytes) std::memset(&banks_[bank][bytes], 0, used_[bank] - bytes);
    used_[bank] = bytes;
    state.constants[bank] = banks_[bank].data();
  }

  std::deque<std::unique_ptr<Cluster>> running;
  const uint64_t of_cluster = state.cluster.count(), clusters = blocks / of_cluster;
  uint64_t started = 0, finished = 0, next_question = kBetweenQuestions;
  const uint64_t turn = std::clamp(most / kLanes, kLeastTurnOfBlock, kTurnOfBlock);
  const auto give_back = [&](Cluster& cluster) {
    for (auto& block : cluster.blocks) {
      for (Warp* warp : block->warps) warp->End();
      if (idle_.size() < std::max<size_t>(kMostIdle, of_cluster)) idle_.push_back(std::move(block));
    }
  };
  while (finished < clusters) {
    if (started < clusters && (running.empty() || running.size() * of_cluster < kMostBlocks)) {
      running.push_back(NewCluster(state, started));
      ++started;
    } else {
      // The one that has waited longest.
      running.push_back(std::move(running.front()));
      running.pop_front();
    }
    const WarpState now = running.back()->Run(program, turn, outcome.stop);
    // An instruction counts also where all threads of the warp are guarded out.
    outcome.thread_instructions = std::max(state.thread_instructions, state.clock);
    if (now == WarpState::kStopped) break;
    if (now == WarpState::kExited) {
      give_back(*running.back());
      running.pop_back();
      ++finished;
    }
    if (outcome.thread_instructions > next_question) {
      next_question = outcome.thread_instructions + kBetweenQuestions;
      if (interrupted()) {
        outcome.stop = {.reason = Stop::Reason::kInterrupted};
        break;
      }
    }
    if (finished < clusters && outcome.thread_instructions > most) {
      outcome.stop = {.reason = Stop::Reason::kTooLong};
      break;
    }
  }
  for (auto& cluster : running) give_back(*cluster);
  if (!outcome.done()) return outcome;
  if (const auto fault = memory.Commit()) {
    outcome.stop = {.reason = Stop::Reason::kUnmapped, .address = *fault};
  }
  return outcome;
}

std::string Describe(const Outcome& outcome, const Program& program) {
  const Stop& stop = outcome.stop;
  const char* what = "";
  switch (stop.reason) {
    case Stop::Reason::kNone:
      return "done";
    case Stop::Reason::kTooLong:
      return absl::StrFormat("takes more than %d thread instructions", outcome.thread_instructions);
    case Stop::Reason::kInterrupted:
      return "the run was to end";
    case Stop::Reason::kUnmapped:
      what = "an address that is not mapped";
      break;
    case Stop::Reason::kMisaligned:
      what = "a misaligned address";
      break;
    case Stop::Reason::kOutOfRange:
      what = "beyond the end of its memory";
      break;
    case Stop::Reason::kTrap:
      what = "a trap";
      break;
    case Stop::Reason::kBadTarget:
      what = "a jump out of its code";
      break;
    case Stop::Reason::kDeadlock:
      what = "threads that wait for each other";
      break;
    case Stop::Reason::kNoMemory:
      what = "writes more than this machine has memory for";
      break;
    case Stop::Reason::kRefused:
      what = stop.what;
      break;
  }
  std::string text = absl::StrFormat("%s at instruction 0x%x", what, stop.instruction * kWordBytes);
  if (stop.reason == Stop::Reason::kRefused && stop.instruction < program.size() &&
      !program.IsUnderstood(stop.instruction)) {
    const Word word = program.data()[stop.instruction].word;
    text = absl::StrFormat("%s: %03x (%016x %016x) at instruction 0x%x",
                           program.Refusal(stop.instruction), word.low & 0xfff, word.low, word.high,
                           stop.instruction * kWordBytes);
  } else if (stop.address != 0) {
    text += absl::StrFormat(", 0x%x", stop.address);
  }
  return text;
}

}  // namespace phantora::sass
