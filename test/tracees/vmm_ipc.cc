// Memory shared between two processes as a POSIX file descriptor sent over a socket: contents are
// visible both ways, and the memory lives as long as one of them maps it.
// The processes use devices 0 and 1 when there are two GPUs and --two-devices is given.
#include <unistd.h>

#include "test/tracees/tracee.h"

namespace {

using Handle = CUmemGenericAllocationHandle;

struct Layout {
  size_t size;
  size_t unit;
};

CUmemAllocationProp Properties(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

CUdeviceptr Map(const Context& context, size_t size, Handle handle) {
  CUdeviceptr address = 0;
  CU_CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CU_CHECK(cuMemMap(address, size, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, context.device()};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CU_CHECK(cuMemSetAccess(address, size, &access, 1));
  return address;
}

void Unmap(CUdeviceptr address, size_t size) {
  CU_CHECK(cuMemUnmap(address, size));
  CU_CHECK(cuMemAddressFree(address, size));
}

void Export(Channel& channel) {
  Context context(0);
  const CUmemAllocationProp properties = Properties(context.device());
  size_t unit = 0;
  CU_CHECK(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t size = 3 * unit;
  Handle handle = 0;
  CU_CHECK(cuMemCreate(&handle, size, &properties, 0));
  CUdeviceptr address = Map(context, size, handle);
  const Bytes data = Pattern(size, 1);
  CU_CHECK(cuMemcpyHtoD(address, data.data(), size));
  CU_CHECK(cuCtxSynchronize());  // The copy may return before the last bytes have arrived.

  int fd = -1;
  CU_CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK_GE(fd, 0);
  channel.Put(Layout{size, unit});
  channel.SendFd(fd);
  CU_CHECK(cuMemRelease(handle));
  CHECK_EQ(close(fd), 0);

  channel.Take<char>();  // The importer has written its own pattern.
  const Bytes theirs = Pattern(size, 2);
  CheckDevice(address, theirs.data(), size, "what the importer wrote");
  CU_CHECK(cuMemsetD32(address + unit, 0x600df00d, unit / 4));
  CU_CHECK(cuCtxSynchronize());
  channel.Put('s');
  channel.Take<char>();
  // From here on only the importer holds the memory.
  Unmap(address, size);
  channel.Put('g');
  channel.Take<char>();

  // An object that was never created to be shared cannot be exported.
  CUmemAllocationProp privately = properties;
  privately.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  CU_CHECK(cuMemCreate(&handle, unit, &privately, 0));
  CHECK_NE(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
           CUDA_SUCCESS);
  CU_CHECK(cuMemRelease(handle));
}

void Import(Channel& channel, int ordinal) {
  Context context(ordinal);
  const auto layout = channel.Take<Layout>();
  const int fd = channel.ReceiveFd();
  Handle handle = 0;
  CU_CHECK(cuMemImportFromShareableHandle(&handle,
                                          reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CHECK_EQ(close(fd), 0);
  CUmemAllocationProp properties{};
  CU_CHECK(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  CHECK_EQ(properties.type, CU_MEM_ALLOCATION_TYPE_PINNED);
  const CUdeviceptr address = Map(context, layout.size, handle);
  const Bytes data = Pattern(layout.size, 1);
  CheckDevice(address, data.data(), layout.size, "what the exporter wrote");

  const Bytes mine = Pattern(layout.size, 2);
  CU_CHECK(cuMemcpyHtoD(address, mine.data(), layout.size));
  CU_CHECK(cuCtxSynchronize());
  channel.Put('w');
  channel.Take<char>();
  const std::vector<uint32_t> set(layout.unit / 4, 0x600df00d);
  CheckDevice(address + layout.unit, set.data(), layout.unit, "what the exporter set");
  CheckDevice(address, mine.data(), layout.unit, "and left alone");
  channel.Put('r');
  channel.Take<char>();
  CheckDevice(address + layout.unit, set.data(), layout.unit, "after the exporter let go");
  CU_CHECK(cuMemRelease(handle));
  CheckDevice(address, mine.data(), layout.unit, "after the handle's release");
  Unmap(address, layout.size);
  channel.Put('d');
}

}  // namespace

TRACEE(vmm_ipc) {
  const int other = args.Has("two-devices") ? 1 : 0;
  RunExporterAndImporter(Export, [&](Channel& channel) { Import(channel, other); });
}
