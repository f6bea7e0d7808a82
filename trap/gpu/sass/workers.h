// Threads that do one thing together and then wait for the next.
#ifndef PHANTORA_TRAP_GPU_SASS_WORKERS_H_
#define PHANTORA_TRAP_GPU_SASS_WORKERS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace phantora::sass {

class Workers {
 public:
  // How many threads this process may have running at one time (its processors).
  static int Processors();

  // `count` in all, of which the caller of Run is one. The others are made when they are first
  // needed; where the system refuses some, there are fewer. They take no signals.
  explicit Workers(int count) : wanted_(count) {}
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const { return wanted_; }

  // Calls work(n) in each thread, n = 0 in the caller's, and returns when all have returned. While
  // the caller waits for others, `meanwhile` is called in it every few milliseconds.
  void Run(absl::FunctionRef<void(int)> work, absl::FunctionRef<void()> meanwhile);

 private:
  void StartThreads();
  void Serve(int number);

  const int wanted_;
  bool started_ = false;
  std::mutex mutex_;
  std::condition_variable changed_, done_;
  // Under mutex_.
  const absl::FunctionRef<void(int)>* work_ = nullptr;
  uint64_t round_ = 0;
  size_t busy_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_WORKERS_H_
