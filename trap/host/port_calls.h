// Gives every virtual host ports of its own.
#ifndef PHANTORA_TRAP_HOST_PORT_CALLS_H_
#define PHANTORA_TRAP_HOST_PORT_CALLS_H_

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/linux/proc.h"
#include "trap/linux/socket_table.h"
#include "trap/linux/trapped_call.h"

namespace phantora {

// A TCP socket that a process binds to all addresses or to the loopback's is bound to its host's
// address instead, which is one of 127.0.0.0/8: so hosts, and other users of the machine, may use
// the same port. Where somebody has taken it even there (a server of all addresses), it is bound to
// any other one, and those who connect to it from within the cluster are led there.
//
// What connects to the loopback is led to its own host if a process there has bound the port, and
// else left alone: it may be a service of the machine. What connects to a host by its address, or
// is led there, finds a listener of that address or is refused: a listener of all addresses is
// somebody else's. IPv6 sockets that take no IPv4, datagrams and other address families stay the
// machine's. Not thread-safe.
class PortCalls {
 public:
  // Does some process of the run still have the socket with this inode?
  using SocketLives = std::function<bool(ino_t)>;

  // `addresses`: of each host, network byte order.
  explicit PortCalls(std::vector<in_addr> addresses, SocketLives lives = DescendantHasSocket,
                     const Proc& proc = Proc::Host())
      : addresses_(std::move(addresses)), lives_(std::move(lives)), proc_(proc) {}

  // bind and connect; false if the call is none of them.
  bool Serve(const TrappedCall& call);

 private:
  using HostPort = std::pair<int, uint16_t>;
  struct Bound {
    uint16_t port;  // that it really is
    ino_t socket;
  };

  // Who has the port of the host, as far as it is known here; nullptr: nobody any more.
  const Bound* Holder(HostPort port);

  // 0 or an error number; nullopt: the kernel is to do it.
  std::optional<int> Bind(const TrappedCall& call);
  // Changes the address in the caller's memory if it has to go elsewhere. ECONNREFUSED, or nullopt:
  // the kernel is to do it.
  std::optional<int> Connect(const TrappedCall& call);
  // Does a socket listen at exactly this address, as the caller's network has it?
  bool Listens(pid_t caller, in_addr address, uint16_t port) const;
  // The host that an address means for a process on `own`; nullopt: none of the cluster's.
  std::optional<int> HostOf(in_addr address, int own) const;

  const std::vector<in_addr> addresses_;
  const SocketLives lives_;
  const Proc& proc_;
  absl::flat_hash_map<HostPort, Bound> bound_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_HOST_PORT_CALLS_H_
