// System calls of the 32-bit and x32 interfaces, and with numbers that no kernel has: ways round a
// filter that knows those of x86-64. Prints what each returned.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

// arch/x86/entry/syscalls/syscall_32.tbl
constexpr long kOpen32 = 5, kClockGettime32 = 265, kUname32 = 122;
constexpr long kX32Bit = 0x40000000;

long Call32(long number, long a, long b, long c) {
  long result;
  asm volatile("int $0x80"
               : "=a"(result)
               : "a"(number), "b"(a), "c"(b), "d"(c)
               : "memory", "r8", "r9", "r10", "r11");
  return result;
}

}  // namespace

int main() {
  // Where a 32-bit pointer reaches.
  void* low = mmap(reinterpret_cast<void*>(0x10000000), 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (low == MAP_FAILED) return 1;
  const long address = reinterpret_cast<long>(low);
  std::printf("int80 clock_gettime %ld\n", Call32(kClockGettime32, CLOCK_MONOTONIC, address, 0));
  std::strcpy(static_cast<char*>(low), "/proc/devices");
  std::printf("int80 open %ld\n", Call32(kOpen32, address, 0, 0));
  std::printf("int80 uname %ld\n", Call32(kUname32, address, 0, 0));
  std::printf("x32 getpid %ld\n", syscall(kX32Bit | SYS_getpid) < 0 ? -long{errno} : 0);
  std::printf("x32 open %ld\n",
              syscall(kX32Bit | SYS_open, "/proc/devices", 0) < 0 ? -long{errno} : 0);
  std::printf("new %ld\n", syscall(2000) < 0 ? -long{errno} : 0);
  std::printf("io_uring %ld\n", syscall(SYS_io_uring_setup, 1, low) < 0 ? -long{errno} : 0);
}
