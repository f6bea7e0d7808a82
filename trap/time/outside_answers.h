// Questions to the world outside of the run, which answers in real time.
#ifndef PHANTORA_TRAP_TIME_OUTSIDE_ANSWERS_H_
#define PHANTORA_TRAP_TIME_OUTSIDE_ANSWERS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/linux/real_clock.h"

namespace phantora {

// Somebody asks when a socket whose peer is outside is sent something, or connected. While he waits
// for the answer, simulated time stands still for everybody: the answer comes at the time of the
// question, and no timeout goes off that would not have. It stands still for as long as his own
// timeout, in real time, and for half a minute at most: then nobody answers, and time passes.
//
// What comes in a stream may be a part of the answer: the next is waited for a second.
class OutsideAnswers {
 public:
  static constexpr int64_t kLongestNs = 30'000'000'000, kNextPartNs = 1'000'000'000;

  explicit OutsideAnswers(const RealClock* clock) : clock_(*clock) {}

  // A question of `messages` through the socket `inode`; one that connects is sent none. Of a
  // stream, however much is sent is one question.
  void Asked(ino_t inode, uint64_t messages, bool stream);
  // `thread` does not go on before its socket is connected.
  void Connects(ino_t inode, pid_t process, pid_t thread, bool blocks);
  // The thread does something.
  void GoesOn(pid_t thread) {
    if (!connecting_.empty()) connecting_.erase(thread);
  }
  void ProcessDied(pid_t process);
  // One message, or something of a stream, is read from it.
  void Answered(ino_t inode, bool stream);

  // Is nothing asked at all?
  bool empty() const { return questions_.empty() && connecting_.empty(); }

  // The sockets with questions among these descriptors, and those in sets of epoll among them.
  std::vector<ino_t> AskedAmong(const std::vector<int>& files) const;
  // Do the answers still have to be waited for, by one who began to at `since` (RealClock's
  // Monotonic()) and waits `patience` at most, both in ns?
  bool Awaited(const std::vector<ino_t>& sockets, int64_t since, int64_t patience);
  // Questions that nobody has answered until they were given up.
  uint64_t given_up() const { return given_up_; }
  // Does somebody connect?
  bool AnyConnects();

 private:
  struct Question {
    uint64_t messages = 0;
    bool heard = false;  // a part of the answer has come
    int64_t until = 0;   // of RealClock's Monotonic(), ns
  };
  bool IsOpen(ino_t inode);

  const RealClock& clock_;
  uint64_t given_up_ = 0;
  absl::flat_hash_map<ino_t, Question> questions_;
  struct Connecting {
    pid_t process = 0;
    int64_t until = 0;  // as of a question
  };
  absl::flat_hash_map<pid_t, Connecting> connecting_;  // by thread
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_OUTSIDE_ANSWERS_H_
