// One-dimensional copies in every direction: sizes from 0 to 4 MiB, odd ones and unaligned offsets
// among them. Every operation is repeated on a host model of the device buffer and the two are
// compared far beyond the copied range, so a byte too many or too few is seen.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

constexpr size_t kGuard = 512;
constexpr size_t kLargest = 4 * kMiB;
constexpr size_t kBuffer = kLargest + 2 * kGuard + 64;

// A device buffer together with what it should contain.
class Modelled {
 public:
  explicit Modelled(uint64_t seed) : memory_(kBuffer), model_(Pattern(kBuffer, seed)) {
    CU_CHECK(cuMemcpyHtoD(memory_.get(), model_.data(), kBuffer));
  }
  CUdeviceptr at(size_t offset) const { return memory_.get() + offset; }
  uint8_t* model(size_t offset) { return model_.data() + offset; }
  void CheckAround(size_t offset, size_t size, const std::string& what) {
    // The read itself is always aligned and of whole words; its ends lie well outside the range.
    const size_t first = offset < kGuard ? 0 : (offset - kGuard) / 256 * 256;
    const size_t last = std::min(kBuffer, (offset + size + kGuard) / 256 * 256);
    CheckDevice(at(first), model(first), last - first, what);
  }
  void CheckAll(const std::string& what) { CheckDevice(at(0), model(0), kBuffer, what); }

 private:
  DeviceMemory memory_;
  Bytes model_;
};

std::vector<size_t> Sizes() {
  std::vector<size_t> sizes;
  for (size_t size = 0; size <= 70; ++size) sizes.push_back(size);
  for (size_t power = 128; power <= kLargest; power *= 2) {
    for (size_t size : {power - 1, power, power + 1}) {
      if (size <= kLargest) sizes.push_back(size);
    }
  }
  for (size_t size : {100, 1000, 10007, 65536 + 12, 100003, 999999, 3000017}) {
    sizes.push_back(size);
  }
  return sizes;
}

std::string Describe(const char* what, size_t size, size_t to, size_t from) {
  return std::string(what) + " of " + std::to_string(size) + " bytes to offset " +
         std::to_string(to) + " from offset " + std::to_string(from);
}

void TestHostToDevice(Modelled& buffer, Random& random) {
  const Bytes source = Pattern(kLargest + 64, 100);
  for (size_t size : Sizes()) {
    const size_t to = kGuard + random.Below(64);
    const size_t from = random.Below(64);
    CU_CHECK(cuMemcpyHtoD(buffer.at(to), source.data() + from, size));
    memcpy(buffer.model(to), source.data() + from, size);
    buffer.CheckAround(to, size, Describe("HtoD", size, to, from));
  }
  buffer.CheckAll("HtoD");
}

void TestDeviceToHost(Modelled& buffer, Random& random) {
  Bytes got(kLargest + 2 * kGuard + 64);
  Bytes want(got.size());
  for (size_t size : Sizes()) {
    const size_t from = random.Below(kGuard);
    const size_t to = kGuard + random.Below(64);
    const size_t window = to + size + kGuard;
    memset(got.data(), 0xee, window);
    memset(want.data(), 0xee, window);
    CU_CHECK(cuMemcpyDtoH(got.data() + to, buffer.at(from), size));
    memcpy(want.data() + to, buffer.model(from), size);
    CheckBytes(got.data(), want.data(), window, Describe("DtoH", size, to, from));
  }
}

void TestDeviceToDevice(Modelled& buffer, Modelled& source, Random& random) {
  for (size_t size : Sizes()) {
    // Equal and different alignments of both ends take different paths in the driver.
    for (int variant = 0; variant < 3; ++variant) {
      const size_t to = kGuard + (variant == 0 ? 0 : random.Below(64));
      const size_t from = variant == 0 ? 0 : variant == 1 ? to % 64 : random.Below(64);
      CU_CHECK(cuMemcpyDtoD(buffer.at(to), source.at(from), size));
      memcpy(buffer.model(to), source.model(from), size);
      buffer.CheckAround(to, size, Describe("DtoD", size, to, from));
    }
  }
  buffer.CheckAll("DtoD");
  source.CheckAll("the source of DtoD");
}

// cuMemcpy and cuMemcpyAsync find out by themselves what each address is.
void TestUnified(Modelled& buffer, Random& random) {
  PinnedMemory pinned(kLargest + 64);
  Bytes pageable(kLargest + 64);
  for (size_t size : {size_t{1}, size_t{7}, size_t{4096}, size_t{65537}, kLargest}) {
    for (uint8_t* host : {pinned.as(), pageable.data()}) {
      const size_t to = kGuard + random.Below(64);
      FillPattern(host, size, size);
      CU_CHECK(cuMemcpy(buffer.at(to), reinterpret_cast<CUdeviceptr>(host), size));
      memcpy(buffer.model(to), host, size);
      buffer.CheckAround(to, size, Describe("cuMemcpy to the device", size, to, 0));
      memset(host, 0, size);
      CU_CHECK(cuMemcpy(reinterpret_cast<CUdeviceptr>(host), buffer.at(to), size));
      CheckBytes(host, buffer.model(to), size, Describe("cuMemcpy to the host", size, 0, to));
    }
    // Host to host.
    FillPattern(pageable.data(), size, size + 1);
    CU_CHECK(cuMemcpy(pinned.device(), reinterpret_cast<CUdeviceptr>(pageable.data()), size));
    CheckBytes(pinned.as(), pageable.data(), size, "cuMemcpy from host to host");
  }
}

// A chain of asynchronous copies in one stream; each depends on the one before.
void TestAsync(Modelled& buffer, Modelled& other, Random& random) {
  Stream stream;
  PinnedMemory in(kBuffer);
  PinnedMemory out(kBuffer);
  for (size_t size : Sizes()) {
    const size_t offset = random.Below(64);
    const size_t a = kGuard + random.Below(64);
    const size_t b = kGuard + random.Below(64);
    FillPattern(in.as(), kBuffer, size + 7);
    memset(out.as(), 0x11, kBuffer);
    CU_CHECK(cuMemcpyHtoDAsync(buffer.at(a), in.as() + offset, size, stream.get()));
    CU_CHECK(cuMemcpyDtoDAsync(other.at(b), buffer.at(a), size, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(out.as() + kGuard, other.at(b), size, stream.get()));
    stream.Synchronize();
    memcpy(buffer.model(a), in.as() + offset, size);
    memcpy(other.model(b), in.as() + offset, size);
    CheckBytes(out.as() + kGuard, in.as() + offset, size, Describe("async chain", size, a, b));
    const Bytes untouched(kGuard, 0x11);
    CheckBytes(out.as(), untouched.data(), kGuard, "before the destination");
    CheckBytes(out.as() + kGuard + size, untouched.data(),
               std::min(kGuard, kBuffer - kGuard - size), "after the destination");
  }
  buffer.CheckAll("async HtoD");
  other.CheckAll("async DtoD");

  // The same with pageable memory, which the driver stages.
  Bytes pageable = Pattern(kLargest, 55);
  Bytes back(kLargest);
  for (size_t size : {size_t{3}, size_t{4097}, size_t{65536}, size_t{1000001}, kLargest}) {
    CU_CHECK(cuMemcpyHtoDAsync(buffer.at(kGuard + 1), pageable.data(), size, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(back.data(), buffer.at(kGuard + 1), size, stream.get()));
    stream.Synchronize();
    CheckBytes(back.data(), pageable.data(), size, "async with pageable memory");
    memcpy(buffer.model(kGuard + 1), pageable.data(), size);
    std::fill(back.begin(), back.end(), 0);
  }
  buffer.CheckAll("async HtoD from pageable memory");
}

// Many small copies queued without waiting, in one stream: order and content.
void TestBurst(Modelled& buffer) {
  Stream stream;
  constexpr size_t kCopies = 3000;
  PinnedMemory in(kCopies * 8);
  PinnedMemory out(kCopies * 8);
  FillPattern(in.as(), in.size(), 77);
  for (size_t i = 0; i < kCopies; ++i) {
    // All through the same eight device bytes: only the right order gives the right result.
    CU_CHECK(cuMemcpyHtoDAsync(buffer.at(kGuard), in.as() + 8 * i, 8, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(out.as() + 8 * i, buffer.at(kGuard), 8, stream.get()));
  }
  stream.Synchronize();
  CheckBytes(out.as(), in.as(), in.size(), "a burst of 8-byte copies");
  memcpy(buffer.model(kGuard), in.as() + 8 * (kCopies - 1), 8);
  buffer.CheckAll("after the burst");
}

void TestErrors(Modelled& buffer) {
  uint8_t byte = 0;
  CU_EXPECT(cuMemcpyHtoD(0, &byte, 1), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemcpyDtoH(&byte, 0, 1), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemcpyHtoD(buffer.at(0), nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  buffer.CheckAll("after refused copies");
}

}  // namespace

TRACEE(memcpy) {
  Context context;
  Random random(1);
  Modelled buffer(1);
  Modelled other(2);
  buffer.CheckAll("the initial upload");
  TestHostToDevice(buffer, random);
  TestDeviceToHost(buffer, random);
  TestDeviceToDevice(buffer, other, random);
  TestUnified(buffer, random);
  TestAsync(buffer, other, random);
  TestBurst(buffer);
  TestErrors(buffer);
}
