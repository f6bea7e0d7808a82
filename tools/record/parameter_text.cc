#include "tools/record/parameter_text.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phantora::record {
namespace {

// A text where nothing says that there is one.
constexpr size_t kLeastText = 3, kLeastTextInWords = 8;

uint64_t NumberAt(Bytes bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min<size_t>(bytes.size(), 8));
  return value;
}

std::string NumberText(uint64_t value) {
  return value < 10 ? absl::StrCat(value) : absl::StrFormat("0x%x", value);
}

absl::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The characters before the first 0.
size_t TextLength(Bytes bytes) {
  const auto printable = [](uint8_t c) {
    return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t';
  };
  const auto end = std::find_if_not(bytes.begin(), bytes.end(), printable);
  return end != bytes.end() && *end != 0 ? 0 : static_cast<size_t>(end - bytes.begin());
}

bool AllZero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

std::string Quoted(absl::string_view text, Masks* masks) {
  return absl::StrCat("\"", absl::CEscape(masks->Text(text)), "\"");
}

std::string Masked(uint64_t value, uint32_t bytes, MemberMask mask, Masks* masks) {
  if (value == 0) return "0";
  const bool word = bytes == 4;
  switch (mask) {
    case MemberMask::kHandle:
      if (word) return masks->Handle(static_cast<uint32_t>(value));
      break;
    case MemberMask::kGpuId:
      if (word) return masks->GpuId(static_cast<uint32_t>(value));
      break;
    case MemberMask::kTime:
      return "time";
    case MemberMask::kProcess:
      return "pid";
    case MemberMask::kToken:
      return "token";
    case MemberMask::kSerial:
      return "serial";
    default:
      break;
  }
  if (bytes == 8 && LooksLikeAddress(value)) return "ptr";
  // A handle that a member of another name has.
  if (word && masks->IsHandle(static_cast<uint32_t>(value))) {
    return masks->Handle(static_cast<uint32_t>(value));
  }
  return NumberText(value);
}

// Is the member of 32 bits half of an address? Structures that a library does not fill have what
// was on its stack.
bool IsHalfAddress(const AbiField& field, Bytes bytes) {
  const size_t start = field.offset / 8 * 8;
  return field.bytes == 4 && !field.array && field.kind == FieldKind::kUnsigned &&
         start + 8 <= bytes.size() && LooksLikeAddress(NumberAt(bytes.subspan(start, 8)));
}

// Members that say how many elements of another count.
struct Counted {
  absl::string_view array, count;
};
constexpr Counted kCounted[] = {
    {"classList", "numClasses"},         {"configList", "numConfigs"},
    {"engineList", "engineCount"},       {"gpuIdGrpA", "grpACount"},
    {"gpuIdGrpB", "grpBCount"},          {"gpuIds", "gpuCount"},
    {"pciBarInfo", "pciBarCount"},       {"perGpuAttributes", "gpuAttributesCount"},
    {"pidInfoList", "pidInfoListCount"}, {"pidTbl", "pidTblCount"},
    {"queries", "numQueries"},           {"samples", "sampleCount"},
};

// How many elements of an array are in use.
uint32_t CountOf(const AbiRecord& record, const AbiField& array, Bytes bytes) {
  std::string wanted = absl::StrCat(array.name, "Size");
  for (const Counted& row : kCounted) {
    if (row.array == array.name) wanted = std::string(row.count);
  }
  for (const AbiField& field : record.Fields()) {
    if (field.name == wanted && field.count == 1 && field.offset + field.bytes <= bytes.size()) {
      const uint64_t count = NumberAt(bytes.subspan(field.offset, field.bytes));
      return static_cast<uint32_t>(std::min<uint64_t>(count, array.count));
    }
  }
  return array.count;
}

bool IsIndexData(const AbiRecord& record) {
  return record.field_count == 2 && record.bytes == 8 &&
         absl::string_view(record.fields[0].name) == "index" &&
         absl::string_view(record.fields[1].name) == "data";
}

void AppendRecordField(const AbiField& field, Bytes bytes, uint32_t count, const std::string& name,
                       When when, Masks* masks, std::vector<Parameter>* to) {
  const AbiRecord& inner = *field.record;
  if (IsIndexData(inner) && field.array) {
    AppendIndexData(bytes.subspan(0, size_t{count} * 8), name, when, to);
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    std::string element = name;
    if (field.array) absl::StrAppend(&element, "[", i, "]");
    const bool named = *field.name != '\0';
    AppendMembers(inner, bytes.subspan(size_t{i} * field.bytes, field.bytes),
                  named ? element + "." : element, when, masks, to);
  }
}

void AppendUnion(const AbiRecord& record, Bytes bytes, const std::string& prefix, When when,
                 Masks* masks, std::vector<Parameter>* to) {
  // The one that Linux uses, if it is known.
  const AbiField* member = record.field_count == 1 ? record.fields : nullptr;
  for (const AbiField& field : record.Fields()) {
    if (absl::string_view(field.name) == "rm_linux") member = &field;
  }
  if (member != nullptr && member->kind == FieldKind::kRecord && !member->array) {
    AppendMembers(*member->record, bytes.subspan(0, member->bytes), prefix, when, masks, to);
    return;
  }
  const std::string name = prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
  if (TextLength(bytes) >= kLeastText) {
    to->push_back({name, BytesText(bytes, true, masks)});
  } else {
    AppendWords(bytes, name, masks, to);
  }
}

}  // namespace

std::string BytesText(Bytes bytes, bool is_text, Masks* masks) {
  if (AllZero(bytes)) return "0";
  const size_t length = TextLength(bytes);
  if (is_text ? length > 0 || bytes[0] == 0
              : length >= kLeastText && AllZero(bytes.subspan(length))) {
    return Quoted(AsText(bytes.subspan(0, length)), masks);
  }
  size_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == 0) --size;
  return absl::StrCat("hex:", absl::BytesToHexString(AsText(bytes.subspan(0, size))));
}

std::string ArrayText(Bytes bytes, uint32_t bytes_each, MemberMask mask, Masks* masks) {
  std::vector<std::string> runs;
  std::string last;
  size_t count = 0;
  const auto end_run = [&] {
    if (count > 1) absl::StrAppend(&last, "*", count);
    if (count > 0) runs.push_back(std::move(last));
  };
  for (size_t at = 0; at + bytes_each <= bytes.size(); at += bytes_each) {
    std::string text = Masked(NumberAt(bytes.subspan(at, bytes_each)), bytes_each, mask, masks);
    if (count > 0 && text == last) {
      ++count;
      continue;
    }
    end_run();
    last = std::move(text);
    count = 1;
  }
  if (last != "0") end_run();
  return runs.empty() ? "0" : absl::StrCat("[", absl::StrJoin(runs, ","), "]");
}

void AppendIndexData(Bytes pairs, const std::string& name, When when, std::vector<Parameter>* to) {
  absl::string_view list = name;
  list.remove_prefix(list.find_last_of(".*") + 1);  // 0 if there is none
  std::vector<std::string> asked;
  for (size_t at = 0; at + 8 <= pairs.size(); at += 8) {
    // MIG's engine, in the upper half, is 0 where there is none.
    const auto index = static_cast<uint32_t>(NumberAt(pairs.subspan(at, 4)));
    const char* known = IndexName(list, index);
    std::string text = known != nullptr ? known : NumberText(index);
    if (when == When::kAfter) {
      to->push_back(
          {absl::StrCat(name, "[", text, "]"), absl::StrCat(NumberAt(pairs.subspan(at + 4, 4)))});
    } else {
      asked.push_back(std::move(text));
    }
  }
  if (!asked.empty()) to->push_back({name, absl::StrCat("[", absl::StrJoin(asked, ","), "]")});
}

void AppendWords(Bytes bytes, const std::string& prefix, Masks* masks, std::vector<Parameter>* to) {
  const auto name = [&prefix](size_t at) { return absl::StrFormat("%s+0x%x", prefix, at); };
  for (size_t at = 0; at < bytes.size();) {
    const Bytes rest = bytes.subspan(at);
    if (rest.size() < 4) {
      to->push_back({name(at), NumberText(NumberAt(rest))});
      return;
    }
    const auto word = static_cast<uint32_t>(NumberAt(rest.subspan(0, 4)));
    if (word == 0 && (at % 8 != 0 || rest.size() < 8 || NumberAt(rest) == 0)) {
      to->push_back({name(at), "0"});
      at += 4;
      continue;
    }
    const size_t text = TextLength(rest);
    if (at % 8 == 0 && rest.size() >= 8 && LooksLikeAddress(NumberAt(rest))) {
      to->push_back({name(at), "ptr"});
      at += 8;
    } else if (text >= kLeastTextInWords) {
      to->push_back({name(at), Quoted(AsText(rest.subspan(0, text)), masks)});
      at += (text + 3) / 4 * 4;
    } else if (rest.size() >= Masks::kUuidBytes &&
               masks->IsUuid(AsText(rest.subspan(0, Masks::kUuidBytes)))) {
      to->push_back({name(at), masks->Uuid(AsText(rest.subspan(0, Masks::kUuidBytes)))});
      at += Masks::kUuidBytes;
    } else {
      to->push_back({name(at), masks->IsHandle(word) ? masks->Handle(word) : NumberText(word)});
      at += 4;
    }
  }
}

void AppendMembers(const AbiRecord& record, Bytes bytes, const std::string& prefix, When when,
                   Masks* masks, std::vector<Parameter>* to) {
  if (record.is_union && bytes.size() == record.bytes) {
    AppendUnion(record, bytes, prefix, when, masks, to);
    return;
  }
  for (const AbiField& field : record.Fields()) {
    const std::string name = prefix + field.name;
    const uint32_t count = field.array ? CountOf(record, field, bytes) : 1;
    const size_t size = size_t{count} * field.bytes;
    if (field.offset > bytes.size() || size > bytes.size() - field.offset) {
      to->push_back({name, "!"});
      continue;
    }
    const Bytes value = bytes.subspan(field.offset, size);
    MemberMask mask = MaskOf(field.name);
    // The bytes or text of NvUuid and of gpuUuid alike.
    if (field.bytes == 1 && field.array && mask != MemberMask::kSerial) {
      const bool binary = size == Masks::kUuidBytes ||
                          (size > Masks::kUuidBytes && !AllZero(value) &&
                           AllZero(value.subspan(Masks::kUuidBytes)) && TextLength(value) == 0);
      const bool uuid = mask == MemberMask::kUuid ||
                        (absl::string_view(record.name) == "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS" &&
                         name == "data");
      to->push_back({name, binary && uuid
                               ? masks->Uuid(AsText(value.subspan(0, Masks::kUuidBytes)))
                               : BytesText(value, field.kind == FieldKind::kChar, masks)});
      continue;
    }
    if (field.kind == FieldKind::kRecord) {
      AppendRecordField(field, value, count, name, when, masks, to);
    } else if (field.kind == FieldKind::kPointer && !field.array) {
      to->push_back({name, NumberAt(value) == 0 ? "0" : "ptr"});
    } else if (field.kind == FieldKind::kDescriptor && !field.array) {
      const auto fd = static_cast<int32_t>(NumberAt(value));
      to->push_back({name, fd < 0 ? absl::StrCat(fd) : "fd"});
    } else if (field.array) {
      to->push_back({name, ArrayText(value, field.bytes, mask, masks)});
    } else if (mask == MemberMask::kNone && IsHalfAddress(field, bytes)) {
      to->push_back({name, "ptr"});
    } else {
      to->push_back({name, Masked(NumberAt(value), field.bytes, mask, masks)});
    }
  }
}

}  // namespace phantora::record
