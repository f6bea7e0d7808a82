// What a client of a server measured during a run: requests.json of the report's directory, which
// phantora-load writes (tools/serving/phantora_load.py, write_json), as part of the report.
#ifndef PHANTORA_TOOLS_OBSERVE_SERVED_REQUESTS_H_
#define PHANTORA_TOOLS_OBSERVE_SERVED_REQUESTS_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phantora {

inline constexpr char kRequestsFile[] = "requests.json";

// `summary`, at most the first 4,096 of `requests` and of `server_samples`, and how many there were
// (`all`); of their members those that docs/report_schema.md names, if they are numbers (errors of
// requests: text). A rank wrote the text, so that it may be anything. Errors: it is not what
// phantora-load writes.
absl::StatusOr<nlohmann::ordered_json> ServedRequests(absl::string_view text);

// Of the file `directory`/requests.json; nothing if there is none. Errors: it cannot be read, is
// larger than 256 MiB, and as above.
absl::StatusOr<std::optional<nlohmann::ordered_json>> ReadServedRequests(
    const std::string& directory);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_SERVED_REQUESTS_H_
