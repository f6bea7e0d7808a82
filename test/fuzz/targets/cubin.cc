// Cubins and fat binaries, of libraries and of what a rank loads; what their code does.
#include "profiles/kernels/cubin.h"

#include <algorithm>
#include <vector>

#include "profiles/kernels/fat_binary.h"
#include "profiles/work/code_summary.h"
#include "test/fuzz/choices.h"
#include "trap/gpu/sass/program.h"

namespace phantora {
namespace {

void Read(absl::Span<const uint8_t> image) {
  std::vector<CubinKernel> kernels;
  const bool well_formed = ReadCubin(image, kernels);
  Require(well_formed || kernels.empty());
  Require(CubinSize(image) <= image.size());
  ReadPointerTable(image, "ncclDevFuncTable");
  for (const CubinKernel& kernel : kernels) {
    KernelData data_of;
    ReadKernelData(image, kernel.name, data_of);
    Summarise(kernel.code, 0x210);
    if (kernel.architecture >= 80 && kernel.architecture <= 90) {
      const sass::Program program(kernel.code, kernel.architecture);
    }
  }
}

}  // namespace
}  // namespace phantora

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phantora;
  const absl::Span<const uint8_t> file(data, size);
  Read(file);
  for (const uint64_t at : FindCubins(file)) Require(at < size);
  std::vector<uint8_t> buffer;
  for (const PackedCubin& packed : FindPackedCubins(file, 90)) {
    // (What is small, or an input of some bytes takes seconds.)
    if (packed.unpacked_bytes > uint64_t{1} << 20) continue;
    if (const auto image = Unpack(packed, buffer)) Read(*image);
    const CubinPlace place = PlaceOf(packed, file);
    Require(place.offset <= size && place.bytes <= size - place.offset);
    CubinAt(place, file.subspan(place.offset, place.bytes), "kernel");
  }
  return 0;
}
