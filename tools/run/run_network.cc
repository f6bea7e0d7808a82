#include "tools/run/run_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// Those below are left to others who use addresses of the loopback.
constexpr int kFirst = 100, kEnd = 255;
// The address 127.N.255.254 and port that a run keeps; no host of a cluster has it.
constexpr uint32_t kLockHost = 0xfffe;
constexpr uint16_t kLockPort = 1023 + 77;

// Invalid if somebody has it.
UniqueFd Lock(int number) {
  UniqueFd lock(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kLockPort);
  address.sin_addr.s_addr =
      htonl(uint32_t{127} << 24 | static_cast<uint32_t>(number) << 16 | kLockHost);
  // Without SO_REUSEADDR one socket has it.
  if (!lock.valid() ||
      bind(lock.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  return lock;
}

}  // namespace

absl::StatusOr<RunNetwork> RunNetwork::Take() {
  const int start = static_cast<int>(getpid()) % (kEnd - kFirst);
  int error = 0;
  for (int i = 0; i < kEnd - kFirst; ++i) {
    const int number = kFirst + (start + i) % (kEnd - kFirst);
    UniqueFd lock = Lock(number);
    if (lock.valid()) return RunNetwork(number, std::move(lock));
    error = errno;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("none of the networks 127.", kFirst, ".0.0/16 to 127.", kEnd - 1,
                   ".0.0/16 is free for this run's hosts: ", std::strerror(error),
                   "; so many runs of clusters go on at once, or addresses of the loopback cannot "
                   "be used here"));
}

}  // namespace phantora
