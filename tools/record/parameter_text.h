// Parameter blocks as text (recording.h): by their layout where there is one, else by words.
#ifndef PHANTORA_TOOLS_RECORD_PARAMETER_TEXT_H_
#define PHANTORA_TOOLS_RECORD_PARAMETER_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/record/abi_fields.h"
#include "tools/record/masks.h"
#include "tools/record/recording.h"

namespace phantora::record {

using Bytes = absl::Span<const uint8_t>;

enum class When { kBefore, kAfter };

// All members, those that are 0 as well ("0"). `prefix` is put before the names. What `bytes` lacks
// of the structure is "!".
void AppendMembers(const AbiRecord& record, Bytes bytes, const std::string& prefix, When when,
                   Masks* masks, std::vector<Parameter>* to);

// Words of 32 bits at their offsets.
void AppendWords(Bytes bytes, const std::string& prefix, Masks* masks, std::vector<Parameter>* to);

// A list of {index, data} pairs: before the call what is asked, after it the answers.
void AppendIndexData(Bytes pairs, const std::string& name, When when, std::vector<Parameter>* to);

// An array of numbers of `bytes_each`.
std::string ArrayText(Bytes bytes, uint32_t bytes_each, MemberMask mask, Masks* masks);

// Bytes as text if they are, else in hexadecimal digits. `is_text`: what follows a 0 counts for
// nothing.
std::string BytesText(Bytes bytes, bool is_text, Masks* masks);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_PARAMETER_TEXT_H_
