// Pitched copies: cuMemcpy2D, its Unaligned and Async forms, cuMemcpy3D and cuMemAllocPitch,
// between host and device in all four directions, with odd widths, offsets and pitches. The same
// copy is done on a host model; whole buffers are compared, so the gaps between rows must stay
// untouched.
#include <cstring>
#include <string>

#include "test/tracees/tracee.h"

namespace {

constexpr size_t kBuffer = 3 * kMiB;

// One side of a copy: host or device memory with its model.
class Side {
 public:
  Side(bool on_device, uint64_t seed)
      : on_device_(on_device), host_(Pattern(kBuffer, seed)), model_(host_) {
    if (on_device) {
      CU_CHECK(cuMemAlloc(&device_, kBuffer));
      CU_CHECK(cuMemcpyHtoD(device_, host_.data(), kBuffer));
    }
  }
  ~Side() {
    if (on_device_) CU_CHECK(cuMemFree(device_));
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  CUmemorytype type() const { return on_device_ ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; }
  // Only one of the two is set, so that a driver that looks at the wrong one fails.
  CUdeviceptr device(size_t offset) const { return on_device_ ? device_ + offset : 0; }
  uint8_t* host(size_t offset) { return on_device_ ? nullptr : host_.data() + offset; }
  CUdeviceptr unified(size_t offset) {
    return on_device_ ? device_ + offset : reinterpret_cast<CUdeviceptr>(host_.data() + offset);
  }
  uint8_t* model() { return model_.data(); }
  void Check(const std::string& what) {
    if (on_device_) {
      CheckDevice(device_, model_.data(), kBuffer, what);
    } else {
      CheckBytes(host_.data(), model_.data(), kBuffer, what);
    }
  }

 private:
  bool on_device_;
  CUdeviceptr device_ = 0;
  Bytes host_;
  Bytes model_;
};

struct Box {
  size_t width, height, depth;
};
struct Place {
  size_t base, x, y, z, pitch, rows;
  size_t Offset(size_t row, size_t slice) const {
    return base + x + (y + row) * pitch + (z + slice) * pitch * rows;
  }
};

void CopyModel(Side& to, const Place& at, Side& from, const Place& of, const Box& box) {
  for (size_t slice = 0; slice < box.depth; ++slice) {
    for (size_t row = 0; row < box.height; ++row) {
      CHECK_LE(at.Offset(row, slice) + box.width, kBuffer);
      CHECK_LE(of.Offset(row, slice) + box.width, kBuffer);
      memcpy(to.model() + at.Offset(row, slice), from.model() + of.Offset(row, slice), box.width);
    }
  }
}

enum class Form { kPlain, kUnaligned, kAsync, kUnified };

void Copy2D(Side& to, const Place& at, Side& from, const Place& of, const Box& box, Form form) {
  CUDA_MEMCPY2D copy{};
  copy.srcXInBytes = of.x;
  copy.srcY = of.y;
  copy.srcPitch = of.pitch;
  copy.dstXInBytes = at.x;
  copy.dstY = at.y;
  copy.dstPitch = at.pitch;
  copy.WidthInBytes = box.width;
  copy.Height = box.height;
  if (form == Form::kUnified) {
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = from.unified(of.base);
    copy.dstDevice = to.unified(at.base);
  } else {
    copy.srcMemoryType = from.type();
    copy.srcHost = from.host(of.base);
    copy.srcDevice = from.device(of.base);
    copy.dstMemoryType = to.type();
    copy.dstHost = to.host(at.base);
    copy.dstDevice = to.device(at.base);
  }
  if (form == Form::kUnaligned) {
    CU_CHECK(cuMemcpy2DUnaligned(&copy));
  } else if (form == Form::kAsync) {
    Stream stream;
    CU_CHECK(cuMemcpy2DAsync(&copy, stream.get()));
    stream.Synchronize();
  } else {
    CU_CHECK(cuMemcpy2D(&copy));
  }
  CopyModel(to, at, from, of, box);
}

void Copy3D(Side& to, const Place& at, Side& from, const Place& of, const Box& box, bool async) {
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = of.x;
  copy.srcY = of.y;
  copy.srcZ = of.z;
  copy.srcMemoryType = from.type();
  copy.srcHost = from.host(of.base);
  copy.srcDevice = from.device(of.base);
  copy.srcPitch = of.pitch;
  copy.srcHeight = of.rows;
  copy.dstXInBytes = at.x;
  copy.dstY = at.y;
  copy.dstZ = at.z;
  copy.dstMemoryType = to.type();
  copy.dstHost = to.host(at.base);
  copy.dstDevice = to.device(at.base);
  copy.dstPitch = at.pitch;
  copy.dstHeight = at.rows;
  copy.WidthInBytes = box.width;
  copy.Height = box.height;
  copy.Depth = box.depth;
  if (async) {
    Stream stream;
    CU_CHECK(cuMemcpy3DAsync(&copy, stream.get()));
    stream.Synchronize();
  } else {
    CU_CHECK(cuMemcpy3D(&copy));
  }
  CopyModel(to, at, from, of, box);
}

std::string Describe(const char* what, const Box& box, const Place& at, const Place& of) {
  return std::string(what) + " of " + std::to_string(box.width) + "x" + std::to_string(box.height) +
         "x" + std::to_string(box.depth) + " to base " + std::to_string(at.base) + " x " +
         std::to_string(at.x) + " pitch " + std::to_string(at.pitch) + " from base " +
         std::to_string(of.base) + " x " + std::to_string(of.x) + " pitch " +
         std::to_string(of.pitch);
}

void Test2D(Side& to, Side& from, Random& random, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    static constexpr size_t kWidths[] = {1, 3, 4, 5, 16, 31, 64, 100, 255, 256, 1000, 4096};
    static constexpr size_t kHeights[] = {1, 2, 5, 33, 100};
    const Box box{kWidths[random.Below(12)], kHeights[random.Below(5)], 1};
    // Unaligned starts and pitches in half of the rounds, aligned ones in the others.
    const size_t unit = i % 2 == 0 ? 1 : 16;
    auto place = [&] {
      Place p{};
      p.base = random.Below(512) * unit;
      p.x = random.Below(20) * unit;
      p.y = random.Below(4);
      p.pitch = (p.x + box.width + random.Below(600) + unit - 1) / unit * unit;
      p.rows = 1;
      return p;
    };
    const Place at = place();
    const Place of = place();
    static constexpr Form kForms[] = {Form::kUnaligned, Form::kAsync, Form::kUnified, Form::kPlain};
    // Only the unaligned form promises to take any pitch between two device arrays.
    const bool inside = to.type() == CU_MEMORYTYPE_DEVICE && from.type() == CU_MEMORYTYPE_DEVICE;
    const Form form = inside && unit == 1 ? Form::kUnaligned : kForms[i / 2 % 4];
    Copy2D(to, at, from, of, box, form);
    to.Check(Describe("2D", box, at, of));
  }
}

void Test3D(Side& to, Side& from, Random& random, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const Box box{1 + random.Below(300), 1 + random.Below(12), 1 + random.Below(8)};
    auto place = [&] {
      Place p{};
      p.base = random.Below(100) * 16;
      p.x = random.Below(64);
      p.y = random.Below(3);
      p.z = random.Below(3);
      p.pitch = (p.x + box.width + random.Below(200) + 15) / 16 * 16;
      p.rows = p.y + box.height + random.Below(4);
      return p;
    };
    const Place at = place();
    const Place of = place();
    Copy3D(to, at, from, of, box, i % 2 == 1);
    to.Check(Describe("3D", box, at, of));
  }
}

void TestAllocPitch() {
  for (size_t width :
       {size_t{1}, size_t{100}, size_t{511}, size_t{512}, size_t{513}, size_t{4999}}) {
    for (unsigned element : {4u, 8u, 16u}) {
      CUdeviceptr memory = 0;
      size_t pitch = 0;
      constexpr size_t kRows = 37;
      CU_CHECK(cuMemAllocPitch(&memory, &pitch, width, kRows, element));
      CHECK_GE(pitch, width);
      CHECK_EQ(pitch % 32, 0u);
      CHECK_EQ(memory % 256, 0u);
      const Bytes rows = Pattern(width * kRows, width);
      Bytes back(rows.size());
      CUDA_MEMCPY2D copy{};
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      copy.srcHost = rows.data();
      copy.srcPitch = width;
      copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = memory;
      copy.dstPitch = pitch;
      copy.WidthInBytes = width;
      copy.Height = kRows;
      CU_CHECK(cuMemcpy2D(&copy));
      for (size_t row = 0; row < kRows; ++row) {
        CheckDevice(memory + row * pitch, rows.data() + row * width, width, "a pitched row");
      }
      copy = CUDA_MEMCPY2D{};
      copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.srcDevice = memory;
      copy.srcPitch = pitch;
      copy.dstMemoryType = CU_MEMORYTYPE_HOST;
      copy.dstHost = back.data();
      copy.dstPitch = width;
      copy.WidthInBytes = width;
      copy.Height = kRows;
      CU_CHECK(cuMemcpy2D(&copy));
      CheckBytes(back.data(), rows.data(), rows.size(), "from pitched memory");
      CU_CHECK(cuMemFree(memory));
    }
  }
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  CU_EXPECT(cuMemAllocPitch(&memory, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
}

void TestErrorsAndEmpty(Side& device, Side& host) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.host(0);
  copy.srcPitch = 10;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device.device(0);
  copy.dstPitch = 100;
  copy.WidthInBytes = 50;  // Wider than the source's pitch.
  copy.Height = 2;
  CU_EXPECT(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcPitch = 100;
  copy.Height = 0;
  CU_CHECK(cuMemcpy2D(&copy));
  copy.Height = 2;
  copy.WidthInBytes = 0;
  CU_CHECK(cuMemcpy2D(&copy));
  device.Check("after refused and empty copies");
}

}  // namespace

TRACEE(memcpy_2d_3d) {
  Context context;
  Random random(2);
  Side device_a(true, 1);
  Side device_b(true, 2);
  Side host_a(false, 3);
  Side host_b(false, 4);
  Test2D(device_a, host_a, random, 64);
  Test2D(device_a, device_b, random, 128);
  Test2D(host_b, device_a, random, 64);
  Test2D(host_b, host_a, random, 16);
  Test3D(device_b, host_a, random, 24);
  Test3D(device_b, device_a, random, 48);
  Test3D(host_b, device_b, random, 24);
  Test3D(host_b, host_a, random, 8);
  host_a.Check("only ever a source");
  TestAllocPitch();
  TestErrorsAndEmpty(device_a, host_a);
}
