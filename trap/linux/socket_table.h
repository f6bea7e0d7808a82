// Which sockets have an address, and whether the run has them.
#ifndef PHANTORA_TRAP_LINUX_SOCKET_TABLE_H_
#define PHANTORA_TRAP_LINUX_SOCKET_TABLE_H_

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "trap/linux/proc.h"

namespace phantora {

enum class SocketProtocol { kTcp, kUdp };

struct SocketEntry {
  ino_t inode = 0;
  int state = 0;  // TCP_LISTEN etc. (netinet/tcp.h)
};

// The sockets of the network of `process` that are bound to exactly this IPv4 address (in network
// byte order; IPv4 in IPv6 is IPv4, and `::` is any address) and this port (/proc/PID/net/tcp and
// the like, see proc_net_tcp). nullopt if there are no such tables.
std::optional<std::vector<SocketEntry>> SocketsAt(const Proc& proc, pid_t process,
                                                  SocketProtocol protocol, in_addr address,
                                                  uint16_t port);

// Has some descendant of this process a socket with this inode?
bool DescendantHasSocket(ino_t inode);

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_SOCKET_TABLE_H_
