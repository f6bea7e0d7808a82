// What happens to a cluster's network while a program runs, as its file says it.
#ifndef PHANTORA_FABRIC_NETWORK_NETWORK_EVENT_H_
#define PHANTORA_FABRIC_NETWORK_NETWORK_EVENT_H_

#include <string>

#include "clock/virtual_time.h"

namespace phantora {

struct NetworkEvent {
  enum class Kind { kDown, kUp, kCapacity, kTraffic };
  Kind kind = Kind::kDown;
  VirtualSpan at;     // since the start of the run
  std::string where;  // "my.yaml:12", for messages

  // A link ("leaf 3 to spine 1"), or a switch or interface ("spine 1", "host 2 NIC 5"), which
  // stands for all of its links.
  std::string what;
  double share = 1;  // kCapacity: of what the link had at first, both ways

  // kTraffic: between two interfaces, of others than the program.
  std::string from, to;
  double bytes_per_s = 0;  // at most, headers included
  VirtualSpan until;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_NETWORK_NETWORK_EVENT_H_
