// One host of the emulated cluster: its GPUs with their driver, and the files that its processes
// see.
#ifndef PHANTORA_TOOLS_RUN_EMULATED_HOST_H_
#define PHANTORA_TOOLS_RUN_EMULATED_HOST_H_

#include <functional>

#include "trap/host/virtual_host.h"
#include "trap/rm/machine.h"
#include "trap/rm/rm_alloc.h"

namespace phantora {

class EmulatedHost {
 public:
  // `begins_to_use_cuda` is called with each process that opens the UVM device.
  EmulatedHost(Machine machine, std::function<void(pid_t)> begins_to_use_cuda);
  EmulatedHost(const EmulatedHost&) = delete;
  EmulatedHost& operator=(const EmulatedHost&) = delete;

  Machine& machine() { return machine_; }
  ResourceManager& resource_manager() { return rm_; }
  SyntheticFiles& files() { return files_; }
  // What processes see of the rest of the host; `view().files` are files().
  VirtualHost& view() { return view_; }

 private:
  Machine machine_;
  ResourceManager rm_;
  SyntheticFiles files_;
  VirtualHost view_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_EMULATED_HOST_H_
