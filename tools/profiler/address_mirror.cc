#include "tools/profiler/address_mirror.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"

namespace phantora {
namespace {

constexpr uint64_t kPage = 2 << 20;  // of video memory on all GPUs since Pascal
// libcuda gives addresses in these, and does not give all that is left of one of which it has given
// a part (seen with 550).
constexpr uint64_t kUnit = 32 << 20;
constexpr uint64_t kSmallPieces = 16;
constexpr uint64_t kLargePieces = 4;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;  // of one range

}  // namespace

absl::StatusOr<std::unique_ptr<AddressMirror>> AddressMirror::Create(const cuda::Api& api,
                                                                     cuda::Device device,
                                                                     uint64_t pool_bytes) {
  std::unique_ptr<AddressMirror> mirror(new AddressMirror(api, device));
  const uint64_t small_bytes = kSmallPieces * kPage;
  const uint64_t rest = pool_bytes > small_bytes ? pool_bytes - small_bytes : 0;
  const uint64_t unit = kLargePieces * kPage;
  const uint64_t large = std::max<uint64_t>(1, (rest + unit - 1) / unit) * kPage;
  cuda::AllocationProperties properties;
  properties.location.id = device;
  const auto add = [&](uint64_t bytes, std::vector<Piece>& pieces) {
    Piece piece = {.handle = 0, .bytes = bytes};
    auto status = api.Check(api.MemCreate(&piece.handle, bytes, &properties, 0), "cuMemCreate");
    if (status.ok()) pieces.push_back(piece);
    return status;
  };
  for (uint64_t i = 0; i < kLargePieces; ++i) {
    if (auto status = add(large, mirror->large_); !status.ok()) return status;
  }
  for (uint64_t i = 0; i < kSmallPieces; ++i) {
    if (auto status = add(kPage, mirror->small_); !status.ok()) return status;
  }
  mirror->window_bytes_ = kLargePieces * large + small_bytes;
  // The pattern lies behind the pool in the same window, in a piece of its own.
  const uint64_t whole = mirror->window_bytes_ + kPage;
  std::vector<Piece> pieces = mirror->large_;
  pieces.insert(pieces.end(), mirror->small_.begin(), mirror->small_.end());
  if (auto status = add(kPage, pieces); !status.ok()) return status;
  if (auto status =
          api.Check(api.MemAddressReserve(&mirror->window_, whole, 0, 0, 0), "cuMemAddressReserve");
      !status.ok()) {
    return status;
  }
  uint64_t at = mirror->window_;
  for (const Piece& piece : pieces) {
    auto status = api.Check(api.MemMap(at, piece.bytes, 0, piece.handle, 0), "cuMemMap");
    if (!status.ok()) return status;
    at += piece.bytes;
  }
  if (auto status = api.Check(api.MemSetAccess(mirror->window_, whole, &mirror->access_, 1),
                              "cuMemSetAccess");
      !status.ok()) {
    return status;
  }
  mirror->pattern_ = mirror->window_ + mirror->window_bytes_;
  // Signs and mantissas at random, exponents of 1/2 to 1/16 (of bfloat16).
  std::vector<uint16_t> numbers(kPage / 2);
  std::mt19937 random(1);
  for (uint16_t& number : numbers) {
    number = static_cast<uint16_t>((random() & 0x807f) | ((123 + random() % 4) << 7));
  }
  auto status = api.Check(api.MemcpyHtoD(mirror->pattern_, numbers.data(), kPage), "cuMemcpyHtoD");
  if (!status.ok()) return status;
  return mirror;
}

absl::Status AddressMirror::MapGap(uint64_t begin, uint64_t bytes) {
  cuda::Pointer got = 0;
  auto status = api_.Check(api_.MemAddressReserve(&got, bytes, 0, begin, 0), "cuMemAddressReserve");
  if (!status.ok()) return status;
  if (got != begin) {
    api_.MemAddressFree(got, bytes);
    const std::string taken = WhatLiesAt(begin, begin + bytes);
    if (taken.empty()) {
      mapped_[begin] = begin + bytes;
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(
        absl::StrFormat("%x to %x cannot be had here: %s", begin, begin + bytes, taken));
  }
  uint64_t at = begin;
  while (status.ok() && at < begin + bytes) {
    const uint64_t left = begin + bytes - at;
    const bool large = left >= large_[0].bytes;
    const Piece& piece =
        large ? large_[next_large_++ % large_.size()] : small_[next_small_++ % small_.size()];
    status = api_.Check(api_.MemMap(at, piece.bytes, 0, piece.handle, 0), "cuMemMap");
    at += piece.bytes;
  }
  if (status.ok()) {
    status = api_.Check(api_.MemSetAccess(begin, bytes, &access_, 1), "cuMemSetAccess");
  }
  if (status.ok()) mapped_[begin] = begin + bytes;
  return status;
}

std::string WhatLiesAt(uint64_t begin, uint64_t end) {
  std::ifstream maps("/proc/self/maps");
  bool any = false;
  for (std::string line; std::getline(maps, line);) {
    uint64_t from = 0, to = 0;
    char permissions[5] = {};
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %*u %n", &from, &to,
                    permissions, &name) < 3 ||
        to <= begin || from >= end) {
      continue;
    }
    any = true;
    // Reserved, or mapped from one of its files; on an emulated GPU those are the emulator's.
    const bool reserved = std::string_view(permissions).substr(0, 3) == "---";
    const std::string_view file = std::string_view(line).substr(static_cast<size_t>(name));
    if (!reserved && file.find("/dev/") == file.npos &&
        file.find("/memfd:phantora-") == file.npos) {
      return line;
    }
  }
  return any ? "" : "nothing lies there, but the driver does not give it";
}

absl::Status AddressMirror::MapRange(uint64_t first, uint64_t length, uint64_t unit) {
  uint64_t begin = first & ~(unit - 1);
  const uint64_t end = (first + length + unit - 1) & ~(unit - 1);
  // What is not there yet of it.
  while (begin < end) {
    auto next = mapped_.upper_bound(begin);
    if (next != mapped_.begin() && std::prev(next)->second > begin) {
      begin = std::prev(next)->second;
      continue;
    }
    const uint64_t gap_end = next == mapped_.end() ? end : std::min(end, next->first);
    if (auto status = MapGap(begin, gap_end - begin); !status.ok()) return status;
    begin = gap_end;
  }
  return absl::OkStatus();
}

absl::Status AddressMirror::Map(const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
  for (const auto& [first, length] : ranges) {
    if (length > kMostBytes || first + length < first || first + length > UINT64_MAX - kUnit) {
      return absl::InvalidArgumentError("a range of memory is too large");
    }
    auto status = MapRange(first, length, kUnit);
    if (absl::IsAlreadyExists(status)) status = MapRange(first, length, kPage);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status AddressMirror::Fill(bool zeros, cuda::Stream stream) {
  if (zeros) {
    return api_.Check(api_.MemsetD8Async(window_, 0, window_bytes_, stream), "cuMemsetD8Async");
  }
  for (uint64_t at = 0; at < window_bytes_; at += kPage) {
    auto status = api_.Check(api_.MemcpyDtoDAsync(window_ + at, pattern_, kPage, stream),
                             "cuMemcpyDtoDAsync");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace phantora
