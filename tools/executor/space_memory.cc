#include "tools/executor/space_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

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

bool SpaceMemory::TryReserve(uint64_t address) {
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

absl::Status SpaceMemory::Reserve(uint64_t address) {
  if (TryReserve(address)) return absl::OkStatus();
  const std::string taken = WhatLiesAt(address, address + kPiece);
  if (taken.empty()) return absl::OutOfRangeError("the driver library has its own there");
  return absl::AlreadyExistsError(
      absl::StrFormat("%x cannot be had in the process that executes kernels: %s", address, taken));
}

absl::Status SpaceMemory::Map(uint64_t address) {
  cuda::AllocationProperties properties;
  properties.location.id = access_.location.id;
  cuda::Handle handle = 0;
  auto status = api_.Check(api_.MemCreate(&handle, kPiece, &properties, 0),
                           "cuMemCreate (see --execute-memory)");
  if (!status.ok()) return status;
  status = api_.Check(api_.MemMap(address, kPiece, 0, handle, 0), "cuMemMap");
  if (!status.ok()) {
    api_.MemRelease(handle);
    return status;
  }
  pieces_[address] = handle;
  status = api_.Check(api_.MemSetAccess(address, kPiece, &access_, 1), "cuMemSetAccess");
  if (!status.ok()) return status;
  return api_.Check(api_.MemsetD8Async(address, 0, kPiece, stream_), "cuMemsetD8Async");
}

absl::Status SpaceMemory::Unmap(uint64_t address) {
  // What was begun may use it still.
  if (auto status = api_.Check(api_.StreamSynchronize(stream_), "a kernel"); !status.ok()) {
    return status;
  }
  const auto piece = pieces_.find(address);
  if (piece == pieces_.end()) return absl::OkStatus();
  if (auto status = api_.Check(api_.MemUnmap(address, kPiece), "cuMemUnmap"); !status.ok()) {
    return status;
  }
  api_.MemRelease(piece->second);
  pieces_.erase(piece);
  return absl::OkStatus();
}

absl::Status SpaceMemory::MapHost(uint64_t address, uint64_t bytes, int file, uint64_t offset) {
  void* const wanted = reinterpret_cast<void*>(address);
  void* const got = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                         file, static_cast<off_t>(offset));
  if (got != wanted) {
    const int error = errno;
    if (got != MAP_FAILED) munmap(got, bytes);
    const std::string taken = WhatLiesAt(address, address + bytes);
    if (taken.empty()) return absl::OutOfRangeError("the driver library has its own there");
    return absl::AlreadyExistsError(
        absl::StrFormat("%x cannot be mapped: %s: %s", address, strerror(error), taken));
  }
  auto status = api_.Check(api_.MemHostRegister(wanted, bytes, cuda::kHostRegisterDeviceMap),
                           "cuMemHostRegister");
  cuda::Pointer seen = 0;
  if (status.ok()) {
    status =
        api_.Check(api_.MemHostGetDevicePointer(&seen, wanted, 0), "cuMemHostGetDevicePointer");
    if (status.ok() && seen == address) return absl::OkStatus();
    api_.MemHostUnregister(wanted);
  }
  munmap(wanted, bytes);
  return absl::FailedPreconditionError(
      absl::StrFormat("memory of the host cannot be shared with the GPU: %s",
                      status.ok() ? "it sees it elsewhere" : std::string(status.message())));
}

absl::Status SpaceMemory::UnmapHost(uint64_t address, uint64_t bytes) {
  if (auto status = api_.Check(api_.StreamSynchronize(stream_), "a kernel"); !status.ok()) {
    return status;
  }
  void* const at = reinterpret_cast<void*>(address);
  auto status = api_.Check(api_.MemHostUnregister(at), "cuMemHostUnregister");
  munmap(at, bytes);
  return status;
}

}  // namespace phantora
