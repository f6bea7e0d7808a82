// Who may have bytes of a GPU's memory in the place of the host.
#ifndef PHANTORA_UVM_MODEL_ELSEWHERE_H_
#define PHANTORA_UVM_MODEL_ELSEWHERE_H_

#include <cstdint>
#include <vector>

namespace phantora {

class DeviceMemory;

// Of memory objects: a real GPU that computes for the emulated ones (trap/gpu/real). It uses
// DeviceMemory's functions that end in Here.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  // The bytes are to be read here: brings those of them that are elsewhere.
  virtual void Bring(DeviceMemory& memory, uint64_t offset, uint64_t length) = 0;
  // They are to be written here, all of them: what is elsewhere counts no more.
  virtual void Take(DeviceMemory& memory, uint64_t offset, uint64_t length) = 0;
  // The bytes are here and stay here, since somebody writes them unseen from now on.
  virtual void Keep(DeviceMemory& memory) = 0;
  // The memory ends.
  virtual void Forget(DeviceMemory& memory) = 0;
};

// Of an address space.
class SpaceElsewhere {
 public:
  virtual ~SpaceElsewhere() = default;
  // As AddressSpace's, of memory that is elsewhere in any case. False: not done, nor any of it.
  virtual bool Copy(uint64_t destination, uint64_t source, uint64_t length) = 0;
  virtual bool Fill(uint64_t address, uint64_t length, const std::vector<uint8_t>& pattern,
                    uint64_t phase) = 0;
  // Nothing is mapped there any more.
  virtual void Unmap(uint64_t address, uint64_t length) = 0;
  // The space ends: before its mappings are given up, and after.
  virtual void Ending() = 0;
  virtual void Ended() = 0;
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_ELSEWHERE_H_
