// The marker kernels (marker.ptx), compiled. The library loads them; the supervisor takes from them
// the fingerprints by which it knows them again.
#ifndef PHANTORA_FABRIC_LIBRARY_MARKER_CUBINS_H_
#define PHANTORA_FABRIC_LIBRARY_MARKER_CUBINS_H_

#include <array>
#include <string_view>

namespace phantora::nccl {

// Eight-byte aligned, and a zero byte follows each.
std::string_view MarkerCubinSm80();
std::string_view MarkerCubinSm90();
std::string_view MarkerPtx();

struct MarkerCubin {
  int architecture;  // 80 for sm_80
  std::string_view image;
};

// The cubins of all major compute capabilities that have one.
inline std::array<MarkerCubin, 2> MarkerCubins() {
  return {{{80, MarkerCubinSm80()}, {90, MarkerCubinSm90()}}};
}

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_MARKER_CUBINS_H_
