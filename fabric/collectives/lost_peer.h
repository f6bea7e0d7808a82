// How long a connection tries to reach a peer to which the network has no way.
#ifndef PHANTORA_FABRIC_COLLECTIVES_LOST_PEER_H_
#define PHANTORA_FABRIC_COLLECTIVES_LOST_PEER_H_

#include <string>

#include "clock/virtual_time.h"
#include "fabric/cluster/cluster.h"

namespace phantora {

struct LostPeer {
  VirtualSpan after;  // NCCL is told then
  std::string error;  // what it makes of it, in words
};

// `ib_timeout` and `ib_retries` are NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT, -1 where not set.
//
// InfiniBand and RoCE: the interface sends again after 4.096 us x 2^timeout (the local ACK timeout
// of the InfiniBand specification, 9.7.6.1.3), `retries` times; NCCL sets 20 and 7
// (src/transport/net_ib.cc; 18 before 2.23), which are 34 s. TCP: 15 times, ever later, 924.6 s by
// Linux's defaults (Documentation/networking/ip-sysctl.rst, tcp_retries2).
LostPeer LostPeerOf(Cluster::Transport transport, int ib_timeout, int ib_retries);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_LOST_PEER_H_
