#include "trap/time/outside_peers.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace phantora {
namespace {

constexpr size_t kMostKept = 4096;

// An Internet address, IPv4 in IPv6 being IPv4; nullopt: another family.
std::optional<std::string> HostOf(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(name).sin_addr;
    return std::string(reinterpret_cast<const char*>(&v4), sizeof v4);
  }
  if (name.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
  const auto* bytes = reinterpret_cast<const char*>(&v6);
  return IN6_IS_ADDR_V4MAPPED(&v6) ? std::string(bytes + 12, 4) : std::string(bytes, sizeof v6);
}

bool IsLoopbackOrAny(const std::string& host) {
  if (host.size() == 4) return host[0] == 127 || host == std::string(4, '\0');
  in6_addr v6;
  std::memcpy(&v6, host.data(), sizeof v6);
  return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6);
}

bool IsOfThisMachine(const std::string& host) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    sockaddr_storage name{};
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::memcpy(&name, one->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found |= HostOf(name) == host;
  }
  freeifaddrs(all);
  return found;
}

}  // namespace

bool OutsidePeers::IsElsewhere(const sockaddr_storage& peer) {
  const auto host = HostOf(peer);
  return host && !IsLoopbackOrAny(*host) && !IsOfThisMachine(*host);
}

bool OutsidePeers::IsOutsideService(const sockaddr_storage& peer) {
  const auto host = HostOf(peer);
  const uint16_t port = ntohs(reinterpret_cast<const sockaddr_in6&>(peer).sin6_port);
  if (!host || host->size() != 4) return false;
  const std::string key = *host + std::to_string(port);
  if (services_.size() > kMostKept) services_.clear();
  const auto [known, is_new] = services_.try_emplace(key, false);
  if (!is_new) return known->second;
  std::vector<SocketEntry> sockets;
  in_addr address{};
  std::memcpy(&address, host->data(), sizeof address);
  for (const in_addr at : {address, in_addr{INADDR_ANY}}) {
    const auto found = SocketsAt(proc_, getpid(), SocketProtocol::kUdp, at, port);
    if (found) sockets.insert(sockets.end(), found->begin(), found->end());
  }
  const bool run_has_it =
      std::any_of(sockets.begin(), sockets.end(),
                  [this](const SocketEntry& socket) { return has_socket_(socket.inode); });
  return known->second = !run_has_it;
}

bool OutsidePeers::IsOutsideProcess(pid_t process) {
  if (process == getpid() || of_run_(process, false)) return false;
  if (strangers_.contains(process)) return true;
  if (process != 0 && of_run_(process, true)) return false;
  if (strangers_.size() > kMostKept) strangers_.clear();
  strangers_.insert(process);
  return true;
}

bool OutsidePeers::IsOutside(int socket, const sockaddr_storage* to) {
  sockaddr_storage peer{}, local{};
  socklen_t size = sizeof peer;
  if (to != nullptr) return IsElsewhere(*to) || IsOutsideService(*to);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  if (peer.ss_family == AF_UNIX) {
    // Who listened, or made the pair; 0 if this process cannot see it (SO_PEERCRED, unix(7)).
    ucred maker{};
    size = sizeof maker;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &maker, &size) != 0) return false;
    return IsOutsideProcess(maker.pid);
  }
  const auto host = HostOf(peer);
  if (!host) return false;
  size = sizeof local;
  getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size);
  // To itself, a machine speaks from the address that it speaks to.
  if (!IsLoopbackOrAny(*host) && HostOf(local) != host) return true;
  int type = 0;
  size = sizeof type;
  getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size);
  return type == SOCK_DGRAM && IsOutsideService(peer);
}

}  // namespace phantora
