#include "tools/observe/served_requests.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostListed = 4096;
constexpr size_t kMostErrorText = 200;
constexpr size_t kMostBytes = size_t{256} << 20;

constexpr const char* kTotals[] = {"requests",           "failed",        "seconds",
                                   "requests_per_s",     "output_tokens", "input_tokens_per_s",
                                   "output_tokens_per_s"};
constexpr const char* kLatencies[] = {"ttft", "tpot", "itl", "latency"};
constexpr const char* kStatistics[] = {"mean_s", "min_s", "max_s", "p50_s",
                                       "p90_s",  "p95_s", "p99_s"};
constexpr const char* kOfServer[] = {"running", "waiting", "kv_use", "queue", "prefill", "decode"};
constexpr const char* kOfServerStatistics[] = {"mean", "most", "mean_s"};
constexpr const char* kOfRequest[] = {"sent_s",        "first_token_s", "last_token_s",
                                      "prompt_tokens", "output_tokens", "ttft_s",
                                      "tpot_s",        "latency_s"};
constexpr const char* kOfSample[] = {"at_s", "running", "waiting", "kv_use"};

// Member `name` of `from`, null if there is none.
const Json& Member(const Json& from, const char* name) {
  static const Json none;
  if (!from.is_object()) return none;
  const auto found = from.find(name);
  return found == from.end() ? none : *found;
}

template <size_t n>
Json Numbers(const Json& from, const char* const (&names)[n]) {
  Json kept = Json::object();
  for (const char* name : names) {
    if (const Json& value = Member(from, name); value.is_number()) kept[name] = value;
  }
  return kept;
}

Json Summary(const Json& from) {
  Json kept = Numbers(from, kTotals);
  for (const char* name : kLatencies) {
    if (Json statistics = Numbers(Member(from, name), kStatistics); !statistics.empty()) {
      kept[name] = std::move(statistics);
    }
  }
  const Json& server = Member(from, "server");
  for (const char* name : kOfServer) {
    if (Json statistics = Numbers(Member(server, name), kOfServerStatistics); !statistics.empty()) {
      kept[absl::StrCat("server_", name)] = std::move(statistics);
    }
  }
  if (const Json& value = Member(server, "preemptions"); value.is_number()) {
    kept["preemptions"] = value;
  }
  const Json& goodput = Member(from, "goodput");
  if (const Json& share = Member(goodput, "share"); share.is_number()) {
    constexpr const char* kBounds[] = {"ttft", "tpot", "latency"};
    kept["goodput"] = {{"share", share}, {"slo_s", Numbers(Member(goodput, "slo_s"), kBounds)}};
    if (const Json& rate = Member(goodput, "requests_per_s"); rate.is_number()) {
      kept["goodput"]["requests_per_s"] = rate;
    }
  }
  return kept;
}

Json Requests(const Json& from) {
  Json kept = Json::array();
  for (const Json& request : from) {
    if (kept.size() == kMostListed) break;
    Json one = Numbers(request, kOfRequest);
    if (const Json& error = Member(request, "error"); error.is_string()) {
      if (const auto& text = error.get_ref<const std::string&>(); !text.empty()) {
        one["error"] = text.substr(0, kMostErrorText);
      }
    }
    kept.push_back(std::move(one));
  }
  return kept;
}

Json Samples(const Json& from) {
  Json kept = Json::array();
  for (const Json& sample : from) {
    if (kept.size() == kMostListed) break;
    kept.push_back(Numbers(sample, kOfSample));
  }
  return kept;
}

}  // namespace

absl::StatusOr<Json> ServedRequests(absl::string_view text) {
  const Json written = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (written.is_discarded()) return absl::InvalidArgumentError("no JSON");
  const Json& schema = Member(written, "schema");
  const Json& version = Member(written, "schema_version");
  if (schema != "phantora load" || version != 1) {
    return absl::InvalidArgumentError("not what phantora-load of this version writes");
  }
  const Json& requests = Member(written, "requests");
  const Json& samples = Member(written, "server_samples");
  if (!requests.is_array() || !samples.is_array()) {
    return absl::InvalidArgumentError("no lists 'requests' and 'server_samples'");
  }
  return Json{{"summary", Summary(Member(written, "summary"))},
              {"all", requests.size()},
              {"requests", Requests(requests)},
              {"server_samples", Samples(samples)}};
}

absl::StatusOr<std::optional<Json>> ReadServedRequests(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kRequestsFile);
  const auto failed = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  // A rank may have put anything there: neither a pipe nor a link is waited for or followed.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT) return std::nullopt;
    return failed(std::strerror(errno));
  }
  struct stat about = {};
  std::string text;
  absl::Status status;
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    status = failed("no ordinary file");
  } else if (static_cast<size_t>(about.st_size) > kMostBytes) {
    status = failed("too large");
  } else {
    text.resize(static_cast<size_t>(about.st_size));
    size_t have = 0;
    while (have < text.size()) {
      const ssize_t got = read(file, text.data() + have, text.size() - have);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    text.resize(have);
  }
  close(file);
  if (!status.ok()) return status;
  auto requests = ServedRequests(text);
  if (!requests.ok()) return failed(requests.status().message());
  return *std::move(requests);
}

}  // namespace phantora
