// Reads CUDA ELF images (cubins): entry functions, their parameters and code.
#ifndef PHANTORA_PROFILES_KERNELS_CUBIN_H_
#define PHANTORA_PROFILES_KERNELS_CUBIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace phantora {

struct CubinKernel {
  struct Parameter {
    uint16_t offset = 0;  // in bytes from the first parameter
    uint16_t size = 0;
  };
  std::string name;
  int architecture = 0;  // 80 for sm_80
  // The machine code, 16 bytes per instruction, as it lies in the image.
  absl::Span<const uint8_t> code;
  // Instructions that the loader patches, ascending.
  std::vector<uint32_t> relocated_instructions;
  // By ordinal. From .nv.info EIATTR_KPARAM_INFO (0x17).
  std::vector<Parameter> parameters;
};

// The size in bytes of the image that starts at `data`, going by its tables; 0
// if it is no cubin. Every offset in it has been checked against `data`.
uint64_t CubinSize(absl::Span<const uint8_t> data);

// Appends the entry functions of the image that starts at `data` (bytes beyond
// the image are ignored). Returns false, and appends nothing, if the image is
// malformed. The bytes are untrusted.
bool ReadCubin(absl::Span<const uint8_t> data, std::vector<CubinKernel>& kernels);

// What the pointers in the variable `variable` of the image point to: names of symbols, from its
// relocations; empty for null pointers. Empty if the image has no such variable, or only refers to
// it. The bytes are untrusted.
std::vector<std::string> ReadPointerTable(absl::Span<const uint8_t> data,
                                          const std::string& variable);

// What a kernel finds beside its parameters.
struct KernelData {
  // A variable in global memory that its code refers to, or may: not texts (of assertions and
  // printf), which nobody writes, nor empty objects. Empty if there is none.
  std::string variable;
  // The __constant__ variables of its image as they are loaded; empty if its code uses none.
  absl::Span<const uint8_t> constants;
};
// Returns false if the image is malformed or has no such kernel. The bytes are untrusted.
bool ReadKernelData(absl::Span<const uint8_t> data, const std::string& kernel, KernelData& found);

// Offsets in `file` at which cubins start, in any section; they are
// 8-byte aligned.
std::vector<uint64_t> FindCubins(absl::Span<const uint8_t> file);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_CUBIN_H_
