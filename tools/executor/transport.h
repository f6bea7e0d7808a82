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
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trap/linux/unique_fd.h"

namespace phantora::executor {

// Two pieces, one behind the other. Errors: UNAVAILABLE: the other has gone; DEADLINE_EXCEEDED: it
// reads nothing for so long.
absl::Status SendAll(int socket, const void* head, size_t head_bytes, const void* rest,
                     size_t rest_bytes, std::chrono::milliseconds timeout);
// Errors: as before. `timeout` below zero: none. `descriptor`: what came along, if anything did.
absl::Status ReceiveAll(int socket, void* to, size_t bytes, std::chrono::milliseconds timeout,
                        UniqueFd* descriptor = nullptr);

// Descriptors, at most two, with some bytes (at most what a socket takes at once). Errors: as
// SendAll.
absl::Status SendDescriptors(int socket, absl::string_view bytes, absl::Span<const int> descriptors,
                             std::chrono::milliseconds timeout);
// Two of them. What came instead is the error's text.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> ReceiveDescriptors(int socket,
                                                                 std::chrono::milliseconds timeout);

}  // namespace phantora::executor

#endif  // PHANTORA_TOOLS_EXECUTOR_TRANSPORT_H_
