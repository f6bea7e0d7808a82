// Which addresses of the loopback are a run's own.
#ifndef PHANTORA_TOOLS_RUN_RUN_NETWORK_H_
#define PHANTORA_TOOLS_RUN_RUN_NETWORK_H_

#include <utility>

#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// Hosts of a run have addresses in 127.number().0.0/16. Runs at one time on one machine, of
// whatever user, have different ones: each keeps a port of its network bound, which the kernel
// gives to one.
class RunNetwork {
 public:
  // The first that is free, beginning somewhere among them. Errors: all are taken.
  static absl::StatusOr<RunNetwork> Take();

  int number() const { return number_; }

 private:
  RunNetwork(int number, UniqueFd lock) : number_(number), lock_(std::move(lock)) {}

  int number_;
  UniqueFd lock_;  // as long as it is open, nobody else takes the network
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_RUN_NETWORK_H_
