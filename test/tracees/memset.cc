// cuMemsetD8/D16/D32, their 2D and asynchronous forms: sizes and offsets from 0 to MiBs, zero and
// other values, and the bytes around and between what is set.
#include <algorithm>
#include <cstring>
#include <string>

#include "test/tracees/tracee.h"

namespace {

constexpr size_t kGuard = 512;
constexpr size_t kLargest = 4 * kMiB;
constexpr size_t kBuffer = kLargest + 4 * kGuard;

class Modelled {
 public:
  Modelled() : memory_(kBuffer), model_(Pattern(kBuffer, 9)) {
    CU_CHECK(cuMemcpyHtoD(memory_.get(), model_.data(), kBuffer));
  }
  CUdeviceptr at(size_t offset) const { return memory_.get() + offset; }
  void SetModel(size_t offset, uint32_t value, size_t width, size_t count) {
    CHECK_LE(offset + width * count, kBuffer);
    for (size_t i = 0; i < count; ++i) memcpy(model_.data() + offset + i * width, &value, width);
  }
  void CheckAround(size_t offset, size_t size, const std::string& what) {
    const size_t first = offset < kGuard ? 0 : (offset - kGuard) / 256 * 256;
    const size_t last = std::min(kBuffer, (offset + size + kGuard) / 256 * 256);
    CheckDevice(at(first), model_.data() + first, last - first, what);
  }
  void CheckAll(const std::string& what) { CheckDevice(at(0), model_.data(), kBuffer, what); }

 private:
  DeviceMemory memory_;
  Bytes model_;
};

std::string Describe(size_t width, uint32_t value, size_t offset, size_t count) {
  return "memset D" + std::to_string(8 * width) + " of value " + std::to_string(value) +
         " at offset " + std::to_string(offset) + ", " + std::to_string(count) + " elements";
}

// `width` is the element's size. A stream makes it the asynchronous form.
void Set(CUdeviceptr at, size_t width, uint32_t value, size_t count, CUstream stream) {
  const auto byte = static_cast<unsigned char>(value);
  const auto half = static_cast<unsigned short>(value);  // NOLINT(google-runtime-int)
  if (stream == nullptr) {
    if (width == 1) CU_CHECK(cuMemsetD8(at, byte, count));
    if (width == 2) CU_CHECK(cuMemsetD16(at, half, count));
    if (width == 4) CU_CHECK(cuMemsetD32(at, value, count));
  } else {
    if (width == 1) CU_CHECK(cuMemsetD8Async(at, byte, count, stream));
    if (width == 2) CU_CHECK(cuMemsetD16Async(at, half, count, stream));
    if (width == 4) CU_CHECK(cuMemsetD32Async(at, value, count, stream));
  }
}

void Set2D(CUdeviceptr at, size_t pitch, size_t width, uint32_t value, size_t columns, size_t rows,
           CUstream stream) {
  const auto byte = static_cast<unsigned char>(value);
  const auto half = static_cast<unsigned short>(value);  // NOLINT(google-runtime-int)
  if (stream == nullptr) {
    if (width == 1) CU_CHECK(cuMemsetD2D8(at, pitch, byte, columns, rows));
    if (width == 2) CU_CHECK(cuMemsetD2D16(at, pitch, half, columns, rows));
    if (width == 4) CU_CHECK(cuMemsetD2D32(at, pitch, value, columns, rows));
  } else {
    if (width == 1) CU_CHECK(cuMemsetD2D8Async(at, pitch, byte, columns, rows, stream));
    if (width == 2) CU_CHECK(cuMemsetD2D16Async(at, pitch, half, columns, rows, stream));
    if (width == 4) CU_CHECK(cuMemsetD2D32Async(at, pitch, value, columns, rows, stream));
  }
}

// Values whose bytes are all different, all equal, and zero: the driver treats them differently.
constexpr uint32_t kValues[] = {0x12345678, 0, 0xabababab, 0xffffffff};

void Test1D(Modelled& buffer, Random& random) {
  Stream stream;
  int round = 0;
  for (size_t width : {size_t{1}, size_t{2}, size_t{4}}) {
    for (size_t bytes :
         {size_t{0},      size_t{4},       size_t{8},    size_t{12},   size_t{16},    size_t{20},
          size_t{60},     size_t{64},      size_t{68},   size_t{100},  size_t{252},   size_t{256},
          size_t{260},    size_t{1000},    size_t{4092}, size_t{4096}, size_t{65536}, size_t{65540},
          size_t{100004}, size_t{1000000}, kMiB,         kMiB + 4,     kLargest}) {
      for (int odd = 0; odd < 2; ++odd) {
        // Odd element counts and starts beside the aligned ones.
        const size_t count = odd && bytes > 0 ? bytes / width - 1 : bytes / width;
        const size_t offset = kGuard + (odd ? width * (1 + random.Below(15)) : 0);
        const uint32_t value = kValues[round % 4];
        Set(buffer.at(offset), width, value, count, round % 3 == 0 ? stream.get() : nullptr);
        CU_CHECK(cuCtxSynchronize());
        buffer.SetModel(offset, value, width, count);
        buffer.CheckAround(offset, count * width, Describe(width, value, offset, count));
        ++round;
      }
    }
  }
  buffer.CheckAll("1D memsets");
}

void Test2D(Modelled& buffer, Random& random) {
  Stream stream;
  int round = 0;
  for (size_t width : {size_t{1}, size_t{2}, size_t{4}}) {
    for (size_t columns : {1, 2, 3, 5, 16, 17, 64, 100, 255, 256, 999, 1000}) {
      for (size_t rows : {1, 2, 5, 64}) {
        const size_t offset = kGuard + width * random.Below(33);
        const size_t gap = round % 3 == 0 ? 0 : width * random.Below(300);
        const size_t pitch = width * columns + gap;
        const uint32_t value = kValues[round % 4];
        Set2D(buffer.at(offset), pitch, width, value, columns, rows,
              round % 2 == 0 ? stream.get() : nullptr);
        CU_CHECK(cuCtxSynchronize());
        for (size_t row = 0; row < rows; ++row) {
          buffer.SetModel(offset + row * pitch, value, width, columns);
        }
        buffer.CheckAround(offset, pitch * rows,
                           "2D with pitch " + std::to_string(pitch) + " and " +
                               std::to_string(rows) +
                               " rows: " + Describe(width, value, offset, columns));
        ++round;
      }
    }
  }
  buffer.CheckAll("2D memsets");
}

// Memsets and copies of one stream keep their order.
void TestOrder(Modelled& buffer) {
  Stream stream;
  PinnedMemory out(64 * kKiB);
  constexpr int kRounds = 200;
  for (int i = 0; i < kRounds; ++i) {
    CU_CHECK(cuMemsetD8Async(buffer.at(kGuard), static_cast<unsigned char>(i), 64, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(out.as() + 64 * i, buffer.at(kGuard), 64, stream.get()));
  }
  stream.Synchronize();
  for (int i = 0; i < kRounds; ++i) {
    const Bytes want(64, static_cast<uint8_t>(i));
    CheckBytes(out.as() + 64 * i, want.data(), 64, "memset " + std::to_string(i) + " of a chain");
  }
  buffer.SetModel(kGuard, kRounds - 1, 1, 64);
  buffer.CheckAll("after the chain");
}

void TestErrors(Modelled& buffer) {
  CU_EXPECT(cuMemsetD16(buffer.at(1), 1, 4), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemsetD32(buffer.at(2), 1, 4), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemsetD8(0, 1, 4), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemsetD2D8(buffer.at(0), 10, 1, 20, 2), CUDA_ERROR_INVALID_VALUE);
  buffer.CheckAll("after refused memsets");
}

}  // namespace

TRACEE(memset) {
  Context context;
  Random random(3);
  Modelled buffer;
  Test1D(buffer, random);
  Test2D(buffer, random);
  TestOrder(buffer);
  TestErrors(buffer);
}
