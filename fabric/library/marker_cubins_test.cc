#include "fabric/library/marker_cubins.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "fabric/library/wire.h"
#include "profiles/kernels/code_fingerprint.h"
#include "profiles/kernels/cubin.h"

namespace phantora::nccl {
namespace {

absl::Span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(MarkerCubins, HoldBothKernelsWithTheParametersOfTheWire) {
  for (const MarkerCubin& cubin : MarkerCubins()) {
    SCOPED_TRACE(cubin.architecture);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(cubin.image.data()) % 8, 0u);
    std::vector<CubinKernel> kernels;
    ASSERT_TRUE(ReadCubin(Bytes(cubin.image), kernels));
    std::set<std::string> names;
    for (const CubinKernel& kernel : kernels) {
      names.insert(kernel.name);
      EXPECT_EQ(kernel.architecture, cubin.architecture);
      ASSERT_EQ(kernel.parameters.size(), 1u);
      EXPECT_EQ(kernel.parameters[0].offset, 0);
      EXPECT_EQ(kernel.parameters[0].size,
                kernel.name == kMarkerKernel ? sizeof(Marker) : sizeof(LongMarker));
    }
    EXPECT_EQ(names, (std::set<std::string>{kMarkerKernel, kLongMarkerKernel}));
  }
}

TEST(MarkerCubins, AreToldApartByTheirFirstInstructions) {
  std::set<uint64_t> prefixes;
  for (const MarkerCubin& cubin : MarkerCubins()) {
    std::vector<CubinKernel> kernels;
    ASSERT_TRUE(ReadCubin(Bytes(cubin.image), kernels));
    for (const CubinKernel& kernel : kernels) {
      ASSERT_GE(kernel.code.size(), kPrefixBytes);
      prefixes.insert(PrefixFingerprint(kernel.code));
      // Nothing that the loader changes may be in the way.
      EXPECT_TRUE(kernel.relocated_instructions.empty());
    }
  }
  EXPECT_EQ(prefixes.size(), 4u);
}

TEST(MarkerCubins, ThePtxEndsAsText) {
  const std::string_view ptx = MarkerPtx();
  EXPECT_NE(ptx.find(kLongMarkerKernel), std::string_view::npos);
  EXPECT_EQ(ptx.data()[ptx.size()], 0);
}

}  // namespace
}  // namespace phantora::nccl
