// A copy of a program's descriptor, made to look at what it is of.
#ifndef PHANTORA_TRAP_LINUX_DESCRIPTOR_COPY_H_
#define PHANTORA_TRAP_LINUX_DESCRIPTOR_COPY_H_

#include <utility>

#include "trap/linux/unique_fd.h"

namespace phantora {

// Closing it never waits: if the program has closed its own meanwhile, this may be the last of a
// socket that is to wait for its bytes to be sent (SO_LINGER, socket(7)). They are sent, but nobody
// waits.
class DescriptorCopy {
 public:
  DescriptorCopy() = default;
  explicit DescriptorCopy(UniqueFd file) : file_(std::move(file)) {}
  // Of `descriptor` of the process behind `pidfd` (pidfd_getfd(2)); invalid, with errno, if it
  // cannot be had.
  static DescriptorCopy Of(int pidfd, int descriptor);
  ~DescriptorCopy() { reset(); }
  DescriptorCopy(DescriptorCopy&&) = default;
  DescriptorCopy& operator=(DescriptorCopy&& other) {
    reset();
    file_ = std::move(other.file_);
    return *this;
  }

  int get() const { return file_.get(); }
  bool valid() const { return file_.valid(); }
  void reset();

 private:
  UniqueFd file_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_DESCRIPTOR_COPY_H_
