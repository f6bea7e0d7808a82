// Work of a GPU whose end does not depend on that GPU alone: what NCCL's kernels do together.
#ifndef PHANTORA_TRAP_GPU_TIMELINE_SHARED_WORK_H_
#define PHANTORA_TRAP_GPU_TIMELINE_SHARED_WORK_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "trap/gpu/front/gpu_context.h"

namespace phantora {

// It lives in a time of its own, which is never later than the present of any process that could
// still take part in it. The timeline of a process that has such work under way does not run
// ahead of that time: what comes after the work is not known before.
class SharedWork {
 public:
  virtual ~SharedWork() = default;

  // Is code with this PrefixFingerprint such work? Then how many bytes of parameters it has; else
  // 0.
  virtual size_t ParameterBytes(uint64_t fingerprint) const = 0;

  struct Prepared {
    uint64_t id = 0;              // 0: it is over at once
    double sms = 0;               // that it keeps busy, when it runs
    double memory_share = 0;      // of the memory's bandwidth, 0 to 1
    const char* error = nullptr;  // the launch makes no sense
    bool alone = false;           // it is none: an ordinary kernel
  };
  // A launch has come to its turn in its channel. `context` is where its addresses mean something.
  virtual Prepared Prepare(pid_t process, const std::shared_ptr<GpuContext>& context,
                           absl::Span<const uint8_t> parameters) = 0;
  // The same for kernels that are known by their (mangled) names.
  virtual bool Knows(const std::string& symbol) const {
    static_cast<void>(symbol);
    return false;
  }
  // Does it take what its price says, from when all have come to it?
  virtual bool IsPriced(const std::string& symbol) const {
    static_cast<void>(symbol);
    return false;
  }
  // `takes`, `sms`: of one that is priced.
  virtual Prepared PrepareKnown(pid_t process, int gpu, const std::shared_ptr<GpuContext>& context,
                                const std::string& symbol, absl::Span<const uint8_t> parameters,
                                VirtualSpan takes, double sms) {
    static_cast<void>(process), static_cast<void>(gpu), static_cast<void>(context);
    static_cast<void>(symbol), static_cast<void>(parameters);
    static_cast<void>(takes), static_cast<void>(sms);
    return {};
  }
  // It has got its SMs.
  virtual void Start(uint64_t id, VirtualTime now) = 0;
  // Infinity while that is not known.
  virtual VirtualTime EndOf(uint64_t id) const = 0;
  // What it was, for reports; valid until Forget(). nullptr: what the kernel is called.
  virtual const char* NameOf(uint64_t id) const = 0;
  // It is over, or given up.
  virtual void Forget(uint64_t id) = 0;

  // Its present.
  virtual VirtualTime Now() const = 0;
  // When something happens next; Infinity for never.
  virtual VirtualTime NextEvent() = 0;
  // Nobody starts anything before `to` any more.
  virtual void Advance(VirtualTime to) = 0;
  // Processes whose work has come to its end since the last call.
  virtual std::vector<pid_t> TakeChanged() = 0;
};

// One launch of it.
class SharedWorkHandle {
 public:
  SharedWorkHandle() = default;
  SharedWorkHandle(SharedWork* work, uint64_t id) : work_(work), id_(id) {}
  ~SharedWorkHandle() {
    if (id_ != 0) work_->Forget(id_);
  }
  SharedWorkHandle(const SharedWorkHandle&) = delete;
  SharedWorkHandle& operator=(const SharedWorkHandle&) = delete;

  void Start(VirtualTime now) {
    started_ = true;
    work_->Start(id_, now);
  }
  uint64_t id() const { return id_; }
  bool started() const { return started_; }
  VirtualTime End() const { return started_ ? work_->EndOf(id_) : VirtualTime::Infinity(); }
  const char* Name() const { return work_->NameOf(id_); }

 private:
  SharedWork* work_ = nullptr;
  uint64_t id_ = 0;
  bool started_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_TIMELINE_SHARED_WORK_H_
