// Who is at the other end of a socket: somebody of the run, or of the world outside.
#ifndef PHANTORA_TRAP_TIME_OUTSIDE_PEERS_H_
#define PHANTORA_TRAP_TIME_OUTSIDE_PEERS_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "trap/linux/proc.h"
#include "trap/linux/socket_table.h"

namespace phantora {

// Outside are other machines, services of this one that are asked with datagrams (a name server at
// 127.0.0.53), and unix sockets of processes that are not of the run. Who is connected by TCP to an
// address of this machine is taken to be of the run.
class OutsidePeers {
 public:
  // Is it a process of the run? `thorough`: also one that has not been heard of.
  using OfRun = std::function<bool(pid_t, bool thorough)>;
  using RunHasSocket = std::function<bool(ino_t)>;

  explicit OutsidePeers(OfRun of_run, RunHasSocket has_socket = DescendantHasSocket,
                        const Proc& proc = Proc::Host())
      : of_run_(std::move(of_run)), has_socket_(std::move(has_socket)), proc_(proc) {}

  // `socket` is a copy of a rank's, which sends to `to`, or with nullptr to whom it is connected
  // to. False if that is nobody.
  bool IsOutside(int socket, const sockaddr_storage* to = nullptr);
  // A rank connects it to `peer`, an Internet address: another machine's?
  static bool IsElsewhere(const sockaddr_storage& peer);

 private:
  bool IsOutsideService(const sockaddr_storage& peer);
  bool IsOutsideProcess(pid_t process);

  const OfRun of_run_;
  const RunHasSocket has_socket_;
  const Proc& proc_;
  // Kept, since to find them takes looks at all processes: by address, of those that were asked
  // with datagrams, and processes that were not of the run.
  absl::flat_hash_map<std::string, bool> services_;
  absl::flat_hash_set<pid_t> strangers_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_OUTSIDE_PEERS_H_
