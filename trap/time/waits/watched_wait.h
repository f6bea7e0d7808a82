// Waits for descriptors.
#ifndef PHANTORA_TRAP_TIME_WAITS_WATCHED_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_WATCHED_WAIT_H_

#include <cstdint>
#include <vector>

#include "trap/linux/descriptor_copy.h"
#include "trap/linux/unique_fd.h"
#include "trap/time/waits/timed_wait.h"

namespace phantora {

class WatchedWait : public TimedWait {
 public:
  int WatchDescriptors(int pidfd, size_t most) override;
  size_t copies() const override { return copies_.size(); }
  std::vector<int> files() const override;
  int watched() const override { return watched_.get(); }
  void ReleaseDescriptors() override;
  bool AwaitsSignal(uint64_t pending) const override { return (signals_ & pending) != 0; }

 protected:
  // More descriptors than this are left to the kernel, in real time.
  static constexpr uint64_t kMostDescriptors = 4096;
  struct Watch {
    int descriptor;
    uint32_t events;  // of epoll, whose bits are poll's too
  };

  using TimedWait::TimedWait;
  void AddWatch(int descriptor, uint32_t events) { watches_.push_back({descriptor, events}); }
  const std::vector<Watch>& watches() const { return watches_; }
  // Of the watches, in their order, once WatchDescriptors() has made them. A signalfd has none.
  const std::vector<DescriptorCopy>& all_copies() const { return copies_; }

 private:
  std::vector<Watch> watches_;
  // While they are open here, a descriptor that the caller closes stays in the set.
  std::vector<DescriptorCopy> copies_;
  UniqueFd watched_;
  // A signalfd tells whoever asks of his own signals, so its copy is of no use here.
  uint64_t signals_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_WATCHED_WAIT_H_
