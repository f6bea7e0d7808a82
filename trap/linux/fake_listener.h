// A listener for tests: calls that are pending until they are answered, and the answers.
#ifndef PHANTORA_TRAP_LINUX_FAKE_LISTENER_H_
#define PHANTORA_TRAP_LINUX_FAKE_LISTENER_H_

#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "trap/linux/notify_listener.h"

namespace phantora {

class FakeListener : public NotifyListener {
 public:
  struct Answer {
    int64_t value = 0;
    int error = 0;  // negative errno, as in seccomp_notif_resp
    bool continues = false;
    int descriptor = -1;  // a copy of what was installed; the test closes it
  };

  // A new call of `thread`, pending.
  seccomp_notif Call(pid_t thread, int number, std::initializer_list<uint64_t> arguments = {}) {
    seccomp_notif call{};
    call.id = ++last_;
    call.pid = static_cast<uint32_t>(thread);
    call.data.nr = number;
    int index = 0;
    for (const uint64_t argument : arguments) call.data.args[index++] = argument;
    pending_.insert(call.id);
    return call;
  }
  // Its caller is killed.
  void Kill(uint64_t id) { pending_.erase(id); }
  // nullopt: not answered.
  std::optional<Answer> AnswerOf(const seccomp_notif& call) const {
    const auto it = answers_.find(call.id);
    return it == answers_.end() ? std::nullopt : std::optional(it->second);
  }
  // The next installation of a descriptor fails like this.
  void FailDescriptors(absl::Status status) { descriptor_status_ = std::move(status); }
  int twice_answered() const { return twice_answered_; }

  int fd() const override { return -1; }
  bool HasCall() const override { return false; }
  std::optional<seccomp_notif> Receive() override { return std::nullopt; }
  bool StillPending(uint64_t id) override { return pending_.contains(id); }
  absl::Status ReplyDescriptor(uint64_t id, int file, bool close_on_exec) override {
    if (!descriptor_status_.ok()) return descriptor_status_;
    if (!pending_.erase(id)) return absl::NotFoundError("the caller has died");
    answers_[id] = {.descriptor = dup(file)};
    return absl::OkStatus();
  }
  absl::Status Replace(uint64_t id, int target, int file) override { return descriptor_status_; }
  absl::StatusOr<int> AddDescriptor(uint64_t id, int file) override {
    if (!descriptor_status_.ok()) return descriptor_status_;
    return 100;
  }

 protected:
  void Send(const seccomp_notif_resp& response) override {
    if (answers_.contains(response.id)) ++twice_answered_;
    if (!pending_.erase(response.id)) return;
    answers_[response.id] = {.value = response.val,
                             .error = response.error,
                             .continues = (response.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE) != 0};
  }

 private:
  uint64_t last_ = 0;
  std::set<uint64_t> pending_;
  std::map<uint64_t, Answer> answers_;
  absl::Status descriptor_status_;
  int twice_answered_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_LISTENER_H_
