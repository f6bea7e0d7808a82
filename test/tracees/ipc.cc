// cuIpc* between two processes: memory and event handles, contents both ways, an event that orders
// work across the processes, memory that outlives its exporter's cuMemFree.
// The processes use devices 0 and 1 when --two-devices is given.
#include <string>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

constexpr size_t kSizes[] = {4096, 300000, 2 * kMiB, 10 * kMiB + 12345};
constexpr size_t kCount = 4;

struct Handles {
  CUipcMemHandle memory[kCount];
  CUipcEventHandle event;
};

void Export(Channel& channel) {
  Context context(0);
  std::vector<CUdeviceptr> blocks;
  Handles handles;
  for (size_t i = 0; i < kCount; ++i) {
    CUdeviceptr block = 0;
    CU_CHECK(cuMemAlloc(&block, kSizes[i]));
    const Bytes data = Pattern(kSizes[i], i);
    CU_CHECK(cuMemcpyHtoD(block, data.data(), data.size()));
    CU_CHECK(cuIpcGetMemHandle(&handles.memory[i], block));
    blocks.push_back(block);
  }
  CU_CHECK(cuCtxSynchronize());  // The copies may return before the last bytes have arrived.
  // Interprocess events carry no time.
  CUevent event = nullptr;
  CU_EXPECT(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  Event ready(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  CU_CHECK(cuIpcGetEventHandle(&handles.event, ready.get()));
  channel.Put(handles);

  channel.Take<char>();  // The importer has read everything and written its own patterns.
  for (size_t i = 0; i < kCount; ++i) {
    const Bytes data = Pattern(kSizes[i], 100 + i);
    CheckDevice(blocks[i], data.data(), data.size(), "what the importer wrote");
  }

  // An event recorded behind a gate: the importer may not pass before the gate opens.
  Stream stream;
  Gate gate;
  gate.Close(stream.get());
  CU_CHECK(cuMemsetD8Async(blocks[2], 0xd5, kSizes[2], stream.get()));
  CU_CHECK(cuEventRecord(ready.get(), stream.get()));
  channel.Put('c');
  channel.Take<char>();  // The importer saw it unfinished and queued its work behind the event.
  gate.Open();
  stream.Synchronize();
  channel.Take<char>();

  // Undefined by the documentation, but relied on: the importer's mapping is a reference.
  for (CUdeviceptr block : blocks) CU_CHECK(cuMemFree(block));
  CU_CHECK(cuCtxSynchronize());
  channel.Put('f');
  channel.Take<char>();
}

void Import(Channel& channel, int ordinal) {
  Context context(ordinal);
  const auto handles = channel.Take<Handles>();
  std::vector<CUdeviceptr> blocks;
  for (size_t i = 0; i < kCount; ++i) {
    CUdeviceptr block = 0;
    CU_CHECK(cuIpcOpenMemHandle(&block, handles.memory[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    const Bytes data = Pattern(kSizes[i], i);
    CheckDevice(block, data.data(), data.size(), "exported block " + std::to_string(i));
    blocks.push_back(block);
  }
  for (size_t i = 0; i < kCount; ++i) {
    const Bytes data = Pattern(kSizes[i], 100 + i);
    CU_CHECK(cuMemcpyHtoD(blocks[i], data.data(), data.size()));
  }
  CU_CHECK(cuCtxSynchronize());
  channel.Put('w');

  CUevent ready = nullptr;
  CU_CHECK(cuIpcOpenEventHandle(&ready, handles.event));
  channel.Take<char>();
  for (int i = 0; i < 5; ++i) CU_EXPECT(cuEventQuery(ready), CUDA_ERROR_NOT_READY);
  Stream stream;
  PinnedMemory out(kSizes[2]);
  CU_CHECK(cuStreamWaitEvent(stream.get(), ready, 0));
  CU_CHECK(cuMemcpyDtoHAsync(out.as(), blocks[2], kSizes[2], stream.get()));
  CU_EXPECT(cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
  channel.Put('q');
  stream.Synchronize();
  CU_CHECK(cuEventSynchronize(ready));
  CU_CHECK(cuEventQuery(ready));
  CheckBytes(out.as(), Bytes(kSizes[2], 0xd5).data(), kSizes[2], "ordered by the other's event");
  CU_CHECK(cuEventDestroy(ready));
  channel.Put('o');

  channel.Take<char>();
  const Bytes last = Pattern(kSizes[3], 100 + 3);
  CheckDevice(blocks[3], last.data(), last.size(), "after the exporter freed it");
  for (CUdeviceptr block : blocks) CU_CHECK(cuIpcCloseMemHandle(block));
  channel.Put('d');
}

}  // namespace

TRACEE(ipc) {
  const int other = args.Has("two-devices") ? 1 : 0;
  RunExporterAndImporter(Export, [&](Channel& channel) { Import(channel, other); });
}
