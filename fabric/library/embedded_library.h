// The bytes of libnccl.so.2, to be given to ranks in place of NVIDIA's.
#ifndef PHANTORA_FABRIC_LIBRARY_EMBEDDED_LIBRARY_H_
#define PHANTORA_FABRIC_LIBRARY_EMBEDDED_LIBRARY_H_

#include <string_view>

namespace phantora::nccl {

std::string_view NcclLibrary();

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_EMBEDDED_LIBRARY_H_
