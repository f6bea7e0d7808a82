#include "trap/rm/driver_files.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/rm/rm_device.h"

namespace phantora {
namespace {

constexpr unsigned kNvidiaMajor = 195;
// Dynamic majors: any that the host does not use would do.
constexpr unsigned kUvmMajor = 510;
constexpr unsigned kCapsMajor = 511;

// nv-procfs.c, with the module parameters' defaults. "ModifyDeviceFiles: 0" keeps
// libraries that run as root from creating device nodes.
constexpr char kParams[] =
    "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 0\nDeviceFileUID: 0\n"
    "DeviceFileGID: 0\nDeviceFileMode: 438\nInitializeSystemMemoryAllocations: 1\n"
    "UsePageAttributeTable: 4294967295\nEnableMSI: 1\nEnablePCIeGen3: 0\nMemoryPoolSize: 0\n"
    "KMallocHeapMaxSize: 0\nVMallocHeapMaxSize: 0\nIgnoreMMIOCheck: 0\nEnableStreamMemOPs: 0\n"
    "EnableUserNUMAManagement: 1\nNvLinkDisable: 0\nRmProfilingAdminOnly: 1\n"
    "PreserveVideoMemoryAllocations: 0\nEnableS0ixPowerManagement: 0\n"
    "S0ixPowerManagementVideoMemoryThreshold: 256\nDynamicPowerManagement: 3\n"
    "DynamicPowerManagementVideoMemoryThreshold: 200\nRegisterPCIDriver: 1\n"
    "EnablePCIERelaxedOrderingMode: 0\nEnableResizableBar: 0\nEnableGpuFirmware: 18\n"
    "EnableGpuFirmwareLogs: 2\nEnableDbgBreakpoint: 0\nOpenRmEnableUnsupportedGpus: 1\n"
    "DmaRemapPeerMmio: 1\nRegistryDwords: \"\"\nRegistryDwordsPerDevice: \"\"\nRmMsg: \"\"\n"
    "GpuBlacklist: \"\"\nTemporaryFilePath: \"\"\nExcludedGpus: \"\"\n";

std::string HostDevices() {
  std::ifstream file("/proc/devices");
  std::stringstream text;
  text << file.rdbuf();
  std::string devices = text.str();
  size_t end = devices.find("\nBlock devices");
  if (end == std::string::npos) end = devices.size();
  devices.insert(end, absl::StrFormat("%d nvidia\n%d nvidiactl\n%d nvidia-uvm\n%d nvidia-caps\n",
                                      kNvidiaMajor, kNvidiaMajor, kUvmMajor, kCapsMajor));
  return devices;
}

// A 3D controller's configuration header (PCI 3.0, 6.1), without capabilities.
std::string ConfigSpace(const GpuProfile::Pci& pci) {
  std::string config(256, '\0');
  const auto put = [&config](size_t offset, uint32_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) config[offset + i] = static_cast<char>(value >> 8 * i);
  };
  put(0x00, 0x10de, 2);
  put(0x02, pci.device, 2);
  put(0x04, 0x0006, 2);  // memory space and bus master on
  put(0x08, pci.revision, 1);
  put(0x0a, 0x0302, 2);  // class
  put(0x2c, 0x10de, 2);
  put(0x2e, pci.subsystem, 2);
  return config;
}

void AddGpuFiles(const Gpu& gpu, const GpuProfile& profile, SyntheticFiles* files) {
  const std::string address = gpu.pci_address();
  files->AddDirectory(absl::StrCat("/proc/driver/nvidia/gpus/", address));
  files->AddText(
      absl::StrCat("/proc/driver/nvidia/gpus/", address, "/information"),
      absl::StrFormat("Model: \t\t %s\nIRQ:   \t\t 16\nGPU UUID: \t %s\n"
                      "Video BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
                      "DMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %d\n",
                      profile.product, gpu.uuid_text(), address, gpu.index));
  // A PCI device below its own root port, as topology discovery walks the path.
  const std::string device = absl::StrFormat("/sys/devices/pci0000:%02x/0000:%02x:01.0/%s",
                                             gpu.bus - 1, gpu.bus - 1, address);
  files->AddDirectory(absl::StrFormat("/sys/devices/pci0000:%02x", gpu.bus - 1));
  files->AddDirectory(
      absl::StrFormat("/sys/devices/pci0000:%02x/0000:%02x:01.0", gpu.bus - 1, gpu.bus - 1));
  files->AddLink(absl::StrCat("/sys/bus/pci/devices/", address),
                 absl::StrCat("../../..", device.substr(4)));
  files->AddLink(absl::StrFormat("/sys/class/pci_bus/0000:%02x", gpu.bus),
                 absl::StrFormat("../../devices/pci0000:%02x/0000:%02x:01.0/pci_bus/0000:%02x",
                                 gpu.bus - 1, gpu.bus - 1, gpu.bus));
  files->AddDirectory(absl::StrFormat("/sys/devices/pci0000:%02x/0000:%02x:01.0/pci_bus",
                                      gpu.bus - 1, gpu.bus - 1));
  files->AddDirectory(absl::StrFormat("/sys/devices/pci0000:%02x/0000:%02x:01.0/pci_bus/0000:%02x",
                                      gpu.bus - 1, gpu.bus - 1, gpu.bus));
  const char* speed = profile.pci.generation >= 5   ? "32.0 GT/s PCIe"
                      : profile.pci.generation == 4 ? "16.0 GT/s PCIe"
                                                    : "8.0 GT/s PCIe";
  for (const std::string& base : {device, absl::StrCat("/sys/bus/pci/devices/", address)}) {
    if (base == device) files->AddDirectory(base);
    files->AddText(base + "/vendor", "0x10de\n");
    files->AddText(base + "/device", absl::StrFormat("0x%04x\n", profile.pci.device));
    files->AddText(base + "/subsystem_vendor", "0x10de\n");
    files->AddText(base + "/subsystem_device", absl::StrFormat("0x%04x\n", profile.pci.subsystem));
    files->AddText(base + "/class", "0x030200\n");
    files->AddText(base + "/revision", absl::StrFormat("0x%02x\n", profile.pci.revision));
    files->AddText(base + "/config", ConfigSpace(profile.pci));
    files->AddText(base + "/numa_node", "0\n");
    files->AddText(base + "/max_link_speed", absl::StrCat(speed, "\n"));
    files->AddText(base + "/current_link_speed", absl::StrCat(speed, "\n"));
    files->AddText(base + "/max_link_width", absl::StrCat(profile.pci.width, "\n"));
    files->AddText(base + "/current_link_width", absl::StrCat(profile.pci.width, "\n"));
  }
}

}  // namespace

void AddDriverFiles(ResourceManager* rm, const DriverFileOpeners& openers, SyntheticFiles* files) {
  const Machine& machine = *rm->machine;
  for (const char* prefix :
       {"/dev/nvidia", "/dev/char/195:", "/proc/driver/nvidia", "/sys/module/nvidia"}) {
    files->Hide(prefix);
  }
  const auto open_rm = [rm](int minor) {
    return [rm, minor](pid_t) { return std::make_shared<RmDevice>(rm, minor); };
  };
  files->AddDevice("/dev/nvidiactl", kNvidiaMajor, RmDevice::kControlMinor,
                   open_rm(RmDevice::kControlMinor));
  for (const Gpu& gpu : machine.gpus) {
    files->AddDevice(absl::StrCat("/dev/nvidia", gpu.index), kNvidiaMajor, gpu.index,
                     open_rm(gpu.index));
    files->Hide(absl::StrCat("/sys/bus/pci/devices/", gpu.pci_address()));
    files->Hide(absl::StrFormat("/sys/class/pci_bus/0000:%02x", gpu.bus));
    files->Hide(absl::StrFormat("/sys/devices/pci0000:%02x", gpu.bus - 1));
    AddGpuFiles(gpu, machine.profile, files);
  }
  // Listed, as NVML finds GPUs by going through the bus.
  files->AddDirectory("/sys/bus/pci/devices");
  files->AddDevice("/dev/nvidia-uvm", kUvmMajor, 0, openers.uvm);
  files->AddDevice("/dev/nvidia-uvm-tools", kUvmMajor, 1, openers.uvm);
  const std::string& version = machine.driver.text;
  files->AddDirectory("/proc/driver/nvidia");
  files->AddDirectory("/proc/driver/nvidia/gpus");
  files->AddText("/proc/driver/nvidia/params", kParams);
  files->AddText("/proc/driver/nvidia/version",
                 absl::StrFormat("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  "
                                 "Release Build\nGCC version:  gcc version 12\n",
                                 version));
  files->AddText("/proc/devices", HostDevices());
  for (const char* module : {"nvidia", "nvidia_uvm"}) {
    files->AddDirectory(absl::StrCat("/sys/module/", module));
    files->AddText(absl::StrCat("/sys/module/", module, "/initstate"), "live\n");
    files->AddText(absl::StrCat("/sys/module/", module, "/refcnt"), "1\n");
    files->AddText(absl::StrCat("/sys/module/", module, "/version"), version + "\n");
  }
}

}  // namespace phantora
