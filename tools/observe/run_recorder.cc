#include "tools/observe/run_recorder.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/known_kernel.h"

namespace phantora {
namespace {

constexpr size_t kMostNames = 10000;
// Ranks whose launches are kept to find steps, some MiB each.
constexpr size_t kMostViews = 64;

const char* TraceName(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return "copy host to device";
    case CopyKind::kDeviceToHost:
      return "copy device to host";
    case CopyKind::kInDevice:
      return "copy in device memory";
    case CopyKind::kHostToHost:
      return "copy host to host";
    case CopyKind::kFill:
      return "fill";
    case CopyKind::kPeer:
      return "copy between GPUs";
  }
  return "copy";
}

const char* FamilyOf(const WorkObserver::Code& code) {
  if (code.internal != nullptr) return "libcuda";
  return phantora::Name(code.kernel != nullptr ? code.kernel->rule.family() : WorkFamily::kUnknown);
}

// What NCCL's kernels are called here, and engines' own for small messages.
bool IsCommunication(const WorkObserver::Code& code) {
  if (code.internal != nullptr) return absl::StartsWith(code.internal, "NCCL");
  return code.kernel != nullptr && code.kernel->rule.family() == WorkFamily::kPeers;
}

StepView::Work Viewed(const WorkObserver::Work& work, StepView::Kind kind) {
  return {.start = work.start,
          .end = work.start + work.duration,
          .channel = static_cast<uint64_t>(work.gpu) << 32 | work.channel,
          .kind = kind,
          .flops = work.flops};
}

}  // namespace

RunRecorder::Rank& RunRecorder::Of(pid_t process) {
  Rank*& rank = alive_[process];
  if (rank != nullptr) return *rank;
  const std::optional<int> given = options_.launcher_rank(process);
  int number = given.value_or(0);
  while (!numbers_.insert(number).second) ++number;
  std::string name = absl::StrCat(given ? "rank " : "process ", given.value_or(number));
  if (given && number != *given) absl::StrAppend(&name, " (another process)");
  ranks_.push_back(
      std::make_unique<Rank>(Rank{number, std::move(name), process, RankStatistics(options_.start),
                                  nullptr, nullptr, std::nullopt}));
  if (ranks_.size() <= kMostViews) ranks_.back()->view = std::make_unique<StepView>();
  rank = ranks_.back().get();
  if (trace_ != nullptr) {
    rank->trace = std::make_unique<TimelineTrace>(trace_.get(), number, rank->name);
  }
  return *rank;
}

const std::string& RunRecorder::NameOf(const Code& code) {
  if (names_.size() >= kMostNames) names_.clear();
  if (code.kernel != nullptr) return code.kernel->title;
  std::string& name = names_[code.fingerprint];
  if (name.empty()) name = absl::StrFormat("kernel %08x", code.fingerprint >> 32);
  return name;
}

void RunRecorder::Kernel(const Work& work, const Qmd& launch, const Code& code) {
  Rank& rank = Of(work.process);
  const bool internal = code.internal != nullptr;
  const std::string name = internal ? code.internal : NameOf(code);
  rank.statistics.Kernel(work, name, internal);
  if (rank.view != nullptr) {
    rank.view->Add(Viewed(work, IsCommunication(code) ? StepView::Kind::kCommunication
                                                      : StepView::Kind::kCompute),
                   name);
  }
  if (rank.trace == nullptr) return;
  rank.trace->Work(
      work.gpu, work.channel, SinceStart(work.start), SinceStart(work.start + work.duration),
      "kernel", name,
      absl::StrFormat(R"("grid":[%d,%d,%d],"block":[%d,%d,%d],"registers":%d,"shared_bytes":%d,)"
                      R"("family":"%s","flops":%.0f,"bytes":%.0f,"time":"%s")",
                      launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y,
                      launch.block.z, launch.registers, launch.shared_bytes, FamilyOf(code),
                      work.flops, work.bytes, Name(work.source)));
}

void RunRecorder::Copy(const Work& work, uint64_t bytes, CopyKind kind) {
  Rank& rank = Of(work.process);
  rank.statistics.Copy(work, bytes, kind);
  if (rank.view != nullptr) rank.view->Add(Viewed(work, StepView::Kind::kCopy), TraceName(kind));
  if (rank.trace == nullptr) return;
  rank.trace->Work(work.gpu, work.channel, SinceStart(work.start),
                   SinceStart(work.start + work.duration), "copy", TraceName(kind),
                   absl::StrFormat(R"("bytes":%d,"time":"%s")", bytes, Name(work.source)));
}

void RunRecorder::VideoMemory(pid_t process, int gpu, int64_t bytes) {
  if (bytes < 0 && !alive_.contains(process)) return;  // of one that has ended
  Rank& rank = Of(process);
  const VirtualTime now = std::max(options_.now(process), options_.start);
  rank.statistics.Memory(now, bytes);
  if (rank.view != nullptr) rank.view->Memory(now, rank.statistics.memory());
  if (rank.trace != nullptr) rank.trace->Memory(SinceStart(now), rank.statistics.memory());
}

void RunRecorder::Wait(pid_t process, VirtualTime since, VirtualTime until) {
  Rank& rank = Of(process);
  if (rank.trace != nullptr) rank.trace->Wait(SinceStart(since), SinceStart(until));
}

void RunRecorder::End(pid_t process, VirtualSpan elapsed, VirtualSpan waited) {
  const auto it = alive_.find(process);
  if (it == alive_.end()) return;
  Rank& rank = *it->second;
  alive_.erase(it);
  rank.statistics.End(elapsed, waited);
  if (rank.view != nullptr) rank.steps = std::exchange(rank.view, nullptr)->Find();
  if (rank.trace != nullptr && rank.statistics.memory() != 0) rank.trace->Memory(elapsed, 0);
  rank.trace.reset();
}

absl::Status RunRecorder::Close() {
  alive_.clear();
  for (const auto& rank : ranks_) rank->trace.reset();
  return trace_ == nullptr ? absl::OkStatus() : std::exchange(trace_, nullptr)->Close();
}

std::vector<const RunRecorder::Rank*> RunRecorder::ranks() const {
  std::vector<const Rank*> ranks;
  for (const auto& rank : ranks_) ranks.push_back(rank.get());
  std::sort(ranks.begin(), ranks.end(),
            [](const Rank* a, const Rank* b) { return a->number < b->number; });
  return ranks;
}

}  // namespace phantora
