#include "trap/gpu/front/output_finder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

// A bound on what programs can make this process keep.
constexpr size_t kMostKernels = 1 << 16, kMostLikes = 1 << 16, kMostRegions = 1 << 20;

// These have unused parts among their parameters, where anything may be. What they write is told by
// the work's sizes.
bool IsToldByWork(WorkFamily family) {
  return family == WorkFamily::kGemm || family == WorkFamily::kReduction ||
         family == WorkFamily::kLayout;
}

uint64_t HashOfWork(const KernelWork& work) {
  return absl::HashOf(work.shape, work.flops, work.bytes, work.written_bytes);
}

}  // namespace

OutputFinder::Like OutputFinder::LikeOf(const NamedLaunch& launch,
                                        absl::Span<const uint8_t> parameters,
                                        const Kernel& kernel) {
  const Qmd& qmd = launch.qmd;
  Like like = {launch.fingerprint,
               launch.code_bytes,
               {qmd.grid.x, qmd.grid.y, qmd.grid.z, qmd.block.x, qmd.block.y, qmd.block.z},
               parameters.size()};
  const absl::string_view all(reinterpret_cast<const char*>(parameters.data()), parameters.size());
  const auto add = [&](size_t begin, size_t bytes) {
    if (begin < all.size())
      like.parameters = absl::HashOf(like.parameters, all.substr(begin, bytes));
  };
  if (IsToldByWork(launch.family())) {
    const KernelWork work = launch.Work(parameters);
    if (work.checked && !work.guessed && work.bytes > 0) {
      like.parameters = absl::HashOf(like.parameters, HashOfWork(work));
      // A product into a wider matrix is another.
      for (const auto& [at, which] : kernel.of_product.sizes) add(at, 4);
      return like;
    }
  }
  if (kernel.read) {
    // As runs of words, which are few.
    const std::vector<uint32_t>& read = *kernel.read;
    for (size_t first = 0; first < read.size();) {
      size_t next = first + 1;
      while (next < read.size() && read[next] == read[next - 1] + 4) ++next;
      add(read[first], (next - first) * 4);
      first = next;
    }
    return like;
  }
  size_t begin = 0;
  for (const uint32_t at : kernel.pointers) {
    add(begin, at - begin);
    begin = at + 8;
  }
  add(begin, all.size());
  return like;
}

void OutputFinder::Look(ExecutionContext& context, const NamedLaunch& launch,
                        absl::Span<const uint8_t> parameters, Kernel& kernel) {
  const std::vector<uint32_t> now = PointersAmong(parameters, context.memory());
  std::vector<uint32_t> all;
  std::set_union(kernel.pointers.begin(), kernel.pointers.end(), now.begin(), now.end(),
                 std::back_inserter(all));
  if (!kernel.is_new && all.size() == kernel.pointers.size()) return;
  kernel.pointers = std::move(all);
  kernel.is_new = false;
  kernel.read.reset();
  const auto program = reader_.Program(context, launch);
  if (program == nullptr) return;
  const auto constants = program->ConstantsRead(0);
  if (!constants) return;
  kernel.read.emplace();
  const uint32_t offset = launch.qmd.parameter_offset();
  for (const uint32_t at : *constants) {
    if (at < offset ||
        std::binary_search(kernel.pointers.begin(), kernel.pointers.end(), (at - offset) / 8 * 8)) {
      continue;
    }
    kernel.read->push_back(at - offset);
  }
}

const LaunchOutputs& OutputFinder::Of(ExecutionContext& context, const NamedLaunch& launch,
                                      absl::Span<const uint8_t> parameters, uint64_t& credit) {
  if (kernels_.size() >= kMostKernels) kernels_.clear();
  Kernel& kernel = kernels_[launch.fingerprint];
  if (!kernel.is_new) {
    const auto found = outputs_.find(LikeOf(launch, parameters, kernel));
    if (found != outputs_.end()) return found->second;
  }
  // Pointers that were null before.
  Look(context, launch, parameters, kernel);
  const Like key = LikeOf(launch, parameters, kernel);
  if (const auto found = outputs_.find(key); found != outputs_.end()) return found->second;
  if (outputs_.size() >= kMostLikes || regions_ >= kMostRegions) outputs_.clear(), regions_ = 0;
  LaunchOutputs outputs = Find(context, launch, parameters, kernel, credit);
  regions_ += outputs.regions.size();
  return outputs_[key] = std::move(outputs);
}

LaunchOutputs OutputFinder::Find(ExecutionContext& context, const NamedLaunch& launch,
                                 absl::Span<const uint8_t> parameters, Kernel& kernel,
                                 uint64_t& credit) {
  const WorkFamily family = launch.family();
  const KernelWork work = launch.Work(parameters);
  LaunchOutputs& of_product = kernel.of_product;
  if (family == WorkFamily::kGemm) {
    if (auto outputs = OutputsOfProduct(of_product, parameters, context.memory(), work)) {
      return *std::move(outputs);
    }
  }
  LaunchOutputs outputs = Try(context, launch, parameters, work, credit);
  if (outputs.bytes_of_work > 0) {
    // What was a size by chance, as the depth may be as large as a row is long, is none next time.
    if (of_product.bytes_of_work > 0) {
      std::erase_if(outputs.sizes, [&](const auto& size) {
        return std::find(of_product.sizes.begin(), of_product.sizes.end(), size) ==
               of_product.sizes.end();
      });
    }
    of_product = outputs;
  }
  if (family != WorkFamily::kGemm && IsToldByWork(family)) {
    // Another launch with the same sizes may write to every other row.
    for (OutputRegion& region : outputs.regions) {
      region.is_exact &= family == WorkFamily::kReduction && region.rows == 1;
    }
  }
  return outputs;
}

LaunchOutputs OutputFinder::Try(ExecutionContext& context, const NamedLaunch& from,
                                absl::Span<const uint8_t> parameters, const KernelWork& work,
                                uint64_t& credit) {
  sass::Launch launch;
  AddressSpace::Fault fault;
  if (credit < most_.least) return {};
  const auto program = reader_.Read(context, from, launch, fault);
  if (program == nullptr) return {};
  const std::vector<uint32_t> pointers = PointersAmong(parameters, context.memory());
  const auto attempt = [&](uint64_t most, uint64_t most_of_all) {
    const sass::Sample sample = executor_.Try(launch, *program, context.memory(),
                                              std::min(most, credit), most_of_all, is_ending_);
    credit -= std::min(credit, sample.thread_instructions);
    return OutputsOf(sample, parameters, pointers, context.memory(), from.family(), work);
  };
  if (from.family() == WorkFamily::kGemm) {
    LaunchOutputs outputs = attempt(most_.product, 0);
    if (outputs.known) return outputs;
  }
  return attempt(most_.blocks, most_.all);
}

}  // namespace phantora
