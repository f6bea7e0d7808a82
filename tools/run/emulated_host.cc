#include "tools/run/emulated_host.h"

#include <memory>
#include <utility>

#include "trap/rm/driver_files.h"
#include "trap/uvm/uvm_device.h"

namespace phantora {

EmulatedHost::EmulatedHost(Machine machine, std::function<void(pid_t)> begins_to_use_cuda)
    : machine_(std::move(machine)), rm_{.machine = &machine_, .server = {}} {
  view_.files = &files_;
  AddDriverFiles(&rm_,
                 {.uvm =
                      [this, begins = std::move(begins_to_use_cuda)](pid_t process) {
                        begins(process);
                        return std::make_shared<UvmDevice>(&rm_, process);
                      }},
                 &files_);
}

}  // namespace phantora
