#include "tools/record/masks.h"

#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace phantora::record {
namespace {

// Smaller ones may be sizes, counts and flags as well.
constexpr uint32_t kLeastHandle = 0x10000;

constexpr absl::string_view kUuidPrefix = "GPU-";
constexpr size_t kUuidDigits = 36;

// The bytes of "5e2c9a4d-....": 32 digits, with hyphens where they belong.
std::optional<std::string> UuidBytes(absl::string_view text) {
  if (text.size() < kUuidDigits) return std::nullopt;
  std::string digits;
  for (size_t i = 0; i < kUuidDigits; ++i) {
    const bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    if (hyphen ? text[i] != '-' : !absl::ascii_isxdigit(text[i])) return std::nullopt;
    if (!hyphen) digits += text[i];
  }
  return absl::HexStringToBytes(digits);
}

}  // namespace

std::string Masks::Handle(uint32_t handle) {
  if (handle == 0) return "0";
  return absl::StrCat("handle#", handles_.try_emplace(handle, handles_.size() + 1).first->second);
}

bool Masks::IsHandle(uint32_t word) const {
  return word >= kLeastHandle && handles_.find(word) != handles_.end();
}

std::string Masks::GpuId(uint32_t id) {
  if (id == 0) return "0";
  if (id == ~0u) return "0xffffffff";  // none
  return absl::StrCat("gpu#", gpus_.try_emplace(id, gpus_.size() + 1).first->second);
}

std::string Masks::Uuid(absl::string_view bytes) {
  if (bytes.find_first_not_of('\0') == absl::string_view::npos) return "0";
  return absl::StrCat("gpu-uuid#",
                      uuids_.try_emplace(std::string(bytes), uuids_.size() + 1).first->second);
}

bool Masks::IsUuid(absl::string_view bytes) const {
  return uuids_.find(std::string(bytes)) != uuids_.end();
}

std::string Masks::Text(absl::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const absl::string_view rest = text.substr(at);
    std::optional<std::string> uuid;
    if (absl::StartsWith(rest, kUuidPrefix)) uuid = UuidBytes(rest.substr(kUuidPrefix.size()));
    if (uuid) {
      absl::StrAppend(&result, Uuid(*uuid));
      at += kUuidPrefix.size() + kUuidDigits;
    } else {
      result += text[at++];
    }
  }
  return result;
}

bool LooksLikeAddress(uint64_t value) {
  // Position-independent programs and their heaps; mappings and stacks. The last address is
  // a limit rather than an address.
  const uint64_t top = value >> 40;
  return top == 0x55 || top == 0x56 || top == 0x7e || (top == 0x7f && value < 0x7fffffffffff);
}

MemberMask MaskOf(absl::string_view name) {
  if (name.size() > 1 && name[0] == 'h' && absl::ascii_isupper(name[1]) && name != "hClass") {
    return MemberMask::kHandle;
  }
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::StrContains(lower, "gpuid") || lower == "gpu_id" || lower == "boardid") {
    return MemberMask::kGpuId;
  }
  if (absl::StrContains(lower, "uuid")) return MemberMask::kUuid;
  if (lower == "cputime" || lower == "gputime" || lower == "time_nsec" ||
      absl::StrContains(lower, "timestamp")) {
    return MemberMask::kTime;
  }
  if (lower == "pid" || lower == "processid" || lower == "ospid") return MemberMask::kProcess;
  if (absl::EndsWith(lower, "token")) return MemberMask::kToken;
  if (absl::StrContains(lower, "serialnum")) return MemberMask::kSerial;
  return MemberMask::kNone;
}

}  // namespace phantora::record
