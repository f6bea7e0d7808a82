// Which bytes of a memory object a program's kernels should have made, and did not.
#ifndef PHANTORA_UVM_MODEL_TAINT_H_
#define PHANTORA_UVM_MODEL_TAINT_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace phantora {

// A set of bytes, as ranges that do not touch. Where there are more than kMostRanges it becomes
// coarser, and says that bytes are tainted which are not: what owners of memory can make this
// process keep is bounded.
class Taint {
 public:
  static constexpr size_t kMostRanges = 1 << 14;

  bool empty() const { return ranges_.empty(); }
  void Add(uint64_t offset, uint64_t length);
  void Remove(uint64_t offset, uint64_t length);
  // Is one of the bytes in the set? (All of them?)
  bool Any(uint64_t offset, uint64_t length) const;
  bool All(uint64_t offset, uint64_t length) const;
  // Bytes become what those of `from` are; nullptr: not tainted. Ranges of one set should not
  // overlap.
  void Copy(uint64_t offset, const Taint* from, uint64_t from_offset, uint64_t length);

  size_t ranges() const { return ranges_.size(); }

 private:
  void Coarsen();

  std::map<uint64_t, uint64_t> ranges_;  // begin, end
  uint64_t grain_ = 1;                   // ranges begin and end at multiples of it
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_TAINT_H_
