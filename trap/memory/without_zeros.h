// Where a process's memory was found to have no pages of zeros.
#ifndef PHANTORA_TRAP_MEMORY_WITHOUT_ZEROS_H_
#define PHANTORA_TRAP_MEMORY_WITHOUT_ZEROS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace phantora {

// A program's libraries and values stay what they are while memory of zeros comes and goes beside
// them: looks that are for zeros alone need not read them each time. Of each look, addresses are
// given in ascending order.
class WithoutZeros {
 public:
  struct Part {
    uint64_t bytes;  // from the beginning
    bool known;      // it had no zeros at the last look
  };

  // A look begins: nothing is known, or what the last one found.
  void Begin(bool forget);
  // The first part of what lies between the addresses, all of which is known or none.
  Part FirstOf(uint64_t begin, uint64_t end);
  // There are no pages of zeros between these.
  void Note(uint64_t begin, uint64_t end);

 private:
  struct Range {
    uint64_t begin, end;
  };
  std::vector<Range> known_, found_;
  size_t next_ = 0;  // the first of known_ that does not lie before what is looked at
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_MEMORY_WITHOUT_ZEROS_H_
