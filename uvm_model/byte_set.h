// Some bytes of a memory object: those that a program's kernels should have made and did not
// (tainted), or those that nobody has written since they were allocated.
#ifndef PHANTORA_UVM_MODEL_BYTE_SET_H_
#define PHANTORA_UVM_MODEL_BYTE_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace phantora {

// A set of bytes, as ranges that do not touch. What owners of memory can make this process keep is
// bounded.
class ByteSet {
 public:
  static constexpr size_t kMostRanges = 1 << 14;
  // What becomes of a set of more ranges: it has bytes that do not belong there, or none any more.
  enum class Beyond { kCoarser, kForgotten };

  explicit ByteSet(Beyond beyond = Beyond::kCoarser) : beyond_(beyond) {}

  bool empty() const { return ranges_.empty(); }
  void Add(uint64_t offset, uint64_t length);
  void Remove(uint64_t offset, uint64_t length);
  // Is one of the bytes in the set? (All of them?)
  bool Any(uint64_t offset, uint64_t length) const;
  bool All(uint64_t offset, uint64_t length) const;
  // Bytes are in the set if those of `from` are; nullptr: none is. Ranges of one set should not
  // overlap.
  void Copy(uint64_t offset, const ByteSet* from, uint64_t from_offset, uint64_t length);

  size_t ranges() const { return ranges_.size(); }

 private:
  void Bound();
  void Coarsen();

  const Beyond beyond_;
  std::map<uint64_t, uint64_t> ranges_;  // begin, end
  uint64_t grain_ = 1;                   // ranges begin and end at multiples of it
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_BYTE_SET_H_
