#include "trap/rm/machine.h"

#include <cstring>

#include "absl/strings/str_format.h"

namespace phantora {
namespace {

// PCI bus numbers of the eight GPUs of an HGX H100 system; more GPUs follow.
constexpr uint32_t kBuses[kMostGpus] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf,
                                        0x24, 0x4b, 0x5a, 0x69, 0xa5, 0xcb, 0xd9, 0xe7};

// A UUID that depends on the personality, the host's number and the index only, so that runs are
// alike. (FNV-1a, spread over 16 bytes; version 4 marks as real UUIDs have.)
std::array<uint8_t, 16> MakeUuid(const std::string& name, int host, int index) {
  uint64_t hash = 0xcbf29ce484222325;
  std::array<uint8_t, 16> uuid;
  std::string seed = absl::StrFormat("%s/%d", name, index);
  if (host > 0) absl::StrAppendFormat(&seed, "/%d", host);
  for (size_t i = 0; i < uuid.size(); ++i) {
    for (char c : seed) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    hash ^= i;
    uuid[i] = static_cast<uint8_t>(hash >> 24);
  }
  uuid[6] = (uuid[6] & 0x0f) | 0x40;
  uuid[8] = (uuid[8] & 0x3f) | 0x80;
  return uuid;
}

}  // namespace

std::string Gpu::pci_address() const { return absl::StrFormat("0000:%02x:00.0", bus); }

std::string Gpu::uuid_text() const {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", uuid[i]);
  }
  return text;
}

std::vector<Gpu> Machine::MakeGpus(const GpuProfile& profile, int count, int host) {
  std::vector<Gpu> gpus;
  for (int i = 0; i < count; ++i) {
    gpus.push_back({.index = i,
                    .bus = kBuses[i],
                    .uuid = MakeUuid(profile.name, host, i),
                    .heap = std::make_shared<VidmemHeap>(profile.memory.usable_mib << 20)});
  }
  return gpus;
}

Gpu* Machine::GpuById(uint32_t id) {
  for (Gpu& gpu : gpus) {
    if (gpu.id() == id) return &gpu;
  }
  return nullptr;
}

Gpu* Machine::GpuByUuid(const uint8_t* uuid) {
  for (Gpu& gpu : gpus) {
    if (std::memcmp(gpu.uuid.data(), uuid, gpu.uuid.size()) == 0) return &gpu;
  }
  return nullptr;
}

}  // namespace phantora
