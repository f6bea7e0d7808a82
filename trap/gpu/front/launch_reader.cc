#include "trap/gpu/front/launch_reader.h"

#include <algorithm>

namespace phantora {
namespace {

constexpr uint32_t kMostCode = 4 << 20, kMostUnknownCode = 64 << 10;

sass::Dims DimsOf(const Qmd::Dims& dims) { return {dims.x, dims.y, dims.z}; }

}  // namespace

KernelWork NamedLaunch::Work(absl::Span<const uint8_t> parameters) const {
  if (rule == nullptr) return {};
  return rule->Of({.grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
                   .block = {qmd.block.x, qmd.block.y, qmd.block.z},
                   .parameters = parameters});
}

std::shared_ptr<const sass::Program> LaunchReader::Read(ExecutionContext& context,
                                                        const NamedLaunch& from,
                                                        sass::Launch& launch,
                                                        AddressSpace::Fault& fault) {
  auto program = Program(context, from);
  if (program == nullptr) return nullptr;
  const Qmd& qmd = from.qmd;
  launch = {.grid = DimsOf(qmd.grid),
            .block = DimsOf(qmd.block),
            .cluster = DimsOf(qmd.cluster),
            .registers = static_cast<int>(qmd.registers),
            .shared_bytes = qmd.shared_bytes,
            .code_address = qmd.program,
            .began = static_cast<uint64_t>(context.time.ShownNanoseconds()),
            .shared_window = from.shared_window,
            .local_window = from.local_window,
            .together = from.together,
            .constants = {},
            .constants_address = qmd.constants[0].address};
  for (size_t bank = 0; bank < launch.constants.size(); ++bank) {
    const Qmd::ConstantBuffer& buffer = qmd.constants[bank];
    if (!buffer.valid) continue;
    banks_[bank].resize(std::min<size_t>(buffer.bytes, sass::kConstantBytes));
    fault = context.memory().Read(buffer.address, banks_[bank].data(), banks_[bank].size());
    if (fault) return nullptr;
    launch.constants[bank] = banks_[bank];
  }
  return program;
}

std::shared_ptr<const sass::Program> LaunchReader::Program(ExecutionContext& context,
                                                           const NamedLaunch& from) {
  const uint64_t program = from.qmd.program;
  uint64_t bytes = std::min(from.code_bytes, kMostCode);
  if (bytes == 0) {
    // What follows its end is decoded in vain, as far as something is there.
    const auto range = context.memory().RangeAround(program);
    if (!range) return nullptr;
    bytes = std::min<uint64_t>(range->first + range->second - program, kMostUnknownCode);
  }
  code_.resize(bytes);
  if (context.memory().Read(program, code_.data(), code_.size())) return nullptr;
  return programs_.Of(code_, architecture_);
}

absl::Span<const uint8_t> LaunchReader::Parameters(ExecutionContext& context,
                                                   const NamedLaunch& from) {
  const Qmd::ConstantBuffer& bank = from.qmd.constants[0];
  const uint64_t offset = from.qmd.parameter_offset();
  parameters_.clear();
  if (!bank.valid || bank.bytes <= offset) return {};
  uint64_t bytes = std::min<uint64_t>(bank.bytes, sass::kConstantBytes) - offset;
  if (from.parameter_bytes > 0) bytes = std::min<uint64_t>(bytes, from.parameter_bytes);
  parameters_.resize(bytes);
  if (context.memory().Read(bank.address + offset, parameters_.data(), bytes)) return {};
  return parameters_;
}

}  // namespace phantora
