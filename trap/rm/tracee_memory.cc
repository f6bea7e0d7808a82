#include "trap/rm/tracee_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trap/linux/proc.h"

namespace phantora {
namespace {

// Calls `move(done, length left)`, which moves some bytes as pread does, until all are moved.
template <typename Move>
bool MoveAll(uint64_t length, Move move) {
  for (uint64_t done = 0; done < length;) {
    const ssize_t moved = move(done, length - done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;  // 0: the address space has ended
    done += moved;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TraceeAddressSpace>> TraceeAddressSpace::Open(pid_t process) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  UniqueFd file = Proc::Host().Open(process, "mem", O_RDWR);
  if (!file.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the memory of process ", process));
  }
  return std::shared_ptr<TraceeAddressSpace>(
      new TraceeAddressSpace(process, std::move(pidfd), std::move(file)));
}

bool TraceeAddressSpace::ReadByNumber(RemoteAddress from, void* out, uint64_t length) const {
  // What has been read was the process's if it and its address space are there still: the number of
  // one that has died is free only later. There is no such way to write, where it would have to be
  // known before.
  if (!pidfd_.valid() || !RemoteMemory(process_).Read(from, out, length)) return false;
  pollfd death{pidfd_.get(), POLLIN, 0};
  return poll(&death, 1, 0) == 0 && !HasEnded();
}

bool TraceeAddressSpace::Read(RemoteAddress from, void* out, uint64_t length) const {
  // The kernel copies what it reads of the file twice (fs/proc/base.c mem_rw).
  constexpr uint64_t kMuch = 64 << 10;
  if (length >= kMuch && ReadByNumber(from, out, length)) return true;
  return MoveAll(length, [&](uint64_t done, uint64_t left) {
    return pread(file_.get(), static_cast<uint8_t*>(out) + done, left,
                 static_cast<off_t>(from + done));
  });
}

bool TraceeAddressSpace::Write(RemoteAddress to, const void* data, uint64_t length) const {
  return MoveAll(length, [&](uint64_t done, uint64_t left) {
    return pwrite(file_.get(), static_cast<const uint8_t*>(data) + done, left,
                  static_cast<off_t>(to + done));
  });
}

bool TraceeAddressSpace::HasEnded() const {
  // Nothing is at address 0 in a living one: EIO (mem_rw in fs/proc/base.c).
  char byte;
  return pread(file_.get(), &byte, 1, 0) == 0;
}

absl::StatusOr<std::shared_ptr<TraceeAddressSpace>> TraceeAddressSpaces::Of(pid_t process) {
  std::weak_ptr<TraceeAddressSpace>& known = spaces_[process];
  // It may have executed another program since.
  if (auto space = known.lock(); space != nullptr && !space->HasEnded()) return space;
  auto space = TraceeAddressSpace::Open(process);
  if (space.ok()) known = *space;
  return space;
}

bool TraceeMemory::Zero(uint64_t offset, uint64_t length) {
  static constexpr uint8_t kZeros[64 << 10] = {};
  std::vector<uint8_t> old(std::min<uint64_t>(length, sizeof kZeros));
  while (length > 0) {
    const uint64_t piece = std::min<uint64_t>(length, sizeof kZeros);
    // Writing zeros to what the process has never touched would make memory of it.
    if (!Read(offset, old.data(), piece)) return false;
    if (std::memcmp(old.data(), kZeros, piece) != 0 && !Write(offset, kZeros, piece)) return false;
    offset += piece, length -= piece;
  }
  return true;
}

}  // namespace phantora
