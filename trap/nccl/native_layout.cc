#include <algorithm>
#include <iterator>

#include "trap/nccl/native_launch.h"

namespace phantora {
namespace {

// Releases of NVIDIA/nccl that were compiled: 2.19.1, .3, .4; 2.20.3, .5; 2.21.5; 2.22.3; 2.23.4;
// 2.24.3; 2.25.1; 2.26.2, .3, .5, .6; 2.27.3, .5, .6, .7.
constexpr NativeLayout k2_19 = {.first = 21901,
                                .last = 21904,
                                .batches = false,
                                .channels_at = 64,
                                .channel_bytes = 240,
                                .connection_bytes = 152,
                                .consumed_at = 224,
                                .collective_bytes = 56,
                                .registered_bytes = 248,
                                .root_at = 40,
                                .send_at = 8,
                                .receive_at = 16,
                                .count_at = 24,
                                .argument_at = 48,
                                .by_number = true};

// What each release has elsewhere than the one before it.
constexpr NativeLayout After(NativeLayout layout, int first, int last) {
  layout.first = first;
  layout.last = last;
  return layout;
}

constexpr NativeLayout k2_20 = [] {
  NativeLayout layout = After(k2_19, 22003, 22005);
  layout.channels_at = 80;
  layout.channel_bytes = 272;
  layout.connection_bytes = 144;
  layout.consumed_at = 256;
  layout.root_at = 4;
  layout.argument_at = 32;
  layout.by_number = false;
  return layout;
}();

constexpr NativeLayout k2_21 = [] {
  NativeLayout layout = After(k2_20, 22105, 22105);
  layout.channel_bytes = 368;
  layout.connection_bytes = 152;
  layout.consumed_at = 352;
  return layout;
}();

constexpr NativeLayout k2_22 = [] {
  NativeLayout layout = After(k2_21, 22203, 22203);
  layout.batches = true;
  layout.channels_at = 64;
  layout.consumed_at = 32;
  layout.collective_bytes = 64;
  layout.registered_bytes = 256;
  layout.send_at = 16;
  layout.receive_at = 8;
  layout.argument_at = 56;
  return layout;
}();

constexpr NativeLayout k2_23 = [] {
  NativeLayout layout = After(k2_22, 22304, 22403);
  layout.channels_at = 80;
  layout.consumed_at = 40;
  layout.collective_bytes = 96;
  layout.registered_bytes = 288;
  layout.count_at = 56;
  layout.argument_at = 88;
  return layout;
}();

constexpr NativeLayout k2_25 = [] {
  NativeLayout layout = After(k2_23, 22501, 22501);
  layout.channel_bytes = 352;
  return layout;
}();

constexpr NativeLayout k2_26 = [] {
  NativeLayout layout = After(k2_25, 22602, 22606);
  layout.channels_at = 96;
  layout.channel_bytes = 368;
  return layout;
}();

constexpr NativeLayout k2_27 = [] {
  NativeLayout layout = After(k2_26, 22703, 22707);
  layout.consumed_at = 0;
  return layout;
}();

constexpr NativeLayout kLayouts[] = {k2_19, k2_20, k2_21, k2_22, k2_23, k2_25, k2_26, k2_27};

}  // namespace

const NativeLayout* FindNativeLayout(int version) {
  const auto* found =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [version](const NativeLayout& layout) {
        return layout.first <= version && version <= layout.last;
      });
  return found == std::end(kLayouts) ? nullptr : found;
}

}  // namespace phantora
