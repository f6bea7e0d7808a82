// A GPU of the user's own, rows of its kernels, and lines that the profiler is sent.
#include <string>

#include "profiles/gpu/gpu_profile.h"
#include "profiles/gpu/rate_transfer.h"
#include "profiles/gpu/work_price.h"
#include "profiles/kernels/kernel_rows.h"
#include "profiles/kernels/launch_request.h"
#include "test/fuzz/choices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phantora;
  static const auto* const rates = new GpuRates(*FindGpuRates("h100-sxm5-80gb"));
  Choices choices(data, size);
  const uint64_t what = choices.Below(3);
  const auto rest = choices.Rest();
  const std::string text(rest.begin(), rest.end());
  switch (what) {
    case 0:
      if (const auto profile = ParseGpuProfile(text); profile.ok()) {
        TransferRates(*profile).IgnoreError();
      }
      break;
    case 1:
      KernelRows::Parse(text, *rates, 132).IgnoreError();
      break;
    default:
      ParseRequestLine(text).IgnoreError();
  }
  return 0;
}
