#include "trap/linux/vdso.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "trap/linux/proc.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

struct Symbol {
  const char* name;
  int call;
};
constexpr Symbol kSymbols[] = {{"__vdso_clock_gettime", SYS_clock_gettime},
                               {"__vdso_gettimeofday", SYS_gettimeofday},
                               {"__vdso_time", SYS_time}};

// AT_SYSINFO_EHDR of another process; 0 if it has none.
uint64_t VdsoOf(pid_t process) {
  const UniqueFd file = Proc::Host().Open(process, "auxv");
  Elf64_auxv_t entries[64];
  const ssize_t bytes = read(file.get(), entries, sizeof entries);
  for (ssize_t i = 0; i < bytes / static_cast<ssize_t>(sizeof entries[0]); ++i) {
    if (entries[i].a_type == AT_SYSINFO_EHDR) return entries[i].a_un.a_val;
  }
  return 0;
}

}  // namespace

absl::StatusOr<Vdso> Vdso::Create() {
  const auto* base = reinterpret_cast<const uint8_t*>(getauxval(AT_SYSINFO_EHDR));
  if (base == nullptr) return absl::UnavailableError("the kernel provides no vDSO");
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(base);
  const auto* programs = reinterpret_cast<const Elf64_Phdr*>(base + header->e_phoff);
  const Elf64_Dyn* dynamic = nullptr;
  for (int i = 0; i < header->e_phnum; ++i) {
    if (programs[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const Elf64_Dyn*>(base + programs[i].p_offset);
    }
  }
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    const uint8_t* at = base + dynamic->d_un.d_ptr;  // it is linked at 0
    if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const Elf64_Sym*>(at);
    if (dynamic->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(at);
    if (dynamic->d_tag == DT_HASH) hash = reinterpret_cast<const uint32_t*>(at);
  }
  Vdso vdso;
  if (symbols != nullptr && names != nullptr && hash != nullptr) {
    for (uint32_t i = 0; i < hash[1]; ++i) {  // nchain: the number of symbols
      for (const Symbol& symbol : kSymbols) {
        if (std::string_view(names + symbols[i].st_name) == symbol.name) {
          vdso.functions_.push_back({symbols[i].st_value, symbol.call});
        }
      }
    }
  }
  if (vdso.functions_.size() != std::size(kSymbols)) {
    return absl::UnimplementedError("the vDSO of this kernel has an unknown form");
  }
  return vdso;
}

absl::Status Vdso::Redirect(pid_t process) const {
  const uint64_t base = VdsoOf(process);
  if (base == 0) return absl::OkStatus();  // then it reads clocks by system calls
  const UniqueFd memory = Proc::Host().Open(process, "mem", O_RDWR);
  for (const Function& function : functions_) {
    // 0: mov $call, %eax; syscall; cmp $-EINTR, %eax; je 0b; ret
    // A trapped call can be interrupted before it is received, and nobody expects that of
    // reading a clock.
    uint8_t code[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0x83, 0xf8, 0xfc, 0x74, 0xf4, 0xc3};
    std::memcpy(code + 1, &function.call, 4);
    if (pwrite(memory.get(), code, sizeof code, static_cast<off_t>(base + function.offset)) !=
        sizeof code) {
      return absl::PermissionDeniedError(absl::StrCat("cannot write to the vDSO of process ",
                                                      process, ": ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace phantora
