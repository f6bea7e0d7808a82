// at::native::reduce_kernel (ATen/native/cuda/Reduce.cuh): sums, extremes and the like.
#include <cstring>
#include <optional>
#include <vector>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/offset_calculator.h"
#include "trap/gpu/small/element_values.h"
#include "trap/gpu/small/small_kernel.h"

namespace phantora {
namespace {

using Value = ElementValue;
enum class Operation { kSum, kMaximum, kMinimum, kOr, kAnd, kMean };

// ReduceConfig: element_size_bytes, num_inputs, num_outputs, three steps, input_mult[3],
// output_mult[2], then the block's dimensions, by which it is found.
constexpr uint64_t kInputsAt = 4, kOutputsAt = 8, kBlockAt = 0x2c, kConfigBytes = 64;
constexpr uint64_t kLatestConfig = 0x60;
// Behind the calculators: src, dst[2], acc_buf, cta_buf, semaphores, base_idx, accumulate,
// final_output, noutputs.
constexpr uint64_t kTailBytes = 64, kResultAt = 8, kAccumulateAt = 56, kFinalAt = 57;

// Where an OffsetCalculator of so many tensors goes with an index: bytes, of one of them.
class Offsets {
 public:
  Offsets(const LaunchShape& launch, uint64_t at, uint32_t tensors)
      : launch_(launch), at_(at), tensors_(tensors), dims_(launch.At<uint32_t>(at)) {}
  bool valid() const { return dims_ <= OffsetCalculator::kMostDims; }
  uint64_t Of(uint32_t index, uint32_t tensor) const {
    uint64_t offset = 0;
    for (uint32_t dim = 0; dim < dims_; ++dim) {
      const auto size = launch_.At<uint32_t>(at_ + OffsetCalculator::kSizesAt + uint64_t{dim} * 12);
      if (size == 0) return 0;
      const auto stride = launch_.At<uint32_t>(at_ + OffsetCalculator::kStridesAt +
                                               4 * (uint64_t{dim} * tensors_ + tensor));
      offset += uint64_t{index % size} * stride;
      index /= size;
    }
    return offset;
  }

 private:
  const LaunchShape& launch_;
  const uint64_t at_;
  const uint32_t tensors_, dims_;
};

Value Combine(Operation operation, Value a, Value b) {
  const bool larger = a.floating ? a.number > b.number : a.integer > b.integer;
  const bool is_nan = a.floating && a.number != a.number;
  const auto wrapped = [](uint64_t value) { return Value::Integer(static_cast<int64_t>(value)); };
  const auto x = static_cast<uint64_t>(a.integer), y = static_cast<uint64_t>(b.integer);
  switch (operation) {
    case Operation::kSum:
    case Operation::kMean:
      return a.floating ? Value::Number(a.number + b.number) : wrapped(x + y);
    case Operation::kMaximum:
      return larger || is_nan ? a : b;
    case Operation::kMinimum:
      return larger && !is_nan ? b : a;
    case Operation::kOr:
      return Value::Integer(a.AsNumber() != 0 || b.AsNumber() != 0);
    case Operation::kAnd:
      return Value::Integer(a.AsNumber() != 0 && b.AsNumber() != 0);
  }
  return a;
}

class Reduction : public SmallKernel {
 public:
  Reduction(Operation operation, ElementType input, ElementType output, uint64_t bytes)
      : operation_(operation), input_(input), output_(output), bytes_(bytes) {}

  bool CarryOut(const LaunchShape& launch, AddressSpace& memory, TransferQueue&) const override {
    for (uint64_t config = 4; config < kLatestConfig; config += 4) {
      if (launch.At<uint32_t>(config + kBlockAt) == launch.block[0] &&
          launch.At<uint32_t>(config + kBlockAt + 4) == launch.block[1] &&
          launch.At<uint32_t>(config + kBlockAt + 8) == launch.block[0] * launch.block[1]) {
        return CarryOut(launch, config, memory);
      }
    }
    return false;
  }

 private:
  bool CarryOut(const LaunchShape& launch, uint64_t config, AddressSpace& memory) const {
    const auto inputs = launch.At<int32_t>(config + kInputsAt);
    const auto outputs = launch.At<int32_t>(config + kOutputsAt);
    if (inputs < 1 || outputs < 1 || int64_t{inputs} * outputs > kMostSmallElements) return false;
    const uint64_t input_at = config + kConfigBytes;
    const uint64_t output_at = input_at + OffsetCalculator::Bytes(1);
    const uint64_t tail = (output_at + OffsetCalculator::Bytes(2) + 7) / 8 * 8;
    // Another version of PyTorch may have members that are not known here.
    if (tail + kTailBytes != bytes_) return false;
    if (launch.At<uint8_t>(tail + kAccumulateAt) != 0) return false;
    if (launch.At<uint8_t>(tail + kFinalAt) != 1) return false;
    const Offsets input_offsets(launch, input_at, 1), output_offsets(launch, output_at, 2);
    if (!input_offsets.valid() || !output_offsets.valid()) return false;
    const auto from = launch.At<uint64_t>(tail), to = launch.At<uint64_t>(tail + kResultAt);

    std::vector<Value> results;
    uint8_t bytes[8];
    for (uint32_t output = 0; output < static_cast<uint32_t>(outputs); ++output) {
      const uint64_t begin = from + output_offsets.Of(output, 1);
      std::optional<Value> total;
      for (uint32_t i = 0; i < static_cast<uint32_t>(inputs); ++i) {
        if (memory.Read(begin + input_offsets.Of(i, 0), bytes, BytesOf(input_))) return false;
        const Value value = LoadElement(input_, bytes);
        total = total ? Combine(operation_, *total, value) : value;
      }
      if (operation_ == Operation::kMean) {
        total = Value::Number(total->AsNumber() * launch.At<float>(0));
      } else if (operation_ == Operation::kOr || operation_ == Operation::kAnd) {
        total = Value::Integer(total->AsNumber() != 0);
      }
      results.push_back(*total);
    }
    for (uint32_t output = 0; output < static_cast<uint32_t>(outputs); ++output) {
      StoreElement(output_, results[output], bytes);
      if (memory.Write(to + output_offsets.Of(output, 0), bytes, BytesOf(output_))) return false;
    }
    return true;
  }

  const Operation operation_;
  const ElementType input_, output_;
  const uint64_t bytes_;  // of the parameter
};

std::optional<Operation> OperationOf(std::string_view symbol) {
  static constexpr std::pair<const char*, Operation> kNames[] = {
      {"11sum_functorI", Operation::kSum},       {"13MaxNanFunctorI", Operation::kMaximum},
      {"13MinNanFunctorI", Operation::kMinimum}, {"14or_kernel_cuda", Operation::kOr},
      {"15and_kernel_cuda", Operation::kAnd},    {"7MeanOpsIffff", Operation::kMean},
  };
  for (const auto& [name, operation] : kNames) {
    if (Has(symbol, name)) return operation;
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const SmallKernel> FindSmallReduction(std::string_view symbol,
                                                      KernelParameters parameters) {
  // ReduceOp<scalar_t, ops_t, index_t, out_scalar_t, values per thread>
  constexpr std::string_view kOp = "8ReduceOpI";
  const size_t at = symbol.find(kOp);
  if (!Has(symbol, "13reduce_kernelI") || at == symbol.npos || parameters.size() != 1) {
    return nullptr;
  }
  const auto operation = OperationOf(symbol);
  const auto input = ParseMangledType(symbol.substr(at + kOp.size()));
  const size_t index = symbol.find("EEj", at);
  const size_t next = symbol.rfind("EEj");
  if (!operation || !input || index == symbol.npos) return nullptr;
  const auto output = ParseMangledType(symbol.substr(next + 3));
  if (!output) return nullptr;
  return std::make_shared<Reduction>(*operation, *input, *output, parameters[0].size);
}

}  // namespace phantora
