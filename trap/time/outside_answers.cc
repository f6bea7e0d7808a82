#include "trap/time/outside_answers.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "trap/linux/proc.h"

namespace phantora {
namespace {

// More are forgotten, the lot: sockets that were closed with a question open.
constexpr size_t kMostQuestions = 1 << 16;

// Inodes of what is in a set of epoll; none if it is no set ("tfd: ... ino:HEX", fs/eventpoll.c
// ep_show_fdinfo, since Linux 4.18).
std::vector<ino_t> InEpoll(int file) {
  std::vector<ino_t> inodes;
  const std::string text = Proc::Host().Text(getpid(), ("fdinfo/" + std::to_string(file)).c_str());
  for (size_t at = 0; (at = text.find("tfd:", at)) != std::string::npos; ++at) {
    const size_t inode = text.find("ino:", at);
    if (inode == std::string::npos) break;
    inodes.push_back(strtoull(text.c_str() + inode + strlen("ino:"), nullptr, 16));
  }
  return inodes;
}

}  // namespace

void OutsideAnswers::Asked(ino_t inode, uint64_t messages, bool stream) {
  if (questions_.size() >= kMostQuestions) questions_.clear();
  Question& question = questions_[inode];
  question.messages = stream ? 1 : question.messages + messages;
  question.heard = false;
  question.until = clock_.Monotonic() + kLongestNs;
}

void OutsideAnswers::Connects(ino_t inode, pid_t process, pid_t thread, bool blocks) {
  Asked(inode, 1, true);
  if (blocks) connecting_[thread] = {process, clock_.Monotonic() + kLongestNs};
}

void OutsideAnswers::ProcessDied(pid_t process) {
  absl::erase_if(connecting_, [=](const auto& entry) { return entry.second.process == process; });
}

void OutsideAnswers::Answered(ino_t inode, bool stream) {
  const auto question = questions_.find(inode);
  if (question == questions_.end()) return;
  if (stream) {
    question->second.heard = true;
    question->second.until = clock_.Monotonic() + kNextPartNs;
  } else if (--question->second.messages == 0) {
    questions_.erase(question);
  }
}

std::vector<ino_t> OutsideAnswers::AskedAmong(const std::vector<int>& files) const {
  std::vector<ino_t> asked;
  if (questions_.empty()) return asked;
  for (const int file : files) {
    struct stat status {};
    if (fstat(file, &status) != 0) continue;
    std::vector<ino_t> inodes = {status.st_ino};
    if (!S_ISSOCK(status.st_mode)) inodes = InEpoll(file);
    for (const ino_t inode : inodes) {
      if (questions_.contains(inode)) asked.push_back(inode);
    }
  }
  return asked;
}

bool OutsideAnswers::IsOpen(ino_t inode) {
  const auto question = questions_.find(inode);
  if (question == questions_.end()) return false;
  if (clock_.Monotonic() < question->second.until) return true;
  given_up_ += question->second.heard ? 0 : 1;
  questions_.erase(question);  // nobody answers, or the stream has ended for now
  return false;
}

bool OutsideAnswers::Awaited(const std::vector<ino_t>& sockets, int64_t since, int64_t patience) {
  if (clock_.Monotonic() - since >= patience) return false;
  return std::any_of(sockets.begin(), sockets.end(), [this](ino_t inode) { return IsOpen(inode); });
}

bool OutsideAnswers::AnyConnects() {
  const int64_t now = clock_.Monotonic();
  absl::erase_if(connecting_, [now](const auto& entry) { return entry.second.until <= now; });
  return !connecting_.empty();
}

}  // namespace phantora
