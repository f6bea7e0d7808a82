#include "trap/gpu/front/output_finder.h"

#include <algorithm>
#include <cstring>

#include "absl/hash/hash.h"

namespace phantora {
namespace {

// A bound on what programs can make this process keep.
constexpr size_t kMostKernels = 1 << 16, kMostLikes = 1 << 16, kMostRegions = 1 << 20;
constexpr size_t kMostReads = 64;            // of a kernel
constexpr size_t kMostReadBytes = 16 << 20;  // of parameters, in all kernels' together

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

OutputFinder::Like OutputFinder::LikeOf(const NamedLaunch& launch, uint64_t read) {
  const Qmd& qmd = launch.qmd;
  return {launch.fingerprint,
          launch.code_bytes,
          {qmd.grid.x, qmd.grid.y, qmd.grid.z, qmd.block.x, qmd.block.y, qmd.block.z},
          read};
}

OutputFinder::Like OutputFinder::LikeOf(const NamedLaunch& launch,
                                        absl::Span<const uint8_t> parameters,
                                        const KernelWork& work, const Kernel& kernel) {
  uint64_t sizes = absl::HashOf(parameters.size(), HashOfWork(work));
  // A product into a wider matrix is another.
  for (const auto& [at, which] : kernel.of_product.sizes) {
    uint32_t size = 0;
    if (at + sizeof size <= parameters.size()) std::memcpy(&size, &parameters[at], sizeof size);
    sizes = absl::HashOf(sizes, size);
  }
  return LikeOf(launch, sizes);
}

const LaunchOutputs* OutputFinder::Known(const Like& like) const {
  const auto found = outputs_.find(like);
  return found == outputs_.end() ? nullptr : &found->second;
}

const LaunchOutputs& OutputFinder::Keep(const Like& like, LaunchOutputs outputs) {
  if (outputs_.size() >= kMostLikes || regions_ >= kMostRegions) outputs_.clear(), regions_ = 0;
  regions_ += outputs.regions.size();
  return outputs_[like] = std::move(outputs);
}

const LaunchOutputs& OutputFinder::Of(ExecutionContext& context, const NamedLaunch& launch,
                                      absl::Span<const uint8_t> parameters, uint64_t& credit) {
  if (kernels_.size() >= kMostKernels || read_bytes_ >= kMostReadBytes) {
    kernels_.clear(), read_bytes_ = 0;
  }
  Kernel& kernel = kernels_[launch.fingerprint];
  KernelWork work;
  if (IsToldByWork(launch.family())) work = launch.Work(parameters);
  if (!work.checked || work.guessed || work.bytes == 0) {
    return OfReads(context, launch, parameters, kernel, credit);
  }
  if (const auto* known = Known(LikeOf(launch, parameters, work, kernel))) return *known;
  ByteRanges read;
  auto outputs = Find(context, launch, parameters, work, kernel, credit, read);
  if (!outputs) return unkept_ = {};
  // By the sizes that are known of the kernel by now.
  return Keep(LikeOf(launch, parameters, work, kernel), *std::move(outputs));
}

const LaunchOutputs& OutputFinder::OfReads(ExecutionContext& context, const NamedLaunch& launch,
                                           absl::Span<const uint8_t> parameters, Kernel& kernel,
                                           uint64_t& credit) {
  const std::vector<uint32_t> pointers = PointersAmong(parameters, context.memory());
  const auto like = [&](const ParametersRead& read) {
    return LikeOf(launch, read.HashOf(parameters, pointers));
  };
  for (const ParametersRead& read : kernel.reads) {
    if (const auto* known = Known(like(read))) return *known;
  }
  ByteRanges ranges;
  auto outputs = Find(context, launch, parameters, launch.Work(parameters), kernel, credit, ranges);
  if (!outputs || ranges.empty()) return unkept_ = outputs.value_or(LaunchOutputs());
  auto read = std::find_if(kernel.reads.begin(), kernel.reads.end(),
                           [&](const auto& each) { return each.ranges() == ranges; });
  if (read == kernel.reads.end()) {
    if (kernel.reads.size() >= kMostReads) kernel.reads.clear();
    for (const auto& [begin, end] : ranges) read_bytes_ += end - begin;
    kernel.reads.emplace_back(std::move(ranges));
    read = kernel.reads.end() - 1;
  }
  read->Learn(LikeOf(launch, 0).shape, parameters, pointers, *outputs);
  return Keep(like(*read), *std::move(outputs));
}

std::optional<LaunchOutputs> OutputFinder::Find(ExecutionContext& context,
                                                const NamedLaunch& launch,
                                                absl::Span<const uint8_t> parameters,
                                                const KernelWork& work, Kernel& kernel,
                                                uint64_t& credit, ByteRanges& read) {
  const WorkFamily family = launch.family();
  LaunchOutputs& of_product = kernel.of_product;
  if (family == WorkFamily::kGemm) {
    if (auto outputs = OutputsOfProduct(of_product, parameters, context.memory(), work)) {
      return outputs;
    }
  }
  auto outputs = Try(context, launch, parameters, work, credit, read);
  if (!outputs) return std::nullopt;
  if (outputs->bytes_of_work > 0) {
    // What was a size by chance, as the depth may be as large as a row is long, is none next time.
    if (of_product.bytes_of_work > 0) {
      std::erase_if(outputs->sizes, [&](const auto& size) {
        return std::find(of_product.sizes.begin(), of_product.sizes.end(), size) ==
               of_product.sizes.end();
      });
    }
    of_product = *outputs;
  }
  if (family != WorkFamily::kGemm && IsToldByWork(family)) {
    // Another launch with the same sizes may write to every other row.
    for (OutputRegion& region : outputs->regions) {
      region.is_exact &= family == WorkFamily::kReduction && region.rows == 1;
    }
  }
  return outputs;
}

std::optional<LaunchOutputs> OutputFinder::Try(ExecutionContext& context, const NamedLaunch& from,
                                               absl::Span<const uint8_t> parameters,
                                               const KernelWork& work, uint64_t& credit,
                                               ByteRanges& read) {
  sass::Launch launch;
  AddressSpace::Fault fault;
  if (credit < most_.least) return std::nullopt;
  const auto program = reader_.Read(context, from, launch, fault);
  if (program == nullptr) return LaunchOutputs();
  const std::vector<uint32_t> all = PointersAmong(parameters, context.memory());
  const auto attempt = [&](uint64_t most, uint64_t most_of_all) {
    const sass::Sample sample = executor_.Try(launch, *program, context.memory(),
                                              std::min(most, credit), most_of_all, is_ending_);
    credit -= std::min(credit, sample.thread_instructions);
    read.clear();
    const uint32_t offset = from.qmd.parameter_offset();
    for (const auto& [begin, end] : sample.constants_read) {
      if (end > offset) read.emplace_back(std::max(begin, offset) - offset, end - offset);
    }
    // What lies between those that it reads may be anything.
    std::vector<uint32_t> pointers;
    for (const uint32_t at : all) {
      if (HasPointer(read, at)) pointers.push_back(at);
    }
    return OutputsOf(sample, parameters, pointers, context.memory(), from.family(), work);
  };
  if (from.family() == WorkFamily::kGemm) {
    LaunchOutputs outputs = attempt(most_.product, 0);
    if (outputs.known) return outputs;
  }
  return attempt(most_.blocks, most_.all);
}

}  // namespace phantora
