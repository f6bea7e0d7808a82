#include "fabric/library/settings.h"

#include <errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fabric/library/last_error.h"

namespace phantora::nccl {
namespace {

constexpr int kMostChannels = 64;

int EnvironmentNumber(const char* name, int otherwise) {
  const char* text = getenv(name);
  if (text == nullptr || *text == 0) return otherwise;
  char* end;
  errno = 0;
  const long number = strtol(text, &end, 0);
  if (errno != 0 || end == text || number < INT_MIN || number > INT_MAX) {
    Warn("%s=%s is not a number, and ignored", name, text);
    return otherwise;
  }
  return static_cast<int>(number);
}

void EnvironmentText(const char* name, char (&text)[64]) {
  const char* value = getenv(name);
  if (value == nullptr) return;
  if (strlen(value) >= sizeof(text)) {
    Warn("%s is longer than %zu characters, and ignored", name, sizeof(text) - 1);
    return;
  }
  strcpy(text, value);
}

int Channels(const char* name, int otherwise) {
  const int number = EnvironmentNumber(name, -1);
  return std::min(number > 0 ? number : otherwise, kMostChannels);
}

int OrNotSet(int number) { return number == kNcclUndefined ? -1 : number; }

}  // namespace

ncclResult_t ReadConfig(const ncclConfig_t* given, Config& config) {
  ncclConfig_t c;
  if (given != nullptr) {
    size_t size;
    memcpy(&size, given, sizeof(size));
    constexpr size_t kFixedPart = offsetof(ncclConfig_t, blocking);
    if (size < kFixedPart || given->magic != kNcclConfigMagic) {
      return Fail(ncclInvalidArgument,
                  "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    }
    memcpy(static_cast<void*>(&c), given, std::min(size, sizeof(c)));
    // Before these versions, the fields were padding, if they were there.
    if (c.version < 2'14'00) c.blocking = kNcclUndefined;
    if (c.version < 2'17'00) c.cgaClusterSize = c.minCTAs = c.maxCTAs = kNcclUndefined;
    if (c.version < 2'27'00) c.collnetEnable = c.shrinkShare = c.nvlsCTAs = kNcclUndefined;
    if (c.version < 2'27'00) c.CTAPolicy = kNcclUndefined;
  }
  auto flag = [](int value) { return value == kNcclUndefined || value == 0 || value == 1; };
  if (!flag(c.blocking)) {
    return Fail(ncclInvalidArgument, "Invalid config blocking attribute value %d", c.blocking);
  }
  if (c.cgaClusterSize != kNcclUndefined && c.cgaClusterSize < 0) {
    return Fail(ncclInvalidArgument, "Invalid config cgaClusterSize attribute value %d",
                c.cgaClusterSize);
  }
  if ((c.minCTAs != kNcclUndefined && c.minCTAs <= 0) ||
      (c.maxCTAs != kNcclUndefined && c.maxCTAs <= 0) || c.minCTAs > c.maxCTAs) {
    return Fail(ncclInvalidArgument, "Invalid config min/max channels attribute value %d/%d",
                c.minCTAs, c.maxCTAs);
  }
  if (!flag(c.splitShare)) {
    return Fail(ncclInvalidArgument, "Invalid config splitShare attribute value %d", c.splitShare);
  }
  if (!flag(c.collnetEnable)) {
    return Fail(ncclInvalidArgument, "Invalid config collnetEnable attribute value %d",
                c.collnetEnable);
  }
  // "No CTAs", since 2.28, is a wish: copy engines are not modelled.
  const bool without_ctas = c.version >= 2'28'00 && c.CTAPolicy == 2;
  if (!flag(c.CTAPolicy) && !without_ctas) {
    return Fail(ncclInvalidArgument, "Invalid config policy attribute value %d", c.CTAPolicy);
  }
  if (!flag(c.shrinkShare)) {
    return Fail(ncclInvalidArgument, "Invalid config shrinkShare attribute value %d",
                c.shrinkShare);
  }
  if (c.nvlsCTAs != kNcclUndefined && c.nvlsCTAs <= 0) {
    return Fail(ncclInvalidArgument, "Invalid config nvlsCTAs attribute value %d", c.nvlsCTAs);
  }
  config.blocking = c.blocking != 0;
  config.min_ctas = OrNotSet(c.minCTAs);
  config.max_ctas = OrNotSet(c.maxCTAs);
  config.collnet = OrNotSet(c.collnetEnable);
  return ncclSuccess;
}

void ApplyEnvironment(Config& config) {
  const int blocking = EnvironmentNumber("NCCL_COMM_BLOCKING", -1);
  if (blocking == 0 || blocking == 1) config.blocking = blocking == 1;
}

Settings MakeSettings(const Config& config) {
  Settings settings;
  EnvironmentText("NCCL_ALGO", settings.algorithm);
  EnvironmentText("NCCL_PROTO", settings.protocol);
  settings.min_channels =
      Channels("NCCL_MIN_NCHANNELS", Channels("NCCL_MIN_CTAS", config.min_ctas));
  settings.max_channels =
      Channels("NCCL_MAX_NCHANNELS", Channels("NCCL_MAX_CTAS", config.max_ctas));
  settings.nvls = EnvironmentNumber("NCCL_NVLS_ENABLE", -1);
  settings.collnet = EnvironmentNumber("NCCL_COLLNET_ENABLE", config.collnet);
  settings.queue_pairs = EnvironmentNumber("NCCL_IB_QPS_PER_CONNECTION", -1);
  settings.ib_timeout = EnvironmentNumber("NCCL_IB_TIMEOUT", -1);
  settings.ib_retries = EnvironmentNumber("NCCL_IB_RETRY_CNT", -1);
  return settings;
}

}  // namespace phantora::nccl
