// What most files include, for them all to have it precompiled (precompiled.bzl). A file still says
// itself what it needs.
#ifndef PHANTORA_TOOLS_BAZEL_COMMON_HEADERS_H_
#define PHANTORA_TOOLS_BAZEL_COMMON_HEADERS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"

#endif  // PHANTORA_TOOLS_BAZEL_COMMON_HEADERS_H_
