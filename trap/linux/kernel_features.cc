#include "trap/linux/kernel_features.h"

#include <stdio.h>
#include <sys/utsname.h>

namespace phantora {

KernelVersion KernelVersion::Of(const char* release) {
  KernelVersion version;
  if (sscanf(release, "%d.%d", &version.major, &version.minor) != 2) return {};
  return version;
}

KernelVersion KernelVersion::Running() {
  utsname name{};
  uname(&name);
  return Of(name.release);
}

}  // namespace phantora
