#include "tools/run/rank_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// A longer line is written in parts.
constexpr size_t kLongestLine = 1 << 16;
// At a time; who writes without end keeps nobody else waiting. More than a pipe holds.
constexpr size_t kMostAtOnce = 1 << 21;

void WriteAll(int file, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(file, data, bytes);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;  // nobody reads it any more
    if (written > 0) data += written, bytes -= static_cast<size_t>(written);
  }
}

}  // namespace

bool RankOutput::IsDirectory(const std::string& where) {
  return where != "prefix" && where != "merged";
}

absl::StatusOr<std::unique_ptr<RankOutput>> RankOutput::Create(
    const std::string& where, const std::vector<std::string>& labels) {
  std::unique_ptr<RankOutput> output(new RankOutput());
  if (where == "merged") return output;
  const bool prefix = !IsDirectory(where);
  std::error_code error;
  if (!prefix) std::filesystem::create_directories(where, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("--output ", where, ": ", error.message()));
  }
  for (size_t i = 0; i < 2 * labels.size(); ++i) {
    const bool is_error = i % 2 == 1;
    Stream stream;
    if (prefix) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) {
        return absl::ResourceExhaustedError(absl::StrCat("pipe: ", strerror(errno)));
      }
      stream.reader = UniqueFd(ends[0]);
      stream.writer = UniqueFd(ends[1]);
      fcntl(ends[0], F_SETFL, O_NONBLOCK);  // of this end alone
      stream.label = absl::StrCat("[", labels[i / 2], "] ");
      stream.target = is_error ? STDERR_FILENO : STDOUT_FILENO;
    } else {
      const std::string path = absl::StrCat(where, "/rank-", i / 2, is_error ? ".err" : ".out");
      stream.writer = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (!stream.writer.valid()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": ", strerror(errno)));
      }
    }
    output->streams_.push_back(std::move(stream));
  }
  return output;
}

RankOutput::~RankOutput() { Stop(); }

std::pair<int, int> RankOutput::DescriptorsOf(int rank) const {
  if (streams_.empty()) return {-1, -1};
  const auto at = static_cast<size_t>(2 * rank);
  return {streams_[at].writer.get(), streams_[at + 1].writer.get()};
}

void RankOutput::Start() {
  bool any = false;
  for (Stream& stream : streams_) {
    stream.writer.reset();
    any |= stream.reader.valid();
  }
  if (!any) return;
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { Run(); });
}

void RankOutput::Run() {
  for (;;) {
    std::vector<pollfd> polls = {{stop_.get(), POLLIN, 0}};
    {
      std::lock_guard lock(mutex_);
      for (const Stream& stream : streams_) {
        polls.push_back({stream.reader.valid() ? stream.reader.get() : -1, POLLIN, 0});
      }
    }
    if (poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return;
    if (polls[0].revents != 0) return;
    Flush();
  }
}

void RankOutput::Flush() {
  std::lock_guard lock(mutex_);
  for (Stream& stream : streams_) Drain(stream);
}

void RankOutput::Drain(Stream& stream) {
  char buffer[1 << 14];
  for (size_t done = 0; stream.reader.valid() && done < kMostAtOnce; done += sizeof buffer) {
    const ssize_t length = read(stream.reader.get(), buffer, sizeof buffer);
    if (length < 0) return;  // nothing more for now
    if (length == 0) {
      stream.reader.reset();  // nobody writes any more
      WriteRest(stream);
      return;
    }
    stream.line.append(buffer, static_cast<size_t>(length));
    std::string text;
    size_t begin = 0;
    for (;;) {
      // A progress bar begins or ends its lines with a carriage return.
      const size_t end = stream.line.find_first_of("\n\r", begin);
      if (end == std::string::npos) break;
      const bool returns = stream.line[end] == '\r';
      if (end > begin || !(returns || stream.returned)) {
        absl::StrAppend(&text, stream.label,
                        absl::string_view(stream.line).substr(begin, end - begin), "\n");
      }
      stream.returned = returns;
      begin = end + 1;
    }
    WriteAll(stream.target, text.data(), text.size());
    stream.line.erase(0, begin);
    if (stream.line.size() > kLongestLine) {
      WriteRest(stream);
      stream.returned = true;
    }
  }
}

void RankOutput::WriteRest(Stream& stream) {
  if (stream.line.empty()) return;
  const std::string text = absl::StrCat(stream.label, stream.line, "\n");
  WriteAll(stream.target, text.data(), text.size());
  stream.line.clear();
}

void RankOutput::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof one) == sizeof one) thread_.join();
  Flush();
  for (Stream& stream : streams_) WriteRest(stream);
}

}  // namespace phantora
