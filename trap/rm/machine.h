// The emulated machine: its GPUs, and what all parts of the driver share.
#ifndef PHANTORA_TRAP_RM_MACHINE_H_
#define PHANTORA_TRAP_RM_MACHINE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiles/gpu/gpu_profile.h"
#include "trap/call_log.h"
#include "trap/gpu/front/gpu_scheduler.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/quiet_successes.h"
#include "trap/rm/driver_version.h"
#include "trap/rm/memory_observer.h"
#include "trap/rm/os_events.h"
#include "trap/unknowns.h"
#include "uvm_model/page_store.h"
#include "uvm_model/vidmem_heap.h"

namespace phantora {

struct Gpu {
  int index;
  uint32_t bus;  // PCI bus number; domain, device and function are 0
  std::array<uint8_t, 16> uuid;
  std::shared_ptr<VidmemHeap> heap;

  // The driver's handle for the GPU, made from its PCI address
  // (gpumgr.c gpuGenerate32BitId).
  uint32_t id() const { return bus << 8; }
  std::string pci_address() const;  // "0000:1b:00.0"
  std::string uuid_text() const;    // "GPU-..."
};

inline constexpr int kMostGpus = 16;

// Everything here needs the machine's lock.
struct Machine {
  GpuProfile profile;
  DriverVersion driver;
  std::vector<Gpu> gpus;
  OsEvents* events;
  GpuScheduler* scheduler;
  GpuServices* services;
  CallLog* log;
  Unknowns* unknowns;
  QuietSuccesses* quiet;
  // Of all machines of the run.
  std::shared_ptr<PageStore> pages;
  MemoryObserver* memory_observer = nullptr;
  bool warned_of_counter = false;  // see TimeCorrelation() in rm_control_engine.cc

  Gpu* GpuById(uint32_t id);
  Gpu* GpuByUuid(const uint8_t* uuid);
  bool abi_550() const { return driver.abi >= DriverAbi::k550; }

  // `count` GPUs at the PCI addresses of an HGX board, of host number `host` of a cluster.
  static std::vector<Gpu> MakeGpus(const GpuProfile& profile, int count, int host = 0);
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_MACHINE_H_
