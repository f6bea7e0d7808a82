// A rank that does its worst: a seeded stream of random, mutated and boundary
// calls to the emulated driver, and random pushbuffers, from many threads of
// processes that are killed in the middle of it.
//   phantora-run -- hostile_tracee [--seed S] [--seconds T] [--count N] [--greedy]
//                                  [--beside PROGRAM]
// It passes if the emulated driver still serves it when N calls are made or T
// seconds are over. --beside runs a well-behaved program over and over meanwhile,
// which must succeed every time. --greedy also takes as much as it is given. The
// same seed makes the same decisions in every thread; how threads interleave is
// up to the machine.
#include <algorithm>

#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {
namespace {

// One process: rigs and threads until the work is done or it dies.
void RunProcess(uint64_t seed, uint64_t count, bool greedy, bool hopper, int threads) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A crash of this process is none of anybody's business.
  for (int signal_number : {SIGSEGV, SIGBUS, SIGABRT}) {
    signal(signal_number, [](int) { _exit(1); });
  }
  signal(SIGPIPE, SIG_IGN);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([=] {
      Random random(seed * 64 + static_cast<uint64_t>(t));
      auto rig = std::make_unique<Rig>(random.Next(), hopper);
      if (!rig->Build()) return;
      Attacker attacker(*rig, random.Next(), greedy);
      // A second attacker on the same rig, without any lock between them: it
      // changes pushbuffers and USERD while they are being executed.
      std::atomic<bool> done{false};
      std::thread other([&rig, &done, seed2 = random.Next()] {
        Random r(seed2);
        while (!done && !shared->stop) {
          uint8_t* at =
              rig->ring + (r.OneIn(4) ? kUserdAt + r.Below(0x800) : kPushAt + r.Below(1 << 21));
          *reinterpret_cast<volatile uint8_t*>(at) = static_cast<uint8_t>(r.Next());
          if (r.OneIn(64)) *(rig->doorbell + kDoorbell / 4) = 1;
          if (r.OneIn(16)) {
            timespec pause{0, 200000};
            nanosleep(&pause, nullptr);
          }
        }
      });
      while (!shared->stop && shared->total < count) attacker.One();
      done = true;
      other.join();
    });
  }
  for (std::thread& thread : pool) thread.join();
  _exit(0);
}

pid_t Spawn(const std::string& program, int output) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(program.c_str(), program.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  return child;
}

// What the options say.
struct Options {
  uint64_t seed = 1, count = 20000, seconds = 60;
  bool greedy = false;
  std::vector<std::string> programs;

  // False, with a message: there is no such option.
  bool Parse(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      const char* value = i + 1 < argc ? argv[i + 1] : "0";
      if (option == "--greedy") {
        greedy = true;
        continue;
      }
      ++i;
      if (option == "--seed") {
        seed = strtoull(value, nullptr, 0);
      } else if (option == "--count") {
        count = strtoull(value, nullptr, 0);
      } else if (option == "--seconds") {
        seconds = strtoull(value, nullptr, 0);
      } else if (option == "--beside") {
        programs.push_back(value);
      } else {
        fprintf(stderr, "hostile_tracee: what is %s?\n", option.c_str());
        return false;
      }
    }
    return true;
  }
};

// A well-behaved program that runs over and over, and must not notice.
class Beside {
 public:
  explicit Beside(const std::vector<std::string>& programs) : programs_(programs) {}

  void Look() {
    if (programs_.empty()) return;
    int status = 0;
    if (child_ != 0 && waitpid(child_, &status, WNOHANG) == child_) Ended(status);
    if (child_ == 0) Start();
  }
  void Finish() {
    int status = 0;
    if (child_ != 0 && waitpid(child_, &status, 0) == child_) Ended(status);
  }
  void Print() const {
    if (programs_.empty()) return;
    printf("beside: %llu runs, %llu failed, longest %llu ms\n",
           static_cast<unsigned long long>(runs_), static_cast<unsigned long long>(failures_),
           static_cast<unsigned long long>(longest_ms_));
  }
  bool failed() const { return failures_ > 0; }

 private:
  void Start() {
    if (ftruncate(output_, 0) != 0) return;
    lseek(output_, 0, SEEK_SET);
    start_ = NowNs();
    child_ = Spawn(programs_[next_++ % programs_.size()], output_);
  }
  void Ended(int status) {
    child_ = 0;
    ++runs_;
    longest_ms_ = std::max(longest_ms_, (NowNs() - start_) / 1000000);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    ++failures_;
    fprintf(stderr, "FAIL hostile_tracee: %s was disturbed (status 0x%x)\n",
            programs_[(next_ - 1) % programs_.size()].c_str(), status);
    char text[4096];
    const ssize_t length = pread(output_, text, sizeof text, 0);
    if (length > 0) fwrite(text, 1, static_cast<size_t>(length), stderr);
  }

  const std::vector<std::string>& programs_;
  const int output_ = memfd_create("beside", MFD_CLOEXEC);
  pid_t child_ = 0;
  uint64_t start_ = 0;
  size_t next_ = 0;
  uint64_t runs_ = 0, failures_ = 0, longest_ms_ = 0;
};

// Processes that attack, and are killed in the middle of whatever they do.
class Attackers {
 public:
  Attackers(const Options& options, Random& random) : options_(options), random_(random) {}

  void Look() {
    for (pid_t& process : processes_) {
      if (process != 0 && waitpid(process, nullptr, WNOHANG) == process) process = 0;
      if (process != 0 && random_.OneIn(300)) {
        Kill(process);
        ++shared->kills;
      }
      if (process == 0) Start(process);
    }
  }
  void KillAll() {
    for (pid_t& process : processes_) {
      if (process > 0) Kill(process);
    }
  }

 private:
  static constexpr int kProcesses = 3, kThreads = 3;

  static void Kill(pid_t& process) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    process = 0;
  }
  void Start(pid_t& process) {
    const uint64_t generation = ++shared->generations;
    const uint64_t seed = random_.Next();
    process = fork();
    if (process == 0) {
      RunProcess(seed, options_.count, options_.greedy, generation % 4 != 0, kThreads);
    }
  }

  const Options& options_;
  Random& random_;
  pid_t processes_[kProcesses] = {};
};

void PrintCounts(uint64_t seed, uint64_t start) {
  for (int kind = 0; kind < kKinds; ++kind) {
    printf("%12llu %s\n", static_cast<unsigned long long>(shared->calls[kind].load()),
           kKindNames[kind]);
  }
  printf(
      "seed %llu: %llu steps in %.1f s, %llu processes, %llu killed, %llu rigs, longest step "
      "%.1f ms\n",
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(shared->total.load()),
      static_cast<double>(NowNs() - start) / 1e9,
      static_cast<unsigned long long>(shared->generations.load()),
      static_cast<unsigned long long>(shared->kills.load()),
      static_cast<unsigned long long>(shared->rigs.load()),
      static_cast<double>(shared->longest_ns.load()) / 1e6);
}

int Main(int argc, char** argv) {
  Options options;
  if (!options.Parse(argc, argv)) return 2;
  shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const uint64_t start = NowNs(), end = start + options.seconds * 1000000000;
  Random random(options.seed);
  Attackers attackers(options, random);
  Beside beside(options.programs);
  while (shared->total < options.count && NowNs() < end) {
    attackers.Look();
    beside.Look();
    const timespec pause{0, 10000000};
    nanosleep(&pause, nullptr);
  }
  shared->stop = true;
  attackers.KillAll();
  beside.Finish();
  // Is the driver still there?
  Rig rig(options.seed, true);
  const bool alive = rig.Build();
  PrintCounts(options.seed, start);
  beside.Print();
  const bool passed = alive && !beside.failed() && shared->corrupted == 0 && shared->rigs > 1;
  printf("%s hostile_tracee\n", passed ? "PASS" : "FAIL");
  fflush(stdout);
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace phantora::hostile

int main(int argc, char** argv) { return phantora::hostile::Main(argc, argv); }
