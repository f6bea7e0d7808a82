// What a run takes of this machine's memory, and what becomes of who wants more than there is.
#ifndef PHANTORA_TOOLS_RUN_HOST_MEMORY_H_
#define PHANTORA_TOOLS_RUN_HOST_MEMORY_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tools/run/out_of_memory.h"
#include "trap/linux/proc.h"
#include "trap/linux/real_clock.h"
#include "uvm_model/page_store.h"

namespace phantora {

// Bytes of this machine's memory.
struct MemoryUse {
  uint64_t processes = 0;  // their own: not shared, and no files
  uint64_t largest = 0;    // of one of them, which is
  pid_t largest_process = 0;
  uint64_t shared = 0;                           // pages that processes share (PageSharing)
  uint64_t gpu_pages = 0;                        // GPUs' memory that is not zeros
  uint64_t gpu_unshared = 0, gpu_allocated = 0;  // the same if nobody shared; with zeros
  uint64_t files = 0;                            // memory that processes map: pinned, managed
  uint64_t emulator = 0;                         // but for the above

  uint64_t total() const { return processes + shared + gpu_pages + files + emulator; }
};

// "7.9 GiB: processes 5.1 (the largest, rank 3, 1.4), shared by them 1.2, ..."; without `name`,
// which may be gone, not who is the largest.
std::string Describe(const MemoryUse& use, const std::function<std::string(pid_t)>& name);
// In bytes, by kind.
nlohmann::ordered_json Json(const MemoryUse& use);

// Of a process, without pages that a file is behind; of those that it shares with others since a
// fork, its part. 0 if it is gone.
uint64_t OwnBytes(const Proc& proc, pid_t process);

// Guards the machine's memory, or that of the control groups around the run (ReadMemoryLeft), or a
// limit that the user sets: some is always left, so that neither the machine swaps nor the
// kernel's OOM killer chooses. GPUs' memory is asked for before it is taken. What processes take
// by themselves is seen only afterwards, by a thread that looks ten times a second; the largest
// process is ended then.
class HostMemory : public HostSupply {
 public:
  struct Options {
    uint64_t limit = 0;  // bytes; 0: what there is
    OutOfMemory out_of_memory = OutOfMemory::kCuda;
    // For UsedUp(), with the machine's lock held: for whom GPUs work.
    std::function<pid_t()> working_for;
    // Without the machine's lock; the parts of GPUs and files.
    std::function<void(MemoryUse*)> add;
    // "rank 3", "process 812".
    std::function<std::string(pid_t)> name;
    std::function<void(const std::string&)> error, warn;
    std::function<void(pid_t)> end;                 // kills it
    std::function<std::vector<pid_t>()> processes;  // of the run
    const Proc* proc = &Proc::Host();
    const RealClock* clock = &RealClock::Host();
  };
  explicit HostMemory(Options options);
  ~HostMemory() override { Stop(); }

  bool Take(uint64_t bytes) override;
  bool MayAllocate() override;
  bool IsTight() const override { return is_tight_; }  // by any thread
  void UsedUp() override;

  void Start();
  void Stop();
  // One look of the thread's: notes what is used, and ends the largest process if it must.
  void Look();
  // The same without a look at processes, for what has become of the machine since.
  void SeeWhetherTight(const Proc::Memory& machine);
  // Is a look worth while before its time?
  bool IsNearTheEnd();

  // The most that was seen at a time, and the last; by any thread.
  MemoryUse peak() const;
  uint64_t used() const;

 private:
  // What may still be taken; negative if more is taken than should be.
  int64_t Left();
  MemoryUse Use();
  void End(pid_t process, const std::string& why);
  // "the memory of this machine ... is used up", and who has what.
  std::string What() const;
  std::string Taken() const;
  void Run();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::atomic<bool> is_tight_{false};
  MemoryUse last_, peak_;
  uint64_t available_then_ = 0;        // of the machine, at the last look
  uint64_t granted_ = 0;               // since last_ was seen
  int64_t may_allocate_until_ns_ = 0;  // of the real clock; machine's lock
  bool warned_ = false;                // of allocations that fail
  pid_t ended_ = 0;                    // the last that was, so that it is not ended twice
  std::thread thread_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_HOST_MEMORY_H_
