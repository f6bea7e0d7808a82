#include "tools/record/known_calls.h"

#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tools/record/abi_fields.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_device.h"
#include "trap/uvm/uvm_device.h"

namespace phantora::record {
namespace {

using NameOf = const char* (*)(uint32_t);

class Names {
 public:
  // The number that a name stands for, or that it is ("0x2080a612"). False if there is none.
  bool Find(const std::string& kind, const std::string& name, uint32_t* number) {
    if (name.rfind("0x", 0) == 0) return absl::SimpleHexAtoi(name, number);
    if (kind == "control") return CommandOf(name, number);
    const auto found = numbers_.find(absl::StrCat(kind, " ", name));
    if (found == numbers_.end()) return false;
    *number = found->second;
    return true;
  }

  static Names& Get() {
    static auto* const names = new Names();
    return *names;
  }

 private:
  Names() {
    Add("escape", abi::EscapeName, 0, 0x100);
    Add("alloc", abi::RmClassName, 0, 0x10000);
    Add("uvm", abi::UvmIoctlName, 0, 0x800);
    Add("uvm", abi::UvmIoctlName, 0x30000000, 0x30000010);
  }

  void Add(const char* kind, NameOf name_of, uint32_t begin, uint32_t end) {
    for (uint32_t number = begin; number != end; ++number) {
      if (const char* name = name_of(number)) {
        numbers_.try_emplace(absl::StrCat(kind, " ", name), number);
      }
    }
  }

  absl::flat_hash_map<std::string, uint32_t> numbers_;
};

DriverAbi AbiOf(const std::string& driver) {
  int branch;
  const std::vector<std::string> parts = absl::StrSplit(driver, '.');
  return absl::SimpleAtoi(parts[0], &branch) ? NearestAbi(branch) : DriverAbi::k550;
}

const char* YesNo(bool known) { return known ? "yes" : "no"; }

}  // namespace

std::string EmulatorKnows(const RecordedCall& call, const std::string& driver) {
  uint32_t number;
  if (call.name == "-") return "yes";  // open and mmap
  if (!Names::Get().Find(call.kind, call.name, &number)) return "no";
  if (call.kind == "escape") return YesNo(RmDevice::Knows(number));
  if (call.kind == "alloc") return YesNo(KnowsClass(number));
  if (call.kind == "uvm") return YesNo(UvmDevice::Knows(number));
  const ControlRow* row = FindControl(number);
  const uint32_t bytes = row == nullptr ? kAbsentControl : row->versions.For(AbiOf(driver)).size;
  if (bytes == kAbsentControl) return "no";
  return bytes == call.bytes ? "yes" : absl::StrCat("with ", bytes, " bytes");
}

std::string SummariseCalls(const Recording& recording) {
  struct Sum {
    int calls = 0, failed = 0;
    std::string known;
  };
  std::map<std::tuple<std::string, std::string, uint32_t>, Sum> sums;
  for (const RecordedCall& call : recording.calls) {
    Sum& sum = sums[{call.kind, call.name, call.bytes}];
    if (sum.calls++ == 0) sum.known = EmulatorKnows(call, recording.driver);
    if (call.result != "ok" && call.result != "NV_OK") ++sum.failed;
  }
  std::string text = absl::StrFormat("%8s %8s %8s  %-16s %-8s %s\n", "calls", "failed", "bytes",
                                     "emulator", "kind", "name");
  for (const auto& [key, sum] : sums) {
    const auto& [kind, name, bytes] = key;
    absl::StrAppendFormat(&text, "%8d %8d %8d  %-16s %-8s %s\n", sum.calls, sum.failed, bytes,
                          sum.known, kind, name);
  }
  return text;
}

}  // namespace phantora::record
