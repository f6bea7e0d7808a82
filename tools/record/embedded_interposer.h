// The bytes of libphantora_record.so.
#ifndef PHANTORA_TOOLS_RECORD_EMBEDDED_INTERPOSER_H_
#define PHANTORA_TOOLS_RECORD_EMBEDDED_INTERPOSER_H_

#include <string_view>

namespace phantora::record {

std::string_view Interposer();

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_EMBEDDED_INTERPOSER_H_
