// --check memory: what programs do with their GPUs' memory and may not, although a GPU lets them.
#ifndef PHANTORA_TRAP_CHECK_MEMORY_CHECK_H_
#define PHANTORA_TRAP_CHECK_MEMORY_CHECK_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "trap/check/allocations.h"
#include "trap/gpu/sass/access_check.h"
#include "uvm_model/address_space.h"

namespace phantora {

// Needs the machine's lock. Processes are unknown until they allocate something.
class MemoryCheck {
 public:
  struct Options {
    // "rank 3", or "process 4711".
    std::function<std::string(pid_t)> name;
    // Calls its function with each address space of a process.
    std::function<void(pid_t, const std::function<void(AddressSpace&)>&)> each_space;
    // Is told of each error that is not like one before, as it comes.
    std::function<void(const std::string&)> tell;
  };
  explicit MemoryCheck(Options options) : options_(std::move(options)) {}

  // --- By programs. 0, or an errno.
  int Allocated(pid_t process, const check::Allocated& allocated);
  int Freed(pid_t process, const check::Freed& freed);
  void Refused(pid_t process, const check::Refused& refused);

  // --- Kernels.
  // What looks at a launch's accesses, until the next call of this; nullptr: nothing is known of
  // the process.
  sass::AccessCheck* Of(pid_t process, AddressSpace& memory);
  // A launch was executed. `address_of`: of an instruction, from the beginning of the kernel;
  // `block`: threads in each direction.
  void Launched(pid_t process, const std::string& title, absl::Span<const sass::WrongAccess> wrong,
                const std::function<uint64_t(uint32_t)>& address_of,
                const std::array<uint32_t, 3>& block);
  // It ended its context at `address`, as `what` says.
  void Failed(pid_t process, const std::string& title, const std::string& what, uint64_t address);
  // One was not. If nobody knows what it should have written, nothing is said any more of what
  // nobody has written.
  void NotLaunched(pid_t process, bool outputs_known);

  // --- Copies and fills, of lines that are `stride` bytes apart.
  struct Lines {
    uint64_t address, bytes, count, stride;
  };
  enum class Transferred {
    kFilled,
    kCopied,          // to there
    kCopiedOrFilled,  // to there; a small one, of which nobody can say which it is
    kRead,            // to somewhere else on a GPU
    kReadByHost,
  };
  void Transfer(pid_t process, AddressSpace& memory, const Lines& lines, Transferred what);

  void ProcessDied(pid_t process);
  // The run is over, and with it every process.
  void End();

  uint64_t errors() const { return errors_; }
  // For the end of the run: which errors there were, by the numbers that were told; of what was
  // never freed, `most` places; and what was not looked at.
  std::vector<std::string> Summary(size_t most) const;

 private:
  class View : public sass::AccessCheck {
   public:
    bool IsAllRight(uint64_t address, uint64_t bytes) override;
    sass::Wrong Look(uint64_t address, uint64_t bytes) override;
    bool IsUnwritten(uint64_t address, uint64_t bytes) override;

    const Allocations* allocations = nullptr;
    AddressSpace* memory = nullptr;
    bool knows_written = true;
  };
  struct Process {
    std::string name;
    Allocations allocations;
    bool knows_written = true;
  };
  // Not freed, by where they were made.
  struct Left {
    uint64_t allocations = 0, bytes = 0;
  };

  Process* Find(pid_t process);
  // `key`: what others have that count as this one again.
  void Found(const std::string& key, const std::string& text, uint64_t count = 1);
  static std::string Describe(const Allocations::Place& place, uint64_t address, uint64_t bytes,
                              bool writes);
  std::string DescribeWrong(const Process& process, const sass::WrongAccess& wrong) const;

  const Options options_;
  absl::flat_hash_map<pid_t, std::unique_ptr<Process>> processes_;
  View view_;
  std::vector<uint64_t> found_;  // how often each, in the order of their first
  absl::flat_hash_map<std::string, size_t> found_at_;
  std::map<std::string, Left> left_;
  uint64_t errors_ = 0, launches_ = 0, unchecked_ = 0, unknown_ = 0, unfollowed_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_CHECK_MEMORY_CHECK_H_
