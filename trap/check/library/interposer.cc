// libphantora_check.so: preloaded into ranks by --check memory, tells the supervisor what the
// program allocates and frees on its GPUs. See wire.h.
//
// Programs come to libcuda's functions in three ways: they are linked with it, they ask dlsym, or
// they ask cuGetProcAddress, as CUDA's runtime does. The signatures are those of cuda.h.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <atomic>

#include "trap/check/library/call_site.h"
#include "trap/check/library/real_functions.h"
#include "trap/check/library/supervisor_calls.h"

namespace phantora::check {
namespace {

#define PHANTORA_EXPORT extern "C" __attribute__((visibility("default")))

using Result = int;                                   // CUresult
using Pointer = uint64_t;                             // CUdeviceptr
using Stream = void*;                                 // CUstream
using Pool = void*;                                   // CUmemoryPool
constexpr Result kInvalidValue = 1, kNotFound = 500;  // CUDA_ERROR_*
constexpr uint64_t kPerThreadStreams = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
constexpr int kSecondInterface = 12000;    // from which on cuGetProcAddress has five parameters

using AnyFunction = void (*)();

// A function of libcuda's that another one here stands before.
struct Hook {
  const char* name;  // as libcuda exports it
  const char* base;  // as cuGetProcAddress knows it
  bool per_thread;   // of the stream that each thread has
  AnyFunction replacement;
  std::atomic<AnyFunction> original;
};

// Copies and fills: each(symbol, name for cuGetProcAddress, of the stream that each thread has).
#define PHANTORA_BOTH(each, symbol, base, suffix) \
  each(symbol, #base, false) each(symbol##suffix, #base, true)
#define PHANTORA_TRANSFERS(each)                                          \
  PHANTORA_BOTH(each, cuMemcpy, cuMemcpy, _ptds)                          \
  PHANTORA_BOTH(each, cuMemcpyAsync, cuMemcpyAsync, _ptsz)                \
  PHANTORA_BOTH(each, cuMemcpyPeer, cuMemcpyPeer, _ptds)                  \
  PHANTORA_BOTH(each, cuMemcpyPeerAsync, cuMemcpyPeerAsync, _ptsz)        \
  PHANTORA_BOTH(each, cuMemcpyHtoD_v2, cuMemcpyHtoD, _ptds)               \
  PHANTORA_BOTH(each, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, _ptsz)     \
  PHANTORA_BOTH(each, cuMemcpyDtoH_v2, cuMemcpyDtoH, _ptds)               \
  PHANTORA_BOTH(each, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, _ptsz)     \
  PHANTORA_BOTH(each, cuMemcpyDtoD_v2, cuMemcpyDtoD, _ptds)               \
  PHANTORA_BOTH(each, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, _ptsz)     \
  PHANTORA_BOTH(each, cuMemcpy2D_v2, cuMemcpy2D, _ptds)                   \
  PHANTORA_BOTH(each, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, _ptds) \
  PHANTORA_BOTH(each, cuMemcpy2DAsync_v2, cuMemcpy2DAsync, _ptsz)         \
  PHANTORA_BOTH(each, cuMemcpy3D_v2, cuMemcpy3D, _ptds)                   \
  PHANTORA_BOTH(each, cuMemcpy3DAsync_v2, cuMemcpy3DAsync, _ptsz)         \
  PHANTORA_BOTH(each, cuMemsetD8_v2, cuMemsetD8, _ptds)                   \
  PHANTORA_BOTH(each, cuMemsetD8Async, cuMemsetD8Async, _ptsz)            \
  PHANTORA_BOTH(each, cuMemsetD16_v2, cuMemsetD16, _ptds)                 \
  PHANTORA_BOTH(each, cuMemsetD16Async, cuMemsetD16Async, _ptsz)          \
  PHANTORA_BOTH(each, cuMemsetD32_v2, cuMemsetD32, _ptds)                 \
  PHANTORA_BOTH(each, cuMemsetD32Async, cuMemsetD32Async, _ptsz)          \
  PHANTORA_BOTH(each, cuMemsetD2D8_v2, cuMemsetD2D8, _ptds)               \
  PHANTORA_BOTH(each, cuMemsetD2D8Async, cuMemsetD2D8Async, _ptsz)        \
  PHANTORA_BOTH(each, cuMemsetD2D16_v2, cuMemsetD2D16, _ptds)             \
  PHANTORA_BOTH(each, cuMemsetD2D16Async, cuMemsetD2D16Async, _ptsz)      \
  PHANTORA_BOTH(each, cuMemsetD2D32_v2, cuMemsetD2D32, _ptds)             \
  PHANTORA_BOTH(each, cuMemsetD2D32Async, cuMemsetD2D32Async, _ptsz)

enum HookNumber {
  kMemAlloc,
  kMemAllocPitch,
  kMemAllocManaged,
  kMemAllocHost,
  kMemHostAlloc,
  kMemHostRegister,
  kMemAllocAsync,
  kMemAllocAsyncPerThread,
  kMemAllocFromPool,
  kMemAllocFromPoolPerThread,
  kMemFree,
  kMemFreeHost,
  kMemHostUnregister,
  kMemFreeAsync,
  kMemFreeAsyncPerThread,
  kGetProcAddress,
  kGetProcAddress2,
#define PHANTORA_NUMBER(symbol, base, per_thread) kHook_##symbol,
  PHANTORA_TRANSFERS(PHANTORA_NUMBER)
#undef PHANTORA_NUMBER
      kHooks,
};
extern Hook hooks[kHooks];

// Calls of libcuda within libcuda are none of the program's.
thread_local int depth = 0;
class Inside {
 public:
  Inside() : outermost_(depth++ == 0) {}
  ~Inside() { --depth; }
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

AnyFunction OriginalOf(Hook& hook) {
  AnyFunction original = hook.original.load(std::memory_order_relaxed);
  if (original != nullptr) return original;
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  original = reinterpret_cast<AnyFunction>(RealDlsym(library, hook.name));
  dlclose(library);
  if (original != nullptr) hook.original.store(original, std::memory_order_relaxed);
  return original;
}

template <typename... Arguments>
Result CallOriginal(HookNumber number, Arguments... arguments) {
  using Function = Result (*)(Arguments...);
  const auto original = reinterpret_cast<Function>(OriginalOf(hooks[number]));
  return original == nullptr ? kNotFound : original(arguments...);
}

bool IsFromDriver(void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr &&
         strstr(info.dli_fname, "libcuda.so") != nullptr;
}

// What the program is to get in the place of `found`, which has this name.
void* ReplacementOf(const char* name, void* found) {
  for (Hook& hook : hooks) {
    if (strcmp(hook.name, name) != 0) continue;
    if (found == reinterpret_cast<void*>(hook.replacement) || !IsFromDriver(found)) return found;
    hook.original.store(reinterpret_cast<AnyFunction>(found), std::memory_order_relaxed);
    return reinterpret_cast<void*>(hook.replacement);
  }
  return found;
}

// The same of what cuGetProcAddress has found.
void Replace(const char* base, void** found, int version, uint64_t flags) {
  const bool per_thread = (flags & kPerThreadStreams) != 0;
  Hook* chosen = nullptr;
  for (Hook& hook : hooks) {
    if (strcmp(hook.base, base) == 0 && (!hook.per_thread || per_thread)) chosen = &hook;
    // Its own two interfaces have one name.
    if (chosen == &hooks[kGetProcAddress2] && version < kSecondInterface) {
      chosen = &hooks[kGetProcAddress];
    }
  }
  if (chosen == nullptr) return;
  chosen->original.store(reinterpret_cast<AnyFunction>(*found), std::memory_order_relaxed);
  *found = reinterpret_cast<void*>(chosen->replacement);
}

// libcuda puts one allocation directly behind the other if its size is a multiple of 512 bytes.
// Behind these there is more, so that who goes beyond one does not come into the next. Multiples of
// 2 MiB would take twice as much for that, and stay as they are.
size_t WithRoomBehind(size_t bytes, Kind kind) {
  constexpr size_t kRoom = 512, kPiece = size_t{2} << 20;
  const bool is_host = kind == Kind::kHost || kind == Kind::kRegistered;
  return is_host || bytes % kPiece == 0 || bytes > SIZE_MAX - kRoom ? bytes : bytes + kRoom;
}

template <HookNumber number, Kind kind, typename Address, typename... Arguments>
Result Allocate(Address* address, size_t bytes, Arguments... arguments) {
  const Inside inside;
  const size_t asked = inside.outermost() ? WithRoomBehind(bytes, kind) : bytes;
  const Result result = CallOriginal(number, address, asked, arguments...);
  if (result == 0 && inside.outermost()) {
    TellAllocated((uint64_t)*address, bytes, kind);  // NOLINT: a number or a pointer
  }
  return result;
}

template <HookNumber number, typename Address>
Result Free(Address address) {
  const Inside inside;
  const auto at = (uint64_t)address;  // NOLINT: a number or a pointer
  if (inside.outermost()) TellFreed(at, Freeing::kBegins);
  const Result result = CallOriginal(number, address);
  if (inside.outermost()) TellFreed(at, result == 0 ? Freeing::kIsDone : Freeing::kFailed, result);
  return result;
}

template <HookNumber number>
Result FreeInOrder(Pointer address, Stream stream) {
  const Inside inside;
  const Result result = CallOriginal(number, address, stream);
  if (inside.outermost())
    TellFreed(address, result == 0 ? Freeing::kInOrder : Freeing::kFailed, result);
  return result;
}

Result AllocatePitch(Pointer* address, size_t* pitch, size_t width, size_t height,
                     unsigned element) {
  const Inside inside;
  const Result result = CallOriginal(kMemAllocPitch, address, pitch, width, height, element);
  if (result == 0 && inside.outermost()) TellAllocated(*address, *pitch * height, Kind::kDevice);
  return result;
}

Result Register(void* address, size_t bytes, unsigned flags) {
  const Inside inside;
  const Result result = CallOriginal(kMemHostRegister, address, bytes, flags);
  if (result == 0 && inside.outermost()) {
    TellAllocated(reinterpret_cast<uint64_t>(address), bytes, Kind::kRegistered);
  }
  return result;
}

// Of each copy and fill nothing matters here but whether it was refused. All have six parameters at
// most, which are numbers or pointers, and so in registers, whatever they mean.
template <HookNumber number>
Result Transfer(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  const Inside inside;
  const Result result = CallOriginal(number, a, b, c, d, e, f);
  if (result == kInvalidValue && inside.outermost()) TellRefused(hooks[number].base, result);
  return result;
}

Result GetProcAddress(const char* name, void** found, int version, uint64_t flags) {
  const Result result = CallOriginal(kGetProcAddress, name, found, version, flags);
  if (result == 0 && found != nullptr && *found != nullptr) Replace(name, found, version, flags);
  return result;
}
Result GetProcAddress2(const char* name, void** found, int version, uint64_t flags, void* status) {
  const Result result = CallOriginal(kGetProcAddress2, name, found, version, flags, status);
  if (result == 0 && found != nullptr && *found != nullptr) Replace(name, found, version, flags);
  return result;
}

template <typename Function>
AnyFunction Any(Function* function) {
  return reinterpret_cast<AnyFunction>(function);
}

Hook hooks[kHooks] = {
    {"cuMemAlloc_v2", "cuMemAlloc", false, Any(&Allocate<kMemAlloc, Kind::kDevice, Pointer>), {}},
    {"cuMemAllocPitch_v2", "cuMemAllocPitch", false, Any(&AllocatePitch), {}},
    {"cuMemAllocManaged",
     "cuMemAllocManaged",
     false,
     Any(&Allocate<kMemAllocManaged, Kind::kManaged, Pointer, unsigned>),
     {}},
    {"cuMemAllocHost_v2",
     "cuMemAllocHost",
     false,
     Any(&Allocate<kMemAllocHost, Kind::kHost, void*>),
     {}},
    {"cuMemHostAlloc",
     "cuMemHostAlloc",
     false,
     Any(&Allocate<kMemHostAlloc, Kind::kHost, void*, unsigned>),
     {}},
    {"cuMemHostRegister_v2", "cuMemHostRegister", false, Any(&Register), {}},
    {"cuMemAllocAsync",
     "cuMemAllocAsync",
     false,
     Any(&Allocate<kMemAllocAsync, Kind::kPool, Pointer, Stream>),
     {}},
    {"cuMemAllocAsync_ptsz",
     "cuMemAllocAsync",
     true,
     Any(&Allocate<kMemAllocAsyncPerThread, Kind::kPool, Pointer, Stream>),
     {}},
    {"cuMemAllocFromPoolAsync",
     "cuMemAllocFromPoolAsync",
     false,
     Any(&Allocate<kMemAllocFromPool, Kind::kPool, Pointer, Pool, Stream>),
     {}},
    {"cuMemAllocFromPoolAsync_ptsz",
     "cuMemAllocFromPoolAsync",
     true,
     Any(&Allocate<kMemAllocFromPoolPerThread, Kind::kPool, Pointer, Pool, Stream>),
     {}},
    {"cuMemFree_v2", "cuMemFree", false, Any(&Free<kMemFree, Pointer>), {}},
    {"cuMemFreeHost", "cuMemFreeHost", false, Any(&Free<kMemFreeHost, void*>), {}},
    {"cuMemHostUnregister",
     "cuMemHostUnregister",
     false,
     Any(&Free<kMemHostUnregister, void*>),
     {}},
    {"cuMemFreeAsync", "cuMemFreeAsync", false, Any(&FreeInOrder<kMemFreeAsync>), {}},
    {"cuMemFreeAsync_ptsz", "cuMemFreeAsync", true, Any(&FreeInOrder<kMemFreeAsyncPerThread>), {}},
    {"cuGetProcAddress", "cuGetProcAddress", false, Any(&GetProcAddress), {}},
    {"cuGetProcAddress_v2", "cuGetProcAddress", false, Any(&GetProcAddress2), {}},
#define PHANTORA_HOOK(symbol, base, per_thread) \
  {#symbol, base, per_thread, Any(&Transfer<kHook_##symbol>), {}},
    PHANTORA_TRANSFERS(PHANTORA_HOOK)
#undef PHANTORA_HOOK
};

}  // namespace

// dlvsym is not interposed. Versions of x86-64: glibc's since 2.34, and before.
DlsymFunction FindRealDlsym() {
  static std::atomic<DlsymFunction> found = nullptr;
  DlsymFunction real = found.load(std::memory_order_relaxed);
  if (real != nullptr) return real;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {
    real = reinterpret_cast<DlsymFunction>(dlvsym(RTLD_NEXT, "dlsym", version));
    if (real != nullptr) break;
  }
  found.store(real, std::memory_order_relaxed);
  return real;
}

WriteFunction FindRealWrite() {
  static std::atomic<WriteFunction> found = nullptr;
  WriteFunction real = found.load(std::memory_order_relaxed);
  if (real != nullptr) return real;
  real = reinterpret_cast<WriteFunction>(RealDlsym(RTLD_NEXT, "write"));
  found.store(real, std::memory_order_relaxed);
  return real;
}

// --- For programs that are linked with libcuda -------------------------------------------

PHANTORA_EXPORT Result cuMemAlloc_v2(Pointer* address, size_t bytes) {
  return Allocate<kMemAlloc, Kind::kDevice>(address, bytes);
}
PHANTORA_EXPORT Result cuMemAllocPitch_v2(Pointer* address, size_t* pitch, size_t width,
                                          size_t height, unsigned element) {
  return AllocatePitch(address, pitch, width, height, element);
}
PHANTORA_EXPORT Result cuMemAllocManaged(Pointer* address, size_t bytes, unsigned flags) {
  return Allocate<kMemAllocManaged, Kind::kManaged>(address, bytes, flags);
}
PHANTORA_EXPORT Result cuMemAllocHost_v2(void** address, size_t bytes) {
  return Allocate<kMemAllocHost, Kind::kHost>(address, bytes);
}
PHANTORA_EXPORT Result cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  return Allocate<kMemHostAlloc, Kind::kHost>(address, bytes, flags);
}
PHANTORA_EXPORT Result cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  return Register(address, bytes, flags);
}
PHANTORA_EXPORT Result cuMemAllocAsync(Pointer* address, size_t bytes, Stream stream) {
  return Allocate<kMemAllocAsync, Kind::kPool>(address, bytes, stream);
}
PHANTORA_EXPORT Result cuMemAllocAsync_ptsz(Pointer* address, size_t bytes, Stream stream) {
  return Allocate<kMemAllocAsyncPerThread, Kind::kPool>(address, bytes, stream);
}
PHANTORA_EXPORT Result cuMemAllocFromPoolAsync(Pointer* address, size_t bytes, Pool pool,
                                               Stream stream) {
  return Allocate<kMemAllocFromPool, Kind::kPool>(address, bytes, pool, stream);
}
PHANTORA_EXPORT Result cuMemAllocFromPoolAsync_ptsz(Pointer* address, size_t bytes, Pool pool,
                                                    Stream stream) {
  return Allocate<kMemAllocFromPoolPerThread, Kind::kPool>(address, bytes, pool, stream);
}
PHANTORA_EXPORT Result cuMemFree_v2(Pointer address) { return Free<kMemFree>(address); }
PHANTORA_EXPORT Result cuMemFreeHost(void* address) { return Free<kMemFreeHost>(address); }
PHANTORA_EXPORT Result cuMemHostUnregister(void* address) {
  return Free<kMemHostUnregister>(address);
}
PHANTORA_EXPORT Result cuMemFreeAsync(Pointer address, Stream stream) {
  return FreeInOrder<kMemFreeAsync>(address, stream);
}
PHANTORA_EXPORT Result cuMemFreeAsync_ptsz(Pointer address, Stream stream) {
  return FreeInOrder<kMemFreeAsyncPerThread>(address, stream);
}
#define PHANTORA_DEFINE(symbol, base, per_thread)                                           \
  PHANTORA_EXPORT Result symbol(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, \
                                uint64_t f) {                                               \
    return Transfer<kHook_##symbol>(a, b, c, d, e, f);                                      \
  }
PHANTORA_TRANSFERS(PHANTORA_DEFINE)
#undef PHANTORA_DEFINE
PHANTORA_EXPORT Result cuGetProcAddress(const char* name, void** found, int version,
                                        uint64_t flags) {
  return GetProcAddress(name, found, version, flags);
}
PHANTORA_EXPORT Result cuGetProcAddress_v2(const char* name, void** found, int version,
                                           uint64_t flags, void* status) {
  return GetProcAddress2(name, found, version, flags, status);
}

// --- For those that look for functions, and for call_site -------------------------------------

// What RTLD_NEXT means depends on who calls, so that a call which is not libcuda's business has to
// look as if nobody were here: no frame of this function's is left when libc's begins.
PHANTORA_EXPORT void* dlsym(void* handle, const char* name) {
  const DlsymFunction real = FindRealDlsym();
  if (handle == RTLD_NEXT || name == nullptr || name[0] != 'c' || name[1] != 'u') {
    return real(handle, name);
  }
  void* const found = real(handle, name);
  return found == nullptr ? nullptr : ReplacementOf(name, found);
}

PHANTORA_EXPORT ssize_t write(int descriptor, const void* bytes, size_t length) {
  if (TakePythonFrames(descriptor, bytes, length)) return static_cast<ssize_t>(length);
  const WriteFunction real = FindRealWrite();
  return real(descriptor, bytes, length);
}

}  // namespace phantora::check
