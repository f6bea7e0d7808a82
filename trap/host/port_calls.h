// Gives every virtual host ports of its own.
#ifndef PHANTORA_TRAP_HOST_PORT_CALLS_H_
#define PHANTORA_TRAP_HOST_PORT_CALLS_H_

#include <linux/seccomp.h>
#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/tracees.h"

namespace phantora {

// A TCP socket that a process binds to all addresses or to the loopback's is bound to its host's
// address instead, which is one of 127.0.0.0/8: so hosts, and other users of the machine, may use
// the same port. Where somebody has taken it even there (a server of all addresses), it is bound to
// any other one, and those who connect to it from within the cluster are led there.
//
// What connects to the loopback is led to its own host if a process there has bound the port, and
// else left alone: it may be a service of the machine. IPv6 sockets that take no IPv4, datagrams
// and other address families stay the machine's. Not thread-safe.
class PortCalls {
 public:
  // Of each host, network byte order.
  explicit PortCalls(std::vector<in_addr> addresses) : addresses_(std::move(addresses)) {}

  // bind and connect; false if the call is none of them.
  bool Serve(const seccomp_notif& notification, const Tracee& tracee, NotifyListener& listener);

 private:
  using HostPort = std::pair<int, uint16_t>;

  // 0 or an error number; nullopt: the kernel is to do it.
  std::optional<int> Bind(const seccomp_notif& notification, const Tracee& tracee);
  // Changes the address in the caller's memory if it has to go elsewhere.
  void Redirect(const seccomp_notif& notification, const Tracee& tracee) const;
  // The host that an address means for a process on `own`; nullopt: none of the cluster's.
  std::optional<int> HostOf(in_addr address, int own) const;

  const std::vector<in_addr> addresses_;
  absl::flat_hash_map<HostPort, uint16_t> bound_;  // the port that it really is
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_HOST_PORT_CALLS_H_
