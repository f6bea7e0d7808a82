#include "trap/host/port_calls.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "trap/linux/descriptor_copy.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

// An Internet address as a process gives it, seen as IPv4.
struct SocketAddress {
  union {
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;

  static std::optional<SocketAddress> Read(const TrappedCall& call, uint64_t at, uint64_t length) {
    SocketAddress address;
    std::memset(&address.v6, 0, sizeof address.v6);
    address.length = static_cast<socklen_t>(std::min<uint64_t>(length, sizeof address.v6));
    if (address.length < sizeof address.v4) return std::nullopt;
    if (!call.memory().Read(RemoteAddress{at}, &address.v6, address.length)) return std::nullopt;
    const bool is_v4 = address.v4.sin_family == AF_INET;
    const bool is_v6 = address.v4.sin_family == AF_INET6 && address.length == sizeof address.v6;
    if (!is_v4 && !is_v6) return std::nullopt;
    if (is_v4) address.length = sizeof address.v4;
    return address;
  }

  bool is_v6() const { return v4.sin_family == AF_INET6; }
  uint16_t port() const { return ntohs(v4.sin_port); }  // at the same place in both
  void SetPort(uint16_t port) { v4.sin_port = htons(port); }
  // nullopt: one that only IPv6 has.
  std::optional<in_addr> Get() const {
    if (!is_v6()) return v4.sin_addr;
    in_addr address{};
    if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) return address;
    if (IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) {
      address.s_addr = htonl(INADDR_LOOPBACK);
      return address;
    }
    if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return std::nullopt;
    std::memcpy(&address, v6.sin6_addr.s6_addr + 12, sizeof address);
    return address;
  }
  void Set(in_addr address) {
    if (!is_v6()) {
      v4.sin_addr = address;
      return;
    }
    std::memset(&v6.sin6_addr, 0, 10);
    std::memset(v6.sin6_addr.s6_addr + 10, 0xff, 2);
    std::memcpy(v6.sin6_addr.s6_addr + 12, &address, sizeof address);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&v6); }
};

int Option(int socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(socket, level, option, &value, &size) == 0 ? value : -1;
}

// The caller's socket, if it is one of TCP that can have IPv4 addresses.
DescriptorCopy TcpSocket(const TrappedCall& call, bool is_v6) {
  DescriptorCopy socket = DescriptorCopy::Of(call.tracee().pidfd.get(), call.Int(0));
  if (!socket.valid() || Option(socket.get(), SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP) return {};
  if (is_v6 && Option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY) != 0) return {};
  return socket;
}

uint16_t PortOf(int socket) {
  sockaddr_in6 name{};
  socklen_t size = sizeof name;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.sin6_port);  // of IPv4, it is in the same place
}

bool IsLoopback(in_addr address) { return ntohl(address.s_addr) >> 16 == 127 << 8; }

}  // namespace

std::optional<int> PortCalls::HostOf(in_addr address, int own) const {
  if (address.s_addr == htonl(INADDR_ANY) || IsLoopback(address)) return own;
  for (size_t host = 0; host < addresses_.size(); ++host) {
    if (addresses_[host].s_addr == address.s_addr) return static_cast<int>(host);
  }
  return std::nullopt;
}

std::optional<int> PortCalls::Bind(const TrappedCall& call) {
  auto address = SocketAddress::Read(call, call.Word(1), static_cast<uint32_t>(call.Word(2)));
  const auto wanted = address ? address->Get() : std::nullopt;
  if (!wanted || HostOf(*wanted, call.tracee().host) != call.tracee().host) return std::nullopt;
  const DescriptorCopy socket = TcpSocket(call, address->is_v6());
  if (!socket.valid()) return std::nullopt;
  const uint16_t port = address->port();
  address->Set(addresses_[static_cast<size_t>(call.tracee().host)]);
  if (bind(socket.get(), address->get(), address->length) != 0) {
    // Taken by another process of this host, as it would be on a machine of its own?
    const int error = errno;
    if (error != EADDRINUSE || port == 0 || Holder({call.tracee().host, port}) != nullptr)
      return error;
    address->SetPort(0);
    if (bind(socket.get(), address->get(), address->length) != 0) return errno;
  }
  const uint16_t real = PortOf(socket.get());
  struct stat status {};
  if (real != 0 && fstat(socket.get(), &status) == 0) {
    bound_[{call.tracee().host, port == 0 ? real : port}] = {real, status.st_ino};
  }
  return 0;
}

const PortCalls::Bound* PortCalls::Holder(HostPort port) {
  const auto found = bound_.find(port);
  if (found == bound_.end()) return nullptr;
  if (lives_(found->second.socket)) return &found->second;
  bound_.erase(found);
  return nullptr;
}

bool PortCalls::Listens(pid_t caller, in_addr address, uint16_t port) const {
  const auto sockets = SocketsAt(proc_, caller, SocketProtocol::kTcp, address, port);
  if (!sockets) return true;  // there is no table to look it up: the kernel decides
  return std::any_of(sockets->begin(), sockets->end(),
                     [](const SocketEntry& socket) { return socket.state == TCP_LISTEN; });
}

std::optional<int> PortCalls::Connect(const TrappedCall& call) {
  auto address = SocketAddress::Read(call, call.Word(1), static_cast<uint32_t>(call.Word(2)));
  const auto wanted = address ? address->Get() : std::nullopt;
  const auto host = wanted ? HostOf(*wanted, call.tracee().host) : std::nullopt;
  if (!host) return std::nullopt;
  const in_addr target = addresses_[static_cast<size_t>(*host)];
  const bool named = target.s_addr == wanted->s_addr;
  const HostPort port{*host, address->port()};
  auto found = bound_.find(port);
  if (found == bound_.end() && !named) return std::nullopt;
  if (!TcpSocket(call, address->is_v6()).valid()) return std::nullopt;
  // A port that is another one really may be anybody's by now.
  if (found != bound_.end() && found->second.port != address->port() && Holder(port) == nullptr) {
    if (!named) return std::nullopt;
    found = bound_.end();
  }
  const uint16_t real = found == bound_.end() ? address->port() : found->second.port;
  if (!Listens(call.thread(), target, real)) {
    // The loopback may be asked for a service of the machine, unless a process here has the port.
    return named || Holder(port) != nullptr ? std::optional(ECONNREFUSED) : std::nullopt;
  }
  if (named && real == address->port()) return std::nullopt;
  address->Set(target);
  address->SetPort(real);
  // Memory that cannot be written keeps what it has: then the connection is refused.
  call.memory().Write(call.Address(1), &address->v6, address->length);
  return std::nullopt;
}

bool PortCalls::Serve(const TrappedCall& call) {
  const bool binds = call.number() == SYS_bind;
  if (!binds && call.number() != SYS_connect) return false;
  if (static_cast<size_t>(call.tracee().host) < addresses_.size()) {
    if (const auto error = binds ? Bind(call) : Connect(call)) {
      if (*error == 0) {
        call.Value(0);
      } else {
        call.Error(*error);
      }
      return true;
    }
  }
  call.Continue();
  return true;
}

}  // namespace phantora
