// The bytes of libphantora_check.so, to be preloaded into ranks.
#ifndef PHANTORA_TRAP_CHECK_LIBRARY_EMBEDDED_LIBRARY_H_
#define PHANTORA_TRAP_CHECK_LIBRARY_EMBEDDED_LIBRARY_H_

#include <string_view>

namespace phantora::check {

std::string_view CheckLibrary();

}  // namespace phantora::check

#endif  // PHANTORA_TRAP_CHECK_LIBRARY_EMBEDDED_LIBRARY_H_
