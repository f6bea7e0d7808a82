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

std::optional<TransferCall> TransferCall::Parse(const CallArguments& call,
                                                const RemoteMemory& memory) {
  TransferCall transfer{.kind = Kind::kReceive, .descriptor = call.Int(0)};
  uint64_t flags = 0;
  switch (call.number()) {
    case SYS_write:
      transfer.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_read:
      transfer.bytes = call.Word(2);
      transfer.on_files = true;
      break;
    case SYS_writev:
      transfer.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_readv:
      transfer.bytes = PiecesBytes(memory, call.Word(1), call.Word(2));
      transfer.on_files = true;
      break;
    case SYS_sendto:
      transfer.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_recvfrom:
      transfer.bytes = call.Word(2);
      flags = call.Word(3);
      break;
    case SYS_sendmsg:
      transfer.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_recvmsg:
      transfer.bytes = MessageBytes(memory, call.Word(1));
      flags = call.Word(2);
      break;
    case SYS_sendmmsg:
      transfer.kind = Kind::kSend;
      [[fallthrough]];
    case SYS_recvmmsg:
      transfer.bytes = MessagesBytes(memory, call.Word(1), static_cast<uint32_t>(call.Word(2)));
      flags = call.Word(3);
      break;
    case SYS_accept:
    case SYS_accept4:
      transfer.kind = Kind::kAccept;
      break;
    default:
      return std::nullopt;
  }
  transfer.error_queue = (flags & MSG_ERRQUEUE) != 0;
  transfer.dont_wait = transfer.error_queue || (flags & MSG_DONTWAIT) != 0;
  return transfer;
}

}  // namespace phantora
