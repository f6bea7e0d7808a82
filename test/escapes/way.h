// Ways that a program may try to get at a real GPU's nodes, at the supervisor, or at what is not
// its own run's. Each runs in a process of its own.
#ifndef PHANTORA_TEST_ESCAPES_WAY_H_
#define PHANTORA_TEST_ESCAPES_WAY_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace phantora::escapes {

// What came of it. "reached": a real node was opened, or something outside of the run was changed.
// "emulated": it was the emulated device that opened; an errno's name, as EACCES: refused; anything
// else is said in words.
using Outcome = std::string;

struct Way {
  std::string name;
  std::function<Outcome()> take;
};

// The files that stand for real nodes hold this.
inline constexpr char kReal[] = "real";
// One that the emulated machine has and the real one, too; one that only the real one has.
inline constexpr char kNode[] = "/dev/nvidia0", kHidden[] = "/dev/nvidia7";

// The name of the error.
Outcome Error(int error);
// Of a descriptor, which it closes; of a negative one, errno.
Outcome Opened(int descriptor);
// Of a call that should not succeed: "reached" for 0 or more.
Outcome Harmed(long result);
// Processes that are none of the run's: of the command line, and who started the run.
const std::vector<pid_t>& Others();
void SetOthers(std::vector<pid_t> others);
// The worst for all of them.
Outcome ForOthers(const std::function<long(pid_t)>& harm);

std::vector<Way> WaysByName();
std::vector<Way> WaysByRace();
std::vector<Way> WaysByDescriptor();
std::vector<Way> WaysByInterface();
std::vector<Way> WaysByNamespace();
std::vector<Way> WaysByProcess();
std::vector<Way> WaysByChange();
std::vector<Way> WaysByNumber();

}  // namespace phantora::escapes

#endif  // PHANTORA_TEST_ESCAPES_WAY_H_
