// Whole messages over sockets.
#ifndef PHANTORA_TOOLS_EXECUTOR_TRANSPORT_H_
#define PHANTORA_TOOLS_EXECUTOR_TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora::executor {

// Two pieces, one behind the other. Errors: UNAVAILABLE: the other has gone; DEADLINE_EXCEEDED: it
// reads nothing for so long.
absl::Status SendAll(int socket, const void* head, size_t head_bytes, const void* rest,
                     size_t rest_bytes, std::chrono::milliseconds timeout);
// Errors: as before. `timeout` below zero: none.
absl::Status ReceiveAll(int socket, void* to, size_t bytes, std::chrono::milliseconds timeout);

// Two descriptors, with a line of text.
absl::Status SendDescriptors(int socket, const std::string& line, int first, int second);
// What came instead is the error's text.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> ReceiveDescriptors(int socket,
                                                                 std::chrono::milliseconds timeout);

}  // namespace phantora::executor

#endif  // PHANTORA_TOOLS_EXECUTOR_TRANSPORT_H_
