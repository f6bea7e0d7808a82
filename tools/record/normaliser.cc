#include "tools/record/normaliser.h"

#include <linux/ioctl.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tools/record/abi_fields.h"
#include "tools/record/block_sizes.h"
#include "tools/record/masks.h"
#include "tools/record/parameter_text.h"
#include "tools/record/pointed_lists.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_control_names.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/rm/driver_version.h"

namespace phantora::record {
namespace {

constexpr char kUvmPath[] = "/dev/nvidia-uvm";

struct EscapeRecord {
  uint32_t number;
  const char* record;
};
constexpr EscapeRecord kEscapeRecords[] = {
    {abi::NV_ESC_REGISTER_FD, "nv_ioctl_register_fd_t"},
    {abi::NV_ESC_ALLOC_OS_EVENT, "nv_ioctl_alloc_os_event_t"},
    {abi::NV_ESC_FREE_OS_EVENT, "nv_ioctl_free_os_event_t"},
    {abi::NV_ESC_STATUS_CODE, "nv_ioctl_status_code_t"},
    {abi::NV_ESC_CHECK_VERSION_STR, "nv_ioctl_rm_api_version_t"},
    {abi::NV_ESC_SYS_PARAMS, "nv_ioctl_sys_params_t"},
    {abi::NV_ESC_NUMA_INFO, "nv_ioctl_numa_info_t"},
    {abi::NV_ESC_WAIT_OPEN_COMPLETE, "nv_ioctl_wait_open_complete_t"},
    {abi::NV_ESC_EXPORT_TO_DMABUF_FD, "nv_ioctl_export_to_dma_buf_fd_t"},
    {abi::NV_ESC_RM_ALLOC, "NVOS64_PARAMETERS"},
    {abi::NV_ESC_RM_ALLOC, "NVOS21_PARAMETERS"},
    {abi::NV_ESC_RM_ALLOC_MEMORY, "nv_ioctl_nvos02_parameters_with_fd"},
    {abi::NV_ESC_RM_FREE, "NVOS00_PARAMETERS"},
    {abi::NV_ESC_RM_CONTROL, "NVOS54_PARAMETERS"},
    {abi::NV_ESC_RM_DUP_OBJECT, "NVOS55_PARAMETERS"},
    {abi::NV_ESC_RM_SHARE, "NVOS57_PARAMETERS"},
    {abi::NV_ESC_RM_VID_HEAP_CONTROL, "NVOS32_PARAMETERS"},
    {abi::NV_ESC_RM_MAP_MEMORY, "nv_ioctl_nvos33_parameters_with_fd"},
    {abi::NV_ESC_RM_UNMAP_MEMORY, "NVOS34_PARAMETERS"},
    {abi::NV_ESC_RM_MAP_MEMORY_DMA, "NVOS46_PARAMETERS"},
    {abi::NV_ESC_RM_UNMAP_MEMORY_DMA, "NVOS47_PARAMETERS"},
    {abi::NV_ESC_RM_GET_EVENT_DATA, "NVOS41_PARAMETERS"},
    {abi::NV_ESC_RM_IDLE_CHANNELS, "NVOS30_PARAMETERS"},
    {abi::NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, "NVOS56_PARAMETERS"},
};

// What a branch calls a structure that it has changed.
std::string NameIn(DriverAbi abi, const std::string& name) {
  return absl::StrCat(name, "_V", static_cast<int>(abi));
}

// A structure of that size, as some driver version has it.
const AbiRecord* RecordOfSize(const std::string& name, uint64_t bytes) {
  const AbiRecord* record = FindRecord(name);
  if (record != nullptr && record->bytes == bytes) return record;
  for (const DriverAbi abi : kDriverAbis) {
    record = FindRecord(NameIn(abi, name));
    if (record != nullptr && record->bytes == bytes) return record;
  }
  return nullptr;
}

// As that branch has it.
const AbiRecord* RecordOf(DriverAbi abi, const std::string& name) {
  for (size_t index = IndexOf(abi); index > 0; --index) {
    const AbiRecord* record = FindRecord(NameIn(kDriverAbis[index], name));
    if (record != nullptr) return record;
  }
  return FindRecord(name);
}

const AbiRecord* EscapeLayout(uint32_t number, uint64_t bytes) {
  for (const EscapeRecord& row : kEscapeRecords) {
    if (row.number != number) continue;
    if (const AbiRecord* record = RecordOfSize(row.record, bytes)) return record;
  }
  return nullptr;
}

std::string NameOr(const char* name, uint64_t number) {
  return name != nullptr ? name : absl::StrFormat("0x%x", number);
}

std::string ErrnoName(int error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : absl::StrCat("errno:", error);
}

uint64_t NumberAt(Bytes bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  if (offset <= bytes.size() && size <= bytes.size() - offset) {
    std::memcpy(&value, bytes.data() + offset, size);
  }
  return value;
}

// Before the members of NVOS54 and NVOS64, the blocks around a control's and an allocation's own.
constexpr char kAround[] = "rm.";

// What a call's name, size and result say already.
bool IsRedundant(const RecordedCall& call, absl::string_view name) {
  if (absl::ConsumePrefix(&name, kAround)) {
    for (absl::string_view redundant :
         {"cmd", "hClass", "params", "paramsSize", "pAllocParms", "status"}) {
      if (name == redundant) return true;
    }
    return false;
  }
  const bool whole = call.kind == "escape" || call.kind == "uvm";
  return whole &&
         (name == "status" || name == "rmStatus" || name == "Status" || name == "params.status");
}

class Normaliser {
 public:
  explicit Normaliser(const std::vector<RawProcess>& processes) : processes_(processes) {}

  Recording Run() {
    FindDriver();
    for (const RawProcess& process : processes_) {
      if (!process.calls.empty()) AddProcess(process);
    }
    return std::move(recording_);
  }

 private:
  // The version that the driver itself says: to NVML, or to libcuda.
  void FindDriver() {
    for (const RawProcess& process : processes_) {
      for (const RawCall& call : process.calls) {
        if (call.kind != RecordKind::kIoctl || call.blocks.empty()) continue;
        const RawBlock& own = call.blocks[kParameters];
        if (call.values[2] == abi::NV_ESC_CHECK_VERSION_STR &&
            SetDriver(own.out, offsetof(abi::nv_ioctl_rm_api_version_t, versionString))) {
          return;
        }
        if (call.values[2] == abi::NV_ESC_RM_CONTROL && call.blocks.size() > kFirstList &&
            NumberAt(own.in, offsetof(abi::NVOS54_PARAMETERS, cmd), 4) ==
                abi::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION &&
            SetDriver(call.blocks[kFirstList].out, 0)) {
          return;
        }
      }
    }
  }

  bool SetDriver(const std::vector<uint8_t>& bytes, size_t offset) {
    if (bytes.size() <= offset) return false;
    const auto* text = reinterpret_cast<const char*>(bytes.data()) + offset;
    const std::string version(text, strnlen(text, bytes.size() - offset));
    int branch;
    const std::vector<std::string> parts = absl::StrSplit(version, '.');
    if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &branch) ||
        version.find_first_not_of("0123456789.") != std::string::npos) {
      return false;
    }
    recording_.driver = version;
    abi_ = NearestAbi(branch);
    return true;
  }

  void AddProcess(const RawProcess& process) {
    masks_.BeginProcess();
    threads_.clear();
    files_.clear();
    recording_.programs.push_back(process.program.empty() ? "?" : masks_.Text(process.program));
    number_ = static_cast<int>(recording_.programs.size());
    if (process.lost > 0) {
      recording_.comments.push_back(absl::StrCat("process ", number_, ": ", process.lost,
                                                 " records could not be written and are missing"));
    }
    if (process.cut) {
      recording_.comments.push_back(absl::StrCat("process ", number_, ": its last record is cut"));
    }
    for (const RawCall& call : process.calls) AddCall(call);
  }

  void AddCall(const RawCall& raw) {
    if (raw.kind == RecordKind::kFile) {
      AddFile(raw);
      return;
    }
    RecordedCall call;
    call.process = number_;
    call.thread =
        static_cast<int>(threads_.try_emplace(raw.thread, threads_.size() + 1).first->second);
    call.device = raw.path.empty() ? "?" : raw.path;
    std::replace(call.device.begin(), call.device.end(), ' ', '_');
    call.name = "-";
    switch (raw.kind) {
      case RecordKind::kOpen:
        call.kind = "open";
        call.result = raw.values[1] == 0 ? "ok" : ErrnoName(static_cast<int>(raw.values[1]));
        break;
      case RecordKind::kMmap:
        AddMmap(raw, &call);
        break;
      default:
        AddIoctl(raw, &call);
        break;
    }
    recording_.calls.push_back(std::move(call));
  }

  void AddFile(const RawCall& raw) {
    RecordedFile file{number_, masks_.Text(raw.path), ""};
    const bool text = std::all_of(raw.content.begin(), raw.content.end(), [](char c) {
      return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t';
    });
    if (text) {
      file.content = masks_.Text(raw.content);
      if (!file.content.empty() && file.content.back() != '\n') file.content += '\n';
    } else {
      const auto* bytes = reinterpret_cast<const uint8_t*>(raw.content.data());
      file.content = BytesText({bytes, raw.content.size()}, false, &masks_) + "\n";
    }
    if (files_.insert({file.path, file.content}).second) {
      recording_.files.push_back(std::move(file));
    }
  }

  void AddMmap(const RawCall& raw, RecordedCall* call) {
    call->kind = "mmap";
    call->result = raw.values[3] == 0 ? "ok" : ErrnoName(static_cast<int>(raw.values[3]));
    const uint64_t offset = raw.values[2];
    call->in.push_back({"length", absl::StrFormat("0x%x", raw.values[0])});
    call->in.push_back({"protection", absl::StrCat(raw.values[1] & 0xffffffff)});
    call->in.push_back({"flags", absl::StrFormat("0x%x", raw.values[1] >> 32)});
    if (offset != 0) {
      call->in.push_back(
          {"offset", LooksLikeAddress(offset) ? "ptr" : absl::StrFormat("0x%x", offset)});
    }
  }

  void AddIoctl(const RawCall& raw, RecordedCall* call) {
    const auto number = static_cast<uint32_t>(raw.values[2]);
    static const RawBlock kNone;
    const RawBlock& own = raw.blocks.empty() ? kNone : raw.blocks[kParameters];
    const RawBlock& nested = raw.blocks.size() > kNested ? raw.blocks[kNested] : kNone;
    const bool uvm = raw.path == kUvmPath || (raw.path.empty() && _IOC_TYPE(raw.values[0]) != 'F');
    call->bytes = own.size;
    std::vector<Parameter> before, after;
    uint64_t status_offset = ~uint64_t{0};
    if (uvm) {
      call->kind = "uvm";
      call->name = NameOr(abi::UvmIoctlName(number), number);
      const AbiRecord* layout = nullptr;
      for (const BlockSize& row : kUvmBlocks) {
        if (row.number == number) layout = LayoutOf(row);
      }
      // The interposer does not know the version, and copies as much as any has.
      if (layout != nullptr) call->bytes = layout->bytes;
      AddBlock(layout, own, call->bytes, "", &before, &after);
      status_offset = StatusOffset(layout);
    } else if (number == abi::NV_ESC_RM_CONTROL && own.size == sizeof(abi::NVOS54_PARAMETERS)) {
      call->kind = "control";
      const auto command =
          static_cast<uint32_t>(NumberAt(own.in, offsetof(abi::NVOS54_PARAMETERS, cmd), 4));
      call->name = NameOr(abi::RmControlName(command), command);
      call->bytes = nested.size;
      AddBlock(FindRecord("NVOS54_PARAMETERS"), own, own.size, kAround, &before, &after);
      AddBlock(ControlRecord(command, nested.size), nested, nested.size, "", &before, &after);
      AddLists(command, raw, &before, &after);
      status_offset = offsetof(abi::NVOS54_PARAMETERS, status);
    } else if (number == abi::NV_ESC_RM_ALLOC && EscapeLayout(number, own.size) != nullptr) {
      call->kind = "alloc";
      const auto class_id =
          static_cast<uint32_t>(NumberAt(own.in, offsetof(abi::NVOS21_PARAMETERS, hClass), 4));
      call->name = NameOr(abi::RmClassName(class_id), class_id);
      const AbiRecord* own_layout = EscapeLayout(number, own.size);
      AddBlock(own_layout, own, own.size, kAround, &before, &after);
      status_offset = StatusOffset(own_layout);
      const AbiRecord* layout = nullptr;
      for (const BlockSize& row : kAllocationBlocks) {
        if (row.number == class_id) layout = LayoutOf(row);
      }
      if (layout != nullptr && layout->bytes > nested.size) layout = nullptr;
      call->bytes = layout != nullptr ? layout->bytes : nested.size;
      AddBlock(layout, nested, call->bytes, "", &before, &after);
    } else {
      call->kind = "escape";
      call->name = NameOr(abi::EscapeName(number), number);
      if (number == abi::NV_ESC_CARD_INFO) {
        AddCards(own.in, When::kBefore, &before);
        AddCards(own.out, When::kAfter, &after);
      } else if (number == abi::NV_ESC_ATTACH_GPUS_TO_FD) {
        before.push_back({"gpuIds", ArrayText(own.in, 4, MemberMask::kGpuId, &masks_)});
      } else {
        const AbiRecord* layout = EscapeLayout(number, own.size);
        AddBlock(layout, own, own.size, "", &before, &after);
        status_offset = StatusOffset(layout);
      }
      // It has no parameters but its answer; callers leave there what was on their stack.
      if (number == abi::NV_ESC_SYS_PARAMS) before.clear();
    }
    Keep(before, after, call);
    call->result = ResultOf(raw, own, status_offset);
  }

  const AbiRecord* LayoutOf(const BlockSize& block) const { return RecordOf(abi_, block.name); }

  // Where the status of a block lies; past any block if there is none.
  static uint64_t StatusOffset(const AbiRecord* record) {
    if (record == nullptr) return ~uint64_t{0};
    for (const AbiField& field : record->Fields()) {
      const absl::string_view name = field.name;
      if (field.bytes == 4 && (name == "status" || name == "rmStatus" || name == "Status")) {
        return field.offset;
      }
      // nv_ioctl_nvos33_parameters_with_fd and the like.
      if (name == "params" && field.record != nullptr) return StatusOffset(field.record);
    }
    return ~uint64_t{0};
  }

  static std::string ResultOf(const RawCall& raw, const RawBlock& own, uint64_t status_offset) {
    if (!raw.ended) return "unfinished";
    if (raw.result < 0) return ErrnoName(raw.error);
    if (status_offset > own.out.size() || own.out.size() - status_offset < 4) return "ok";
    const auto status = static_cast<uint32_t>(NumberAt(own.out, status_offset, 4));
    return NameOr(abi::NvStatusName(status), status);
  }

  void AddBlock(const AbiRecord* layout, const RawBlock& block, size_t bytes,
                const std::string& prefix, std::vector<Parameter>* before,
                std::vector<Parameter>* after) {
    const auto add = [&](const std::vector<uint8_t>& content, When when,
                         std::vector<Parameter>* to) {
      const Bytes used = Bytes(content).subspan(0, std::min(bytes, content.size()));
      if (layout != nullptr) {
        AppendMembers(*layout, used, prefix, when, &masks_, to);
      } else {
        AppendWords(used, prefix, &masks_, to);
        if (used.size() < bytes) to->push_back({prefix + "rest", "!"});
      }
    };
    add(block.in, When::kBefore, before);
    add(block.out, When::kAfter, after);
  }

  void AddLists(uint32_t command, const RawCall& raw, std::vector<Parameter>* before,
                std::vector<Parameter>* after) {
    size_t index = kFirstList;
    for (const PointedList& list : kPointedLists) {
      if (list.command != command) continue;
      if (index >= raw.blocks.size()) return;
      const RawBlock& block = raw.blocks[index++];
      AddList(list, block.in, When::kBefore, before);
      AddList(list, block.out, When::kAfter, after);
    }
  }

  void AddList(const PointedList& list, Bytes bytes, When when, std::vector<Parameter>* to) {
    if (bytes.empty()) return;
    switch (list.kind) {
      case ListKind::kIndexData:
        // Answers have the same names as those of lists that lie in the parameters.
        AppendIndexData(bytes, absl::StrCat(when == When::kBefore ? "*" : "", list.name), when, to);
        break;
      case ListKind::kText:
        // Before the call it is whatever was there.
        if (when == When::kAfter) {
          to->push_back({absl::StrCat("*", list.name), BytesText(bytes, true, &masks_)});
        }
        break;
      case ListKind::kWords:
        if (when == When::kAfter) {
          to->push_back(
              {absl::StrCat("*", list.name), ArrayText(bytes, 4, MemberMask::kNone, &masks_)});
        }
        break;
      case ListKind::kHandles:
        to->push_back(
            {absl::StrCat("*", list.name), ArrayText(bytes, 4, MemberMask::kHandle, &masks_)});
        break;
    }
  }

  void AddCards(Bytes bytes, When when, std::vector<Parameter>* to) {
    const AbiRecord* card = FindRecord("nv_ioctl_card_info_t");
    // What the driver has not filled is not looked at.
    for (size_t i = 0; when == When::kAfter && (i + 1) * card->bytes <= bytes.size(); ++i) {
      const Bytes one = bytes.subspan(i * card->bytes, card->bytes);
      if (one[0] == 0) continue;
      AppendMembers(*card, one, absl::StrCat("cards[", i, "]."), when, &masks_, to);
    }
  }

  // What is not 0 before, and what is another after.
  static void Keep(const std::vector<Parameter>& before, const std::vector<Parameter>& after,
                   RecordedCall* call) {
    absl::flat_hash_map<absl::string_view, absl::string_view> values;
    for (const Parameter& parameter : before) {
      if (IsRedundant(*call, parameter.name)) continue;
      values[parameter.name] = parameter.value;
      if (parameter.value != "0") call->in.push_back(parameter);
    }
    for (const Parameter& parameter : after) {
      if (IsRedundant(*call, parameter.name)) continue;
      const auto found = values.find(parameter.name);
      // Answers of lists are kept also where they are 0.
      const bool changed = found != values.end()
                               ? found->second != parameter.value
                               : parameter.value != "0" || absl::EndsWith(parameter.name, "]");
      if (changed) call->out.push_back(parameter);
    }
  }

  const std::vector<RawProcess>& processes_;
  DriverAbi abi_ = DriverAbi::k550;  // of the recorded driver, once its version is known
  Masks masks_;
  // The number of the process at hand.
  int number_ = 0;
  absl::flat_hash_map<uint32_t, size_t> threads_;
  std::set<std::pair<std::string, std::string>> files_;
  Recording recording_;
};

}  // namespace

Recording Normalise(const std::vector<RawProcess>& processes) {
  return Normaliser(processes).Run();
}

}  // namespace phantora::record
