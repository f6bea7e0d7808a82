// What a machine with the driver loaded shows under /dev, /proc and /sys.
#ifndef PHANTORA_TRAP_RM_DRIVER_FILES_H_
#define PHANTORA_TRAP_RM_DRIVER_FILES_H_

#include "trap/files/synthetic_files.h"
#include "trap/rm/rm_alloc.h"

namespace phantora {

struct DriverFileOpeners {
  // Opens /dev/nvidia-uvm (and -tools).
  SyntheticFiles::Opener uvm;
};

void AddDriverFiles(ResourceManager* rm, const DriverFileOpeners& openers, SyntheticFiles* files);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_DRIVER_FILES_H_
