#include "tools/executor/space_memory.h"

#include <iterator>
#include <string>

#include "absl/strings/str_format.h"
#include "tools/profiler/address_mirror.h"

namespace phantora {
namespace {

constexpr uint64_t kPiece = uint64_t{2} << 20;  // of video memory on all GPUs since Pascal
// libcuda gives addresses in these, and does not give all that is left of one of which it has given
// a part (seen with 550).
constexpr uint64_t kUnit = uint64_t{32} << 20;

}  // namespace

bool SpaceMemory::Reserve(uint64_t address) {
  const auto next = reserved_.upper_bound(address);
  if (next != reserved_.begin() && std::prev(next)->second > address) return true;
  for (const uint64_t unit : {kUnit, kPiece}) {
    const uint64_t begin = address / unit * unit;
    cuda::Pointer got = 0;
    if (api_.MemAddressReserve(&got, unit, 0, begin, 0) != cuda::kSuccess) continue;
    if (got == begin) {
      reserved_[begin] = begin + unit;
      return true;
    }
    api_.MemAddressFree(got, unit);
  }
  return false;
}

absl::Status SpaceMemory::MapPiece(uint64_t address) {
  if (!Reserve(address)) {
    const std::string taken = WhatLiesAt(address, address + kPiece);
    if (taken.empty()) return absl::OutOfRangeError("the driver library has its own there");
    return absl::AlreadyExistsError(absl::StrFormat(
        "%x cannot be had in the process that executes kernels: %s", address, taken));
  }
  cuda::AllocationProperties properties;
  properties.location.id = access_.location.id;
  cuda::Handle handle = 0;
  if (auto status = api_.Check(api_.MemCreate(&handle, kPiece, &properties, 0), "cuMemCreate");
      !status.ok()) {
    return absl::ResourceExhaustedError(status.message());
  }
  auto status = api_.Check(api_.MemMap(address, kPiece, 0, handle, 0), "cuMemMap");
  if (!status.ok()) {
    api_.MemRelease(handle);
    return status;
  }
  pieces_[address] = handle;
  status = api_.Check(api_.MemSetAccess(address, kPiece, &access_, 1), "cuMemSetAccess");
  if (!status.ok()) return status;
  return api_.Check(api_.MemsetD8Async(address, 0, kPiece, stream_), "cuMemsetD8Async");
}

absl::Status SpaceMemory::Map(uint64_t address, uint64_t pieces) {
  for (uint64_t i = 0; i < pieces; ++i) {
    if (auto status = MapPiece(address + i * kPiece); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SpaceMemory::Unmap(uint64_t address, uint64_t pieces) {
  // What was begun may use it still.
  if (auto status = api_.Check(api_.StreamSynchronize(stream_), "a kernel"); !status.ok()) {
    return status;
  }
  for (uint64_t i = 0; i < pieces; ++i) {
    const auto piece = pieces_.find(address + i * kPiece);
    if (piece == pieces_.end()) continue;
    if (auto status = api_.Check(api_.MemUnmap(piece->first, kPiece), "cuMemUnmap"); !status.ok()) {
      return status;
    }
    api_.MemRelease(piece->second);
    pieces_.erase(piece);
  }
  return absl::OkStatus();
}

}  // namespace phantora
