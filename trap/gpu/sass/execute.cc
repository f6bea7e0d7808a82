#include "trap/gpu/sass/execute.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/gpu/sass/block.h"

namespace phantora::sass {
namespace {

// What the bytes after a bank's end may be read as: the second half of something wide.
constexpr size_t kSlack = 16;
// A block that takes more warp instructions than this may be waiting for the next one.
constexpr uint64_t kTurnOfBlock = 1 << 18, kLeastTurnOfBlock = 256;
// Of a launch in which all wait for all again and again.
constexpr uint64_t kTurnTogether = 1 << 12;
// This machine's memory for a launch whose blocks are all under way at one time.
constexpr uint64_t kMostTogether = uint64_t{2} << 30;
// Clusters that are under way at one time, and blocks that are kept for the next launch.
constexpr size_t kMostBlocks = 256;
constexpr size_t kMostIdle = 2;
// Of this machine, for what a launch writes.
constexpr uint64_t kMostBytes = uint64_t{4} << 30;
// Thread instructions: some milliseconds.
constexpr uint64_t kBetweenQuestions = 10'000'000;
// Parts that may be executed at one time: thread instructions of one, fewer are not worth it; how
// many there are; and bytes of local memory of one.
constexpr uint64_t kLeastOfPart = 500'000, kMostParts = 32, kMostLocalOfPart = 64 << 20;
// Of clusters that are tried besides those at the ends of the grid: between so many equal parts.
constexpr uint64_t kOthersTried = 4;
constexpr size_t kMostRanges = 1 << 18;  // of one
// Bytes that a cluster which is watched may have written.
constexpr uint64_t kMostWatched = 64 << 20;
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

// Of this machine's memory, while it is under way.
uint64_t BytesOfBlock(const Launch& launch) {
  return (launch.block.count() + kLanes - 1) / kLanes * sizeof(Warp) + launch.shared_bytes;
}

std::vector<std::pair<uint32_t, uint32_t>> RangesOf(const ConstantsNoted& noted) {
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  for (auto byte = static_cast<uint32_t>(noted._Find_first()); byte < noted.size();) {
    uint32_t end = byte + 1;
    while (end < noted.size() && noted.test(end)) ++end;
    ranges.emplace_back(byte, end);
    byte = static_cast<uint32_t>(noted._Find_next(end - 1));
  }
  return ranges;
}

}  // namespace

// Some of a launch's clusters, one after the other.
struct Executor::Part {
  Part(LaunchPages& pages, const LaunchState& launch, uint64_t first, uint64_t end_of_all)
      : memory(pages), state(launch), next(first), left(end_of_all - first), end(end_of_all) {
    state.memory = &memory;
  }

  // Clusters until all are over, one stops, or `enough` says so after a turn.
  template <typename Enough>
  void Run(const Program& program, uint64_t turn, std::vector<std::unique_ptr<Block>>& idle,
           Enough enough) {
    const uint64_t of_cluster = state.cluster.count();
    while (left > 0) {
      if (next < end &&
          (running.empty() || together || running.size() * of_cluster < kMostBlocks)) {
        running.push_back(std::make_unique<Cluster>(state, next++, idle));
      } else {
        // The one that has waited longest.
        running.push_back(std::move(running.front()));
        running.pop_front();
      }
      const WarpState now = running.back()->Run(program, turn, stop);
      if (now == WarpState::kStopped) return;
      if (now == WarpState::kExited) {
        running.back()->End(idle, IdleBlocks());
        running.pop_back();
        --left;
      }
      if (left > 0 && enough()) return;
    }
  }
  void End(std::vector<std::unique_ptr<Block>>& idle) {
    for (const auto& cluster : running) cluster->End(idle, IdleBlocks());
    running.clear();
  }
  // An instruction counts also where all threads of the warp are guarded out.
  uint64_t thread_instructions() const { return std::max(state.thread_instructions, state.clock); }
  size_t IdleBlocks() const { return std::max<size_t>(kMostIdle, state.cluster.count()); }

  LaunchMemory memory;
  LaunchState state;
  bool together = false;
  uint64_t next, left;  // to begin, and to finish
  uint64_t end;
  std::deque<std::unique_ptr<Cluster>> running;
  Stop stop;
};

Executor::Executor(int processors)
    : zeros_(kConstantBytes + kSlack),
      workers_(std::clamp(processors, 1, static_cast<int>(kMostParts))) {
  for (auto& bank : banks_) bank.resize(kConstantBytes + kSlack);
  idle_.resize(static_cast<size_t>(workers_.count()));
}
Executor::~Executor() = default;

bool Executor::StateOf(const Launch& launch, const Program& program, LaunchState& state) {
  state.architecture = program.architecture();
  state.grid = launch.grid;
  state.block = launch.block;
  state.cluster = AtLeastOne(launch.cluster);
  // What was in registers before is another launch's, of another process perhaps.
  state.registers = program.registers();
  state.convergence_registers = program.convergence_registers();
  state.shared_bytes = launch.shared_bytes;
  state.shared_window = launch.shared_window != 0 ? launch.shared_window : kSharedWindow;
  state.local_window = launch.local_window != 0 ? launch.local_window : kLocalWindow;
  state.code_address = launch.code_address;
  state.began = launch.began;
  if (state.architecture >= 90) state.shared_bytes += kReservedShared;
  const uint64_t threads = launch.block.count();
  if (threads == 0 || threads > kMostThreads || state.shared_bytes > kMostShared ||
      !IsPossible(launch.grid, state.cluster) ||
      // Windows of a cluster's blocks lie one after the other.
      (state.cluster.count() > 1 && state.shared_window % kClusterWindow != 0)) {
    return false;
  }
  state.constants_address = launch.constants_address;
  state.constants.fill(zeros_.data());
  for (size_t bank = 0; bank < banks_.size(); ++bank) {
    const auto& from = launch.constants[bank];
    const size_t bytes = std::min<size_t>(from.size(), kConstantBytes);
    std::copy_n(from.begin(), bytes, banks_[bank].begin());
    if (used_[bank] > bytes) std::memset(&banks_[bank][bytes], 0, used_[bank] - bytes);
    used_[bank] = bytes;
    state.constants[bank] = banks_[bank].data();
  }
  return true;
}

Outcome Executor::Run(const Launch& launch, const Program& program, AddressSpace& space,
                      uint64_t most, const std::function<bool()>& interrupted) {
  LaunchState state;
  if (!StateOf(launch, program, state)) {
    return {.stop = {.reason = Stop::Reason::kRefused, .what = "a launch of this shape"}};
  }
  if (launch.together && launch.grid.count() > kMostTogether / BytesOfBlock(launch)) {
    return {.stop = {.reason = Stop::Reason::kRefused,
                     .what = "a cooperative launch of so many blocks"}};
  }
  const uint64_t clusters = launch.grid.count() / state.cluster.count();
  const uint64_t turn =
      std::clamp(most / kLanes, kLeastTurnOfBlock, launch.together ? kTurnTogether : kTurnOfBlock);
  bool first_only = !program.needs_order() && !launch.together;
  for (;;) {
    LaunchPages pages(space, pool_, kMostBytes, launch.tracking, false, launch.check);
    Part all(pages, state, 0, clusters);
    all.together = launch.together;
    Stop why;
    uint64_t next_question = kBetweenQuestions;
    const auto enough = [&] {
      const uint64_t instructions = all.thread_instructions();
      if (instructions > next_question) {
        next_question = instructions + kBetweenQuestions;
        if (interrupted()) why.reason = Stop::Reason::kInterrupted;
      }
      if (instructions > most) why.reason = Stop::Reason::kTooLong;
      return why.reason != Stop::Reason::kNone || (first_only && all.left + 1 == clusters);
    };
    all.Run(program, turn, idle_[0], enough);
    if (first_only && all.left > 0 && why.reason == Stop::Reason::kNone &&
        all.stop.reason == Stop::Reason::kNone) {
      // The first cluster tells what all will take.
      first_only = false;
      const uint64_t expected = all.thread_instructions() * clusters;
      if (all.running.empty() && !all.state.met_order && expected >= 2 * kLeastOfPart &&
          expected <= most) {
        if (auto outcome = RunInParts(all, pages, state, program, most, expected, interrupted)) {
          return *outcome;
        }
        continue;  // from the beginning, in order
      }
      all.Run(program, turn, idle_[0], enough);
    }
    all.End(idle_[0]);
    if (all.state.met_order) program.NeedsOrder();
    Outcome outcome = {.stop = all.stop.reason != Stop::Reason::kNone ? all.stop : why,
                       .thread_instructions = all.thread_instructions(),
                       .wrong = all.memory.wrong()};
    if (outcome.done() || (launch.keeps_trapped && outcome.stop.reason == Stop::Reason::kTrap)) {
      LaunchMemory* const memory = &all.memory;
      Commit({&memory, 1}, outcome);
    }
    return outcome;
  }
}

std::optional<Outcome> Executor::RunInParts(Part& first, LaunchPages& pages,
                                            const LaunchState& state, const Program& program,
                                            uint64_t most, uint64_t expected,
                                            const std::function<bool()>& interrupted) {
  const uint64_t clusters = first.end;
  // By what is executed, not by who executes it: what threads see of each other where they must not
  // look is the same on every machine.
  const uint64_t count = std::min({expected / kLeastOfPart, kMostParts, clusters});
  // What has begun is the first.
  std::vector<std::unique_ptr<Part>> others;
  std::vector<Part*> parts = {&first};
  first.end = clusters / count;
  first.left -= clusters - first.end;
  for (uint64_t number = 1; number < count; ++number) {
    others.push_back(std::make_unique<Part>(pages, state, clusters * number / count,
                                            clusters * (number + 1) / count));
    parts.push_back(others.back().get());
  }
  for (Part* part : parts) {
    part->state.is_part = true;
    part->state.most_local = kMostLocalOfPart;
  }
  const uint64_t turn = std::clamp(most / kLanes, kLeastTurnOfBlock, kTurnOfBlock);
  std::atomic<size_t> next = 0;
  std::atomic<bool> give_up = false, was_interrupted = false;
  std::atomic<uint64_t> total = 0;
  const auto ask = [&] {
    if (!was_interrupted.load(std::memory_order_relaxed) && interrupted()) {
      was_interrupted = give_up = true;
    }
  };
  workers_.Run(
      [&](int worker) {
        auto& idle = idle_[static_cast<size_t>(worker)];
        for (;;) {
          const size_t number = next.fetch_add(1);
          if (number >= parts.size() || give_up) return;
          Part& part = *parts[number];
          uint64_t counted = 0, next_question = kBetweenQuestions;
          const auto enough = [&] {
            const uint64_t now = part.thread_instructions();
            if (total.fetch_add(now - counted) + now - counted > most) give_up = true;
            counted = now;
            if (worker == 0 && now > next_question) {
              next_question = now + kBetweenQuestions;
              ask();
            }
            return give_up.load(std::memory_order_relaxed);
          };
          part.Run(program, turn, idle, enough);
          total += part.thread_instructions() - counted;
          if (part.left > 0 || part.stop.reason != Stop::Reason::kNone) give_up = true;
          part.End(idle);
        }
      },
      ask);
  if (was_interrupted) {
    return Outcome{.stop = {.reason = Stop::Reason::kInterrupted}, .thread_instructions = total};
  }
  Outcome outcome;
  std::vector<LaunchMemory*> memories;
  for (Part* part : parts) {
    if (part->state.met_order) program.NeedsOrder();
    outcome.thread_instructions += part->thread_instructions();
    memories.push_back(&part->memory);
    const std::vector<WrongAccess>& wrong = part->memory.wrong();
    outcome.wrong.insert(outcome.wrong.end(), wrong.begin(), wrong.end());
  }
  // Whatever went wrong, only in order is it what would have come first.
  if (give_up || outcome.thread_instructions > most) return std::nullopt;
  Commit(memories, outcome);
  return outcome;
}

Sample Executor::Try(const Launch& launch, const Program& program, AddressSpace& space,
                     uint64_t most, uint64_t most_of_all,
                     const std::function<bool()>& interrupted) {
  Sample sample;
  LaunchState state;
  const auto noted = std::make_unique<ConstantsNoted>();
  if (launch.together || !StateOf(launch, program, state)) {
    sample.is_complete = false;
    return sample;
  }
  const Dims grid = {launch.grid.x / state.cluster.x, launch.grid.y / state.cluster.y,
                     launch.grid.z / state.cluster.z};
  sample.clusters = grid.count();
  if (sample.clusters == 0) return sample;
  state.constants_noted = noted.get();
  std::vector<uint64_t> chosen;
  for (const uint32_t x : {0u, grid.x - 1}) {
    for (const uint32_t y : {0u, grid.y - 1}) {
      for (const uint32_t z : {0u, grid.z - 1}) {
        chosen.push_back(x + uint64_t{grid.x} * (y + uint64_t{grid.y} * z));
      }
    }
  }
  for (uint64_t part = 1; part < kOthersTried; ++part) {
    chosen.push_back(sample.clusters * part / kOthersTried);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  for (const uint64_t number : chosen) {
    if (!TryPart(state, program, space, number, number + 1, most, interrupted, sample)) {
      sample.is_complete = false;
      break;
    }
  }
  sample.is_complete &= !state.met_order || sample.clusters == 1;
  if (chosen.size() == sample.clusters && sample.is_complete) {
    sample.is_all = true;
  } else if (sample.thread_instructions / chosen.size() * sample.clusters <=
             (state.met_order ? most : most_of_all)) {
    Sample all;
    all.clusters = sample.clusters;
    TryPart(state, program, space, 0, sample.clusters, most, interrupted, all);
    all.thread_instructions += sample.thread_instructions;
    if (all.is_complete) {
      all.is_all = true;
      all.constants_read = RangesOf(*noted);
      return all;
    }
    sample.thread_instructions = all.thread_instructions;
  }
  sample.constants_read = RangesOf(*noted);
  std::sort(sample.written.begin(), sample.written.end());
  std::vector<std::pair<uint64_t, uint64_t>> apart;
  for (const auto& range : sample.written) {
    if (!apart.empty() && range.first <= apart.back().second) {
      apart.back().second = std::max(apart.back().second, range.second);
    } else {
      apart.push_back(range);
    }
  }
  sample.written = std::move(apart);
  return sample;
}

std::optional<Watched> Executor::Watch(const Launch& launch, const Program& program,
                                       AddressSpace& space, uint64_t number, uint64_t instructions,
                                       const std::function<bool()>& interrupted) {
  LaunchState state;
  if (launch.together || !StateOf(launch, program, state) ||
      number >= launch.grid.count() / state.cluster.count()) {
    return std::nullopt;
  }
  const auto noted = std::make_unique<ConstantsNoted>();
  state.constants_noted = noted.get();
  constexpr bool kNotesReads = true;
  LaunchPages pages(space, pool_, kMostBytes, Tracking::kTainted, kNotesReads);
  Part part(pages, state, number, number + 1);
  uint64_t next_question = kBetweenQuestions;
  part.Run(program, std::clamp(instructions / kLanes, kLeastTurnOfBlock, kTurnOfBlock), idle_[0],
           [&] {
             const uint64_t now = part.thread_instructions();
             if (now > next_question) {
               next_question = now + kBetweenQuestions;
               if (interrupted()) return true;
             }
             return now > instructions;
           });
  part.End(idle_[0]);
  Watched watched = {.constants_read = RangesOf(*noted),
                     .thread_instructions = part.thread_instructions()};
  if (part.stop.reason != Stop::Reason::kNone ||
      !part.memory.ReadRanges(kMostRanges, watched.read) ||
      !part.memory.WrittenRanges(kMostRanges, watched.written)) {
    return std::nullopt;
  }
  uint64_t all = 0;
  for (const auto& [begin, end] : watched.written) all += end - begin;
  if (all > kMostWatched) return std::nullopt;
  for (const auto& [begin, end] : watched.written) {
    for (uint64_t at = begin; at < end;) {
      const uint64_t bytes = std::min(end - at, PagePool::kPage - at % PagePool::kPage);
      const uint8_t* const from = part.memory.Read(at, bytes);
      watched.bytes.insert(watched.bytes.end(), from, from + bytes);
      at += bytes;
    }
  }
  return watched;
}

bool Executor::TryPart(LaunchState& state, const Program& program, AddressSpace& space,
                       uint64_t first, uint64_t end, uint64_t most,
                       const std::function<bool()>& interrupted, Sample& sample) {
  LaunchPages pages(space, pool_, kMostBytes, Tracking::kTainted);
  Part part(pages, state, first, end);
  bool gave_up = false;
  uint64_t next_question = kBetweenQuestions;
  part.Run(program, std::clamp(most / kLanes, kLeastTurnOfBlock, kTurnOfBlock), idle_[0], [&] {
    const uint64_t instructions = part.thread_instructions();
    if (instructions > next_question) {
      next_question = instructions + kBetweenQuestions;
      gave_up = interrupted();
    }
    return gave_up |= sample.thread_instructions + instructions > most;
  });
  part.End(idle_[0]);
  state.met_order |= part.state.met_order;
  sample.thread_instructions += part.thread_instructions();
  sample.is_complete &= part.left == 0;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  if (!part.memory.WrittenRanges(kMostRanges, ranges)) sample.is_complete = false;
  uint64_t bytes = 0;
  for (const auto& [from, to] : ranges) bytes += to - from;
  sample.written.insert(sample.written.end(), ranges.begin(), ranges.end());
  if (bytes > sample.most_of_cluster) {
    sample.most_of_cluster = bytes;
    sample.of_one = std::move(ranges);
  }
  return !gave_up && sample.thread_instructions <= most;
}

void Executor::Commit(absl::Span<LaunchMemory* const> parts, Outcome& outcome) {
  if (const auto fault = LaunchMemory::Commit(parts, outcome.host_bytes)) {
    outcome.stop = {.reason = Stop::Reason::kUnmapped, .address = *fault};
  }
}

uint32_t TrapNumber(const Word& word) { return static_cast<uint32_t>(word.low >> 34 & 0xfffff); }

std::string Describe(const Outcome& outcome, const Program& program) {
  const Stop& stop = outcome.stop;
  const char* what = "";
  switch (stop.reason) {
    case Stop::Reason::kNone:
      return "done";
    case Stop::Reason::kTooLong:
      return absl::StrFormat("takes more than %d thread instructions", outcome.thread_instructions);
    case Stop::Reason::kInterrupted:
      return "the run or its process ended";
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
    case Stop::Reason::kTainted:
      what = "it reads what was not made";
      break;
    case Stop::Reason::kOrder:
      what = "blocks that see each other";
      break;
    case Stop::Reason::kBadTarget:
      what = "a jump out of its code";
      break;
    case Stop::Reason::kElsewhere:
      what = "a call of what is not in its code";
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
  // From the beginning of the kernel, or an address where the code lies elsewhere.
  const uint64_t at = program.AddressOf(stop.instruction, 0);
  std::string text = absl::StrFormat("%s at instruction 0x%x", what, at);
  if (stop.reason == Stop::Reason::kTrap && stop.instruction < program.size()) {
    text += absl::StrFormat(" (%d)", TrapNumber(program.data()[stop.instruction].word));
  }
  if (stop.reason == Stop::Reason::kRefused && stop.instruction < program.size() &&
      !program.IsUnderstood(stop.instruction)) {
    const Word word = program.data()[stop.instruction].word;
    text = absl::StrFormat("%s: %03x (%016x %016x) at instruction 0x%x",
                           program.Refusal(stop.instruction), word.low & 0xfff, word.low, word.high,
                           at);
  } else if (stop.address != 0) {
    text += absl::StrFormat(", 0x%x", stop.address);
  }
  return text;
}

}  // namespace phantora::sass
