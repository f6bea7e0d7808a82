// at::native::CatArrayBatchedCopy_contig and its like (ATen/native/cuda/Shape.cu): torch.cat and
// torch.stack of dense tensors along their only dimension.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "profiles/work/kernel_symbol.h"
#include "trap/gpu/small/small_kernel.h"

namespace phantora {
namespace {

class Concatenation : public SmallKernel {
 public:
  Concatenation(uint64_t element_bytes, uint32_t inputs, uint64_t metadata_at)
      : element_bytes_(element_bytes), inputs_(inputs), metadata_at_(metadata_at) {}

  bool CarryOut(const LaunchShape& launch, AddressSpace& memory,
                TransferQueue& transfers) const override {
    const uint32_t count = launch.grid[1];
    if (count < 1 || count > inputs_) return false;
    const auto to = launch.At<uint64_t>(0);
    // CatArrInputTensorMetadata: input[n], offset[n], dimSize[n], nElements[n].
    const uint64_t offsets = metadata_at_ + uint64_t{inputs_} * 8;
    const uint64_t elements = offsets + uint64_t{inputs_} * 8;
    std::vector<Transfer> copies;
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; ++i) {
      Transfer copy;
      copy.line_bytes = launch.At<uint32_t>(elements + uint64_t{i} * 4) * element_bytes_;
      copy.source = launch.At<uint64_t>(metadata_at_ + uint64_t{i} * 8);
      copy.destination = to + launch.At<uint32_t>(offsets + uint64_t{i} * 4) * element_bytes_;
      total += copy.line_bytes;
      if (total > kMostSmallBytes) return false;
      if (copy.line_bytes == 0) continue;
      uint8_t probe;
      for (const uint64_t start : {copy.source, copy.destination}) {
        if (memory.Read(start, &probe, 1) || memory.Read(start + copy.line_bytes - 1, &probe, 1)) {
          return false;
        }
      }
      copies.push_back(std::move(copy));
    }
    for (Transfer& copy : copies) transfers.Add(std::move(copy));
    return true;
  }

 private:
  const uint64_t element_bytes_;
  const uint32_t inputs_;
  const uint64_t metadata_at_;
};

}  // namespace

std::shared_ptr<const SmallKernel> FindSmallConcatenation(std::string_view symbol,
                                                          KernelParameters parameters) {
  const size_t at = symbol.find("CatArrayBatchedCopy");
  if (at == symbol.npos || parameters.size() < 2 || parameters[0].offset != 0) return nullptr;
  if (!Has(symbol.substr(at, 48), "_contig")) return nullptr;
  // <T, index type, dimensions, inputs, ...>: 32-bit indices, one dimension.
  const size_t index = symbol.find("jLi1ELi", at);
  const size_t type = symbol.find("OpaqueTypeIL", at);
  if (index == symbol.npos || type == symbol.npos || type > index) return nullptr;
  const int inputs = std::atoi(std::string(symbol.substr(index + 7, 8)).c_str());
  // Behind "OpaqueTypeIL" and the type of the literal.
  if (type + 13 > symbol.size()) return nullptr;
  const int bytes = std::atoi(std::string(symbol.substr(type + 13, 4)).c_str());
  const bool known = inputs >= 1 && inputs <= 1024 && bytes >= 1 && bytes <= 16;
  if (!known || parameters[1].size < static_cast<uint32_t>(inputs) * 20) return nullptr;
  return std::make_shared<Concatenation>(static_cast<uint64_t>(bytes),
                                         static_cast<uint32_t>(inputs), parameters[1].offset);
}

}  // namespace phantora
