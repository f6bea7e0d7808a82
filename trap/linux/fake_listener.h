// Seccomp's user notifications without a kernel: calls that are pending until they are answered.
#ifndef PHANTORA_TRAP_LINUX_FAKE_LISTENER_H_
#define PHANTORA_TRAP_LINUX_FAKE_LISTENER_H_

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/linux/notify_listener.h"

namespace phantora {

// A call that a thread makes, as it is received.
inline seccomp_notif CallOf(pid_t thread, uint64_t id, int number,
                            std::initializer_list<uint64_t> arguments) {
  seccomp_notif call{};
  call.id = id;
  call.pid = static_cast<uint32_t>(thread);
  call.data.nr = number;
  int index = 0;
  for (const uint64_t argument : arguments) call.data.args[index++] = argument;
  return call;
}

// Keeps the answers. A call that is answered twice is a mistake of whoever does so.
class FakeListener : public NotifyListener {
 public:
  struct Answer {
    int64_t value = 0;
    int error = 0;  // errno
    bool continues = false;
    int descriptor = -1;  // a copy of what was installed, which the test closes
    bool operator==(const Answer&) const = default;
  };
  static Answer Value(int64_t value) { return {.value = value}; }
  static Answer Error(int error) { return {.error = error}; }
  static Answer Continue() { return {.continues = true}; }

  int fd() const override { return -1; }
  bool HasCall() const override { return !calls_.empty(); }
  bool HasCallOr(int descriptor) const override {
    pollfd readable{descriptor, POLLIN, 0};
    return HasCall() || poll(&readable, 1, 0) > 0;
  }
  std::optional<seccomp_notif> Receive() override {
    if (calls_.empty()) return std::nullopt;
    const seccomp_notif call = calls_.front();
    calls_.pop_front();
    return call;
  }
  bool StillPending(uint64_t id) override { return !gone_.contains(id) && !answers_.contains(id); }
  absl::Status ReplyDescriptor(uint64_t id, int file, bool) override {
    if (!descriptors_.ok()) return descriptors_;
    if (gone_.contains(id)) return absl::NotFoundError("the caller has died");
    Keep(id, {.descriptor = dup(file)});
    return absl::OkStatus();
  }
  absl::Status Replace(uint64_t, int, int) override { return descriptors_; }
  absl::StatusOr<int> AddDescriptor(uint64_t, int) override {
    if (!descriptors_.ok()) return descriptors_;
    return 3;
  }

  // To be received.
  void Call(const seccomp_notif& call) { calls_.push_back(call); }
  // A call with an id of its own, which is not received.
  seccomp_notif Call(pid_t thread, int number, std::initializer_list<uint64_t> arguments = {}) {
    constexpr uint64_t kFirst = uint64_t{1} << 32;
    return CallOf(thread, kFirst + last_++, number, arguments);
  }
  // Descriptors are installed with this outcome from now on.
  void FailDescriptors(absl::Status status) { descriptors_ = std::move(status); }
  // The caller of `id` has died.
  void Die(uint64_t id) { gone_.insert(id); }

  bool Answered(uint64_t id) const { return answers_.contains(id); }
  // nullopt if there is none.
  std::optional<Answer> AnswerOf(uint64_t id) const {
    const auto it = answers_.find(id);
    return it == answers_.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<Answer> AnswerOf(const seccomp_notif& call) const { return AnswerOf(call.id); }
  // Ids, in the order of the answers.
  const std::vector<uint64_t>& order() const { return order_; }
  int doubles() const { return doubles_; }

 protected:
  bool Send(const seccomp_notif_resp& response) override {
    if (gone_.contains(response.id)) return false;
    Keep(response.id, {.value = response.val,
                       .error = -response.error,
                       .continues = (response.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE) != 0});
    return true;
  }

 private:
  void Keep(uint64_t id, const Answer& answer) {
    doubles_ += answers_.emplace(id, answer).second ? 0 : 1;
    order_.push_back(id);
  }

  uint64_t last_ = 0;
  absl::Status descriptors_;
  std::deque<seccomp_notif> calls_;
  std::set<uint64_t> gone_;
  std::map<uint64_t, Answer> answers_;
  std::vector<uint64_t> order_;
  int doubles_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_LISTENER_H_
