// Objects in transit: what a descriptor that libcuda passes to another process
// stands for.
#ifndef PHANTORA_TRAP_RM_EXPORT_FILE_H_
#define PHANTORA_TRAP_RM_EXPORT_FILE_H_

#include <array>
#include <vector>

#include "trap/files/device_file.h"
#include "trap/rm/rm_objects.h"

namespace phantora {

// Takes the place of an open /dev/nvidiactl when an object is exported to it. It
// holds the resources until its last descriptor is closed, wherever that is.
class ExportFile : public DeviceFile {
 public:
  struct Exported {
    uint32_t class_id;
    int gpu;
    std::shared_ptr<RmResource> resource;
  };

  std::string name() const override { return "exported objects"; }
  int Ioctl(CallContext&, uint32_t, RemoteAddress) override;

  std::vector<Exported> objects;
  int gpu = -1;
  std::array<uint8_t, 64> metadata{};
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_EXPORT_FILE_H_
