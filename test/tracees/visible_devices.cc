// CUDA_VISIBLE_DEVICES as launchers use it: none, one, some in another order, by UUID.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

struct Uuids {
  int count = 0;
  CUuuid uuid[16];
};

// What a fresh process sees with this setting; a null pointer leaves the variable away.
Uuids See(const char* setting) {
  Channel channel;
  const pid_t child = ForkChild([&] {
    channel.UseChildSide();
    if (setting == nullptr) {
      unsetenv("CUDA_VISIBLE_DEVICES");
    } else {
      setenv("CUDA_VISIBLE_DEVICES", setting, 1);
    }
    Uuids seen;
    const CUresult result = cuInit(0);
    if (result != CUDA_ERROR_NO_DEVICE) {
      CU_CHECK(result);
      CU_CHECK(cuDeviceGetCount(&seen.count));
      CHECK_LE(seen.count, 16);
      for (int i = 0; i < seen.count; ++i) CU_CHECK(cuDeviceGetUuid(&seen.uuid[i], i));
    }
    if (seen.count > 0) {
      // The last one works.
      Context context(seen.count - 1);
      DeviceMemory memory(4096);
      SetDevice(memory.get(), 0x19, 4096);
      CheckDeviceFilled(memory.get(), 0x19, 4096, "a device chosen by the environment");
    }
    channel.Put(seen);
  });
  channel.UseParentSide();
  const auto seen = channel.Take<Uuids>();
  WaitForChild(child);
  return seen;
}

std::string Text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += "-";
    text += hex;
  }
  return text;
}

}  // namespace

TRACEE(visible_devices) {
  const Uuids all = See(nullptr);
  CHECK_GE(all.count, 1);
  CHECK_EQ(See("").count, 0);
  CHECK_EQ(See("-1").count, 0);
  for (int i = 0; i < all.count; ++i) {
    for (const std::string& name : {std::to_string(i), Text(all.uuid[i])}) {
      const Uuids one = See(name.c_str());
      CHECK_EQ(one.count, 1);
      CHECK_EQ(Text(one.uuid[0]), Text(all.uuid[i]));
    }
  }
  if (all.count >= 2) {
    const Uuids swapped = See("1,0");
    CHECK_EQ(swapped.count, 2);
    CHECK_EQ(Text(swapped.uuid[0]), Text(all.uuid[1]));
    CHECK_EQ(Text(swapped.uuid[1]), Text(all.uuid[0]));
    // The list ends at the first name that means nothing.
    CHECK_EQ(See("1,99,0").count, 1);
  }
}
