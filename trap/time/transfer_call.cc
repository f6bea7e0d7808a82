#include "trap/time/transfer_call.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <vector>

#include "trap/linux/remote_memory.h"

namespace phantora {
namespace {

// The kernel's limit of pieces (UIO_MAXIOV).
constexpr uint64_t kMostPieces = 1024;

uint64_t PiecesBytes(const RemoteMemory& memory, uint64_t address, uint64_t count) {
  std::vector<iovec> pieces(std::min(count, kMostPieces));
  uint64_t bytes = 0;
  if (!memory.Read(RemoteAddress{address}, pieces.data(), pieces.size() * sizeof(iovec))) return 0;
  for (const iovec& piece : pieces) bytes += std::min<uint64_t>(piece.iov_len, 1u << 31);
  return bytes;
}

uint64_t MessageBytes(const RemoteMemory& memory, uint64_t address) {
  const auto message = memory.ReadObject<msghdr>(RemoteAddress{address});
  if (!message) return 0;
  return PiecesBytes(memory, reinterpret_cast<uint64_t>(message->msg_iov), message->msg_iovlen);
}

uint64_t MessagesBytes(const RemoteMemory& memory, uint64_t address, uint64_t count) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < std::min(count, kMostPieces); ++i) {
    bytes += MessageBytes(memory, address + i * sizeof(mmsghdr));
  }
  return bytes;
}

}  // namespace

std::optional<TransferCall> TransferCall::Parse(const seccomp_notif& notification) {
  const auto& arguments = notification.data.args;
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  TransferCall call{.kind = Kind::kReceive, .descriptor = static_cast<int>(arguments[0])};
  uint64_t flags = 0;
  switch (notification.data.nr) {
    case SYS_write:
      call.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_read:
      call.bytes = arguments[2];
      call.on_files = true;
      break;
    case SYS_writev:
      call.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_readv:
      call.bytes = PiecesBytes(memory, arguments[1], arguments[2]);
      call.on_files = true;
      break;
    case SYS_sendto:
      call.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_recvfrom:
      call.bytes = arguments[2];
      flags = arguments[3];
      break;
    case SYS_sendmsg:
      call.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_recvmsg:
      call.bytes = MessageBytes(memory, arguments[1]);
      flags = arguments[2];
      break;
    case SYS_sendmmsg:
      call.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_recvmmsg:
      call.bytes = MessagesBytes(memory, arguments[1], static_cast<uint32_t>(arguments[2]));
      flags = arguments[3];
      break;
    case SYS_accept:
    case SYS_accept4:
      call.kind = Kind::kAccept;
      break;
    default:
      return std::nullopt;
  }
  call.error_queue = (flags & MSG_ERRQUEUE) != 0;
  call.dont_wait = call.error_queue || (flags & MSG_DONTWAIT) != 0;
  return call;
}

}  // namespace phantora
