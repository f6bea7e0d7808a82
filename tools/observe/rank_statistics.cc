#include "tools/observe/rank_statistics.h"

#include <algorithm>

namespace phantora {
namespace {

// A hostile rank can make up code without end.
constexpr size_t kMostKernels = 10000;
constexpr char kOthers[] = "other kernels";

void Add(VirtualSpan span, VirtualSpan& sum) { sum = sum + span; }

void AddTo(const KernelSums& more, KernelSums& sums) {
  sums.name = more.name;
  sums.count += more.count;
  Add(more.time, sums.time);
  for (int i = 0; i < kPriceSources; ++i) Add(more.by_source[i], sums.by_source[i]);
}

}  // namespace

void RankStatistics::Work(const WorkObserver::Work& work) {
  gpus_.insert(work.gpu);
  Add(work.duration, by_source_[static_cast<int>(work.source)]);
  error_s_ += static_cast<double>(work.duration.picoseconds()) * 1e-12 * work.error;
  busy_.Add(work.start, work.start + work.duration, [this](VirtualTime from, VirtualTime to) {
    busy_bins_.Add(from - start_, to - start_);
  });
}

double RankStatistics::error() const {
  const auto all = static_cast<double>(Total(by_source_).picoseconds()) * 1e-12;
  return all > 0 ? error_s_ / all : 0;
}

void RankStatistics::Kernel(const WorkObserver::Work& work, const std::string& name,
                            bool internal) {
  Work(work);
  ++kernels_;
  if (internal) ++internal_kernels_;
  Add(work.duration, kernel_time_);
  auto it = kernel_sums_.find(name);
  if (it == kernel_sums_.end()) {
    const std::string& key = kernel_sums_.size() < kMostKernels ? name : kOthers;
    it = kernel_sums_.try_emplace(key).first;
    it->second.name = key;
  }
  KernelSums& sums = it->second;
  ++sums.count;
  Add(work.duration, sums.time);
  Add(work.duration, sums.by_source[static_cast<int>(work.source)]);
}

void RankStatistics::Copy(const WorkObserver::Work& work, uint64_t bytes, CopyKind kind) {
  Work(work);
  Copies& copies = copies_[static_cast<int>(kind)];
  ++copies.count;
  copies.bytes += bytes;
  Add(work.duration, copies.time);
}

void RankStatistics::Memory(VirtualTime at, int64_t bytes) {
  memory_ += bytes;
  peak_memory_ = std::max(peak_memory_, memory_);
  memory_bins_.Set(at - start_, memory_);
}

void RankStatistics::End(VirtualSpan elapsed, VirtualSpan waited) {
  elapsed_ = elapsed;
  waited_ = waited;
  busy_.Finish();
}

RankStatistics::Copies RankStatistics::all_copies() const {
  Copies all;
  for (const Copies& copies : copies_) {
    all.count += copies.count;
    all.bytes += copies.bytes;
    Add(copies.time, all.time);
  }
  return all;
}

std::vector<KernelSums> Largest(const std::map<std::string, KernelSums>& sums, size_t most) {
  std::vector<KernelSums> largest;
  for (const auto& [name, kernel] : sums) largest.push_back(kernel);
  // Stable, and by name before: the same in every run.
  std::stable_sort(largest.begin(), largest.end(),
                   [](const KernelSums& a, const KernelSums& b) { return a.time > b.time; });
  if (largest.size() > most) largest.resize(most);
  return largest;
}

void AddSums(const std::map<std::string, KernelSums>& more,
             std::map<std::string, KernelSums>& sums) {
  for (const auto& [name, kernel] : more) AddTo(kernel, sums[name]);
}

VirtualSpan Total(const TimeBySource& times) {
  VirtualSpan total;
  for (const VirtualSpan time : times) Add(time, total);
  return total;
}

const char* Name(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return "host_to_device";
    case CopyKind::kDeviceToHost:
      return "device_to_host";
    case CopyKind::kInDevice:
      return "in_device";
    case CopyKind::kHostToHost:
      return "host_to_host";
    case CopyKind::kFill:
      return "fill";
    case CopyKind::kPeer:
      return "peer";
  }
  return "";
}

}  // namespace phantora
