// Copies of 256 MiB in every direction, each verified to the last byte, with their speed.
//   --mib N  another size
#include <cstdio>
#include <cstring>
#include <functional>

#include "test/tracees/tracee.h"

namespace {

void Report(const char* what, size_t size, const std::function<void()>& copy) {
  const double start = Seconds();
  copy();
  const double took = Seconds() - start;
  printf("%-24s %8.2f GB/s\n", what, static_cast<double>(size) / 1e9 / took);
}

}  // namespace

TRACEE(big_copy) {
  const auto size = static_cast<size_t>(args.Number("mib", 256)) * kMiB;
  Context context;
  Stream stream;
  DeviceMemory first(size);
  DeviceMemory second(size);
  Bytes pageable(size);
  PinnedMemory pinned(size);

  FillPattern(pageable.data(), size, 1);
  memcpy(pinned.as(), pageable.data(), size);
  Report("pageable to device", size, [&] {
    CU_CHECK(cuMemcpyHtoD(first.get(), pageable.data(), size));
    CU_CHECK(cuCtxSynchronize());
  });
  memset(pageable.data(), 0, size);
  Report("device to pageable", size,
         [&] { CU_CHECK(cuMemcpyDtoH(pageable.data(), first.get(), size)); });
  CheckBytes(pageable.data(), pinned.as(), size, "pageable memory there and back");

  FillPattern(pinned.as(), size, 2);
  memcpy(pageable.data(), pinned.as(), size);
  Report("pinned to device", size, [&] {
    CU_CHECK(cuMemcpyHtoDAsync(first.get(), pinned.as(), size, stream.get()));
    stream.Synchronize();
  });
  Report("device to device", size, [&] {
    CU_CHECK(cuMemcpyDtoDAsync(second.get(), first.get(), size, stream.get()));
    stream.Synchronize();
  });
  memset(pinned.as(), 0, size);
  Report("device to pinned", size, [&] {
    CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), second.get(), size, stream.get()));
    stream.Synchronize();
  });
  CheckBytes(pinned.as(), pageable.data(), size, "pinned memory through two device buffers");

  // An odd piece in the middle, to another alignment.
  const size_t piece = size - 12345;
  CU_CHECK(cuMemcpyDtoDAsync(first.get() + 7, second.get() + 4098, piece, stream.get()));
  CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), first.get(), size, stream.get()));
  stream.Synchronize();
  Bytes want(pageable);
  memcpy(want.data() + 7, pageable.data() + 4098, piece);
  CheckBytes(pinned.as(), want.data(), size, "an unaligned piece");

  Report("memset", size, [&] {
    CU_CHECK(cuMemsetD32Async(first.get(), 0x89abcdef, size / 4, stream.get()));
    stream.Synchronize();
  });
  CU_CHECK(cuMemcpyDtoH(pageable.data(), first.get(), size));
  for (size_t i = 0; i < size; i += 4) {
    uint32_t word = 0;
    memcpy(&word, pageable.data() + i, 4);
    if (word != 0x89abcdef) Fail("a big memset is wrong at byte %zu", i);
  }
}
