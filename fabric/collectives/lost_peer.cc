#include "fabric/collectives/lost_peer.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace phantora {
namespace {

constexpr int kTimeout = 20, kMostTimeout = 31;  // of five bits
constexpr int kRetries = 7, kMostRetries = 7;    // of three
constexpr VirtualSpan kTimeoutUnit = VirtualSpan::Nanoseconds(4096);
constexpr VirtualSpan kTcp = VirtualSpan::Microseconds(924'600'000);

}  // namespace

LostPeer LostPeerOf(Cluster::Transport transport, int ib_timeout, int ib_retries) {
  if (transport == Cluster::Transport::kEthernet) {
    return {
        kTcp,
        "NCCL's sockets would end with \"Connection timed out\" (ncclRemoteError) after 924.6 s "
        "(tcp_retries2)"};
  }
  // 0 is for ever in InfiniBand; nobody waits for that.
  const int timeout = ib_timeout <= 0 ? kTimeout : std::min(ib_timeout, kMostTimeout);
  const int retries = ib_retries < 0 ? kRetries : std::min(ib_retries, kMostRetries);
  const VirtualSpan after = kTimeoutUnit * (int64_t{1} << timeout) * (retries + 1);
  return {after, absl::StrFormat(
                     "NCCL would end with IBV_WC_RETRY_EXC_ERR (ncclRemoteError) after %.3g s: "
                     "%d retries, NCCL_IB_TIMEOUT %d",
                     static_cast<double>(after.picoseconds()) * 1e-12, retries, timeout)};
}

}  // namespace phantora
