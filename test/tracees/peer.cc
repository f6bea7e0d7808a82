// Two GPUs in one process: peer access, cuMemcpyPeer, copies by unified addresses, 3D peer copies,
// waits across devices. Needs --gpus 2 or more.
#include <cstring>
#include <memory>
#include <string>

#include "test/tracees/tracee.h"

namespace {

// A context on each device; the one used last is current.
struct Side {
  explicit Side(int ordinal) {
    CU_CHECK(cuInit(0));
    CU_CHECK(cuDeviceGet(&device, ordinal));
    CU_CHECK(cuCtxCreate(&context, 0, device));
  }
  void Use() const { CU_CHECK(cuCtxSetCurrent(context)); }
  CUdeviceptr Alloc(size_t size, uint64_t seed) const {
    Use();
    CUdeviceptr pointer = 0;
    CU_CHECK(cuMemAlloc(&pointer, size));
    const Bytes data = Pattern(size, seed);
    CU_CHECK(cuMemcpyHtoD(pointer, data.data(), size));
    CU_CHECK(cuCtxSynchronize());
    int ordinal = -1;
    CU_CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
    CHECK_EQ(ordinal, device);
    return pointer;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
};

void CheckOn(const Side& side, CUdeviceptr pointer, const Bytes& want, const std::string& what) {
  side.Use();
  CU_CHECK(cuCtxSynchronize());
  CheckDevice(pointer, want.data(), want.size(), what);
}

void TestEnable(const Side& a, const Side& b) {
  int can = 0;
  CU_CHECK(cuDeviceCanAccessPeer(&can, a.device, b.device));
  if (can == 0) Skip("devices %d and %d are no peers", a.device, b.device);
  a.Use();
  CU_EXPECT(cuCtxDisablePeerAccess(b.context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CU_EXPECT(cuCtxEnablePeerAccess(b.context, 1), CUDA_ERROR_INVALID_VALUE);
  CU_CHECK(cuCtxEnablePeerAccess(b.context, 0));
  CU_EXPECT(cuCtxEnablePeerAccess(b.context, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  CU_CHECK(cuCtxDisablePeerAccess(b.context));
  CU_CHECK(cuCtxEnablePeerAccess(b.context, 0));
  b.Use();
  CU_CHECK(cuCtxEnablePeerAccess(a.context, 0));
}

// Every way to get bytes from one device to the other. Run without and with peer access.
void TestCopies(const Side& a, const Side& b, const std::string& state) {
  uint64_t seed = 10;
  for (size_t size : {size_t{1}, size_t{4096}, size_t{100003}, 4 * kMiB}) {
    const CUdeviceptr on_a = a.Alloc(size, ++seed);
    const Bytes from_a = Pattern(size, seed);
    const CUdeviceptr on_b = b.Alloc(size, ++seed);
    CHECK_NE(on_a, on_b);
    CU_CHECK(cuMemcpyPeer(on_b, b.context, on_a, a.context, size));
    CheckOn(b, on_b, from_a, state + ": cuMemcpyPeer");
    CheckOn(a, on_a, from_a, state + ": the source");

    // Back, by address alone, from either context.
    for (const Side* side : {&a, &b}) {
      const Bytes fresh = Pattern(size, ++seed);
      b.Use();
      CU_CHECK(cuMemcpyHtoD(on_b, fresh.data(), size));
      CU_CHECK(cuCtxSynchronize());
      side->Use();
      CU_CHECK(cuMemcpyDtoD(on_a, on_b, size));
      CU_CHECK(cuCtxSynchronize());
      CheckOn(a, on_a, fresh, state + ": cuMemcpyDtoD across devices");
      const Bytes again = Pattern(size, ++seed);
      a.Use();
      CU_CHECK(cuMemcpyHtoD(on_a, again.data(), size));
      CU_CHECK(cuCtxSynchronize());
      side->Use();
      CU_CHECK(cuMemcpy(on_b, on_a, size));
      CU_CHECK(cuCtxSynchronize());
      CheckOn(b, on_b, again, state + ": cuMemcpy across devices");
    }

    // Asynchronously in a stream of each.
    const Bytes last = Pattern(size, ++seed);
    a.Use();
    {
      Stream stream;
      PinnedMemory pinned(size, CU_MEMHOSTALLOC_PORTABLE);
      memcpy(pinned.as(), last.data(), size);
      CU_CHECK(cuMemcpyHtoDAsync(on_a, pinned.as(), size, stream.get()));
      CU_CHECK(cuMemcpyPeerAsync(on_b, b.context, on_a, a.context, size, stream.get()));
      CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), on_b, size, stream.get()));
      stream.Synchronize();
      CheckBytes(pinned.as(), last.data(), size, state + ": asynchronous peer copy");
    }
    a.Use();
    CU_CHECK(cuMemFree(on_a));
    b.Use();
    CU_CHECK(cuMemFree(on_b));
  }
}

void TestCopy3D(const Side& a, const Side& b) {
  constexpr size_t kPitch = 256;
  constexpr size_t kSize = kPitch * 64;
  const CUdeviceptr on_a = a.Alloc(kSize, 1);
  const CUdeviceptr on_b = b.Alloc(kSize, 2);
  const Bytes source = Pattern(kSize, 1);
  Bytes want = Pattern(kSize, 2);
  CUDA_MEMCPY3D_PEER copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcContext = a.context;
  copy.srcDevice = on_a;
  copy.srcXInBytes = 5;
  copy.srcY = 2;
  copy.dstContext = b.context;
  copy.dstDevice = on_b;
  copy.dstXInBytes = 16;
  copy.dstY = 7;
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.srcHeight = copy.dstHeight = 64;
  copy.WidthInBytes = 100;
  copy.Height = 30;
  copy.Depth = 1;
  CU_CHECK(cuMemcpy3DPeer(&copy));
  for (size_t row = 0; row < copy.Height; ++row) {
    memcpy(want.data() + 16 + (7 + row) * kPitch, source.data() + 5 + (2 + row) * kPitch, 100);
  }
  CheckOn(b, on_b, want, "cuMemcpy3DPeer");
  a.Use();
  CU_CHECK(cuMemFree(on_a));
  b.Use();
  CU_CHECK(cuMemFree(on_b));
}

// With access enabled, one device sets the other's memory, and streams of both wait for each other.
void TestDirectAccess(const Side& a, const Side& b) {
  const CUdeviceptr on_b = b.Alloc(kMiB, 3);
  a.Use();
  SetDevice(on_b + 4096, 0x2b, kMiB - 8192);
  Bytes want = Pattern(kMiB, 3);
  memset(want.data() + 4096, 0x2b, kMiB - 8192);
  CheckOn(b, on_b, want, "set by the other device");

  a.Use();
  auto stream_a = std::make_unique<Stream>();
  auto event_a = std::make_unique<Event>(CU_EVENT_DISABLE_TIMING);
  Gate gate;
  b.Use();
  auto stream_b = std::make_unique<Stream>();
  PinnedMemory out(4, CU_MEMHOSTALLOC_PORTABLE);
  a.Use();
  gate.Close(stream_a->get());
  CU_CHECK(cuMemsetD32Async(on_b, 0x1234abcd, 1, stream_a->get()));
  CU_CHECK(cuEventRecord(event_a->get(), stream_a->get()));
  b.Use();
  CU_CHECK(cuStreamWaitEvent(stream_b->get(), event_a->get(), 0));
  CU_CHECK(cuMemcpyDtoHAsync(out.as(), on_b, 4, stream_b->get()));
  CU_EXPECT(cuStreamQuery(stream_b->get()), CUDA_ERROR_NOT_READY);
  gate.Open();
  stream_b->Synchronize();
  CHECK_EQ(*out.as<uint32_t>(), 0x1234abcdu);
  CU_CHECK(cuMemFree(on_b));
}

}  // namespace

TRACEE(peer) {
  CU_CHECK(cuInit(0));
  int count = 0;
  CU_CHECK(cuDeviceGetCount(&count));
  if (count < 2) Skip("needs two GPUs");
  const Side a(0);
  const Side b(1);
  TestCopies(a, b, "without peer access");
  TestEnable(a, b);
  TestCopies(a, b, "with peer access");
  TestCopy3D(a, b);
  TestDirectAccess(a, b);
  a.Use();
  CU_CHECK(cuCtxDisablePeerAccess(b.context));
  CU_CHECK(cuCtxDestroy(b.context));
  CU_CHECK(cuCtxDestroy(a.context));
}
