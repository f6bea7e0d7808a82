#include "trap/launch/preloader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/launch/rank_zygote.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

using Variable = std::pair<std::string, std::string>;

absl::Status Failed(const char* what) {
  return absl::InternalError(absl::StrCat("--preload: ", what, ": ", strerror(errno)));
}

// What rank_zygote.py reads: for each rank its descriptors, then its environment, with a zero byte
// after each, and one more between ranks.
std::string PlanOf(const std::vector<RankCommand>& ranks) {
  std::string plan;
  for (const RankCommand& rank : ranks) {
    absl::StrAppend(&plan, rank.output, " ", rank.errors, " ", rank.reads_input ? 1 : 0);
    for (const auto& [name, value] : rank.environment) {
      plan.push_back('\0');
      absl::StrAppend(&plan, name, "=", value);
    }
    plan.append(2, '\0');
  }
  return plan;
}

std::optional<UniqueFd> FileWith(const std::string& text) {
  UniqueFd file(memfd_create("ranks", 0));
  if (!file.valid() ||
      write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return std::nullopt;
  }
  return file;
}

// Set alike for all ranks: what is read when a program starts, or a module is imported.
std::vector<Variable> InCommon(const std::vector<RankCommand>& ranks) {
  std::vector<Variable> common = ranks[0].environment;
  for (const RankCommand& rank : ranks) {
    std::erase_if(common, [&](const Variable& variable) {
      return std::find(rank.environment.begin(), rank.environment.end(), variable) ==
             rank.environment.end();
    });
  }
  return common;
}

struct Pipe {
  static std::optional<Pipe> Make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  UniqueFd reader, writer;
};

void Inherit(int descriptor) {
  if (descriptor >= 0) fcntl(descriptor, F_SETFD, 0);
}

[[noreturn]] void RunZygote(const Preload& preload, const std::vector<RankCommand>& ranks, int plan,
                            int pids, int go) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal : {SIGTERM, SIGHUP, SIGINT}) ::signal(signal, SIG_DFL);
  for (const auto& [name, value] : InCommon(ranks)) setenv(name.c_str(), value.c_str(), 1);
  for (const RankCommand& rank : ranks) Inherit(rank.output), Inherit(rank.errors);
  for (const int descriptor : {pids, go}) Inherit(descriptor);
  if (ranks[0].output >= 0) dup2(ranks[0].output, STDOUT_FILENO);
  if (ranks[0].errors >= 0) dup2(ranks[0].errors, STDERR_FILENO);
  const PythonCommand& python = preload.command;
  std::vector<std::string> words = python.interpreter;
  for (const std::string& word :
       {std::string("-c"), std::string(kRankZygote), absl::StrCat(plan), absl::StrCat(pids),
        absl::StrCat(go), preload.modules, python.kind, python.program}) {
    words.push_back(word);
  }
  words.insert(words.end(), python.arguments.begin(), python.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ExecCommand(argv.data());
}

// As many as there are, until the last writer is gone.
std::vector<pid_t> ReadPids(int pipe, size_t most) {
  std::vector<pid_t> pids(most);
  auto* bytes = reinterpret_cast<char*>(pids.data());
  size_t size = 0;
  while (size < most * sizeof(pid_t)) {
    const ssize_t got = read(pipe, bytes + size, most * sizeof(pid_t) - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  pids.resize(size / sizeof(pid_t));
  return pids;
}

}  // namespace

absl::Status StartPreloaded(const Preload& preload, const std::vector<RankCommand>& ranks,
                            std::vector<pid_t>& pids) {
  const auto plan = FileWith(PlanOf(ranks));
  auto told = Pipe::Make(), go = Pipe::Make();
  if (!plan || !told || !go) return Failed("pipes");
  // The ranks' parent ends when it has made them all, and they are this process's then.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t zygote = fork();
  if (zygote < 0) return Failed("fork");
  if (zygote == 0) {
    RunZygote(preload, ranks, plan->get(), told->writer.get(), go->reader.get());
  }
  told->writer.reset();
  pids[0] = zygote;
  const std::vector<pid_t> copies = ReadPids(told->reader.get(), ranks.size());
  int status = 0;
  while (waitpid(zygote, &status, 0) < 0 && errno == EINTR) {
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  pids[0] = 0;
  if (status != 0 || copies.size() != ranks.size()) {
    for (const pid_t rank : copies) kill(rank, SIGKILL);
    return absl::FailedPreconditionError(
        absl::StrCat("--preload ", preload.modules, ": ", preload.command.interpreter[0],
                     " could not import that, or not be copied for every rank; see what it says"));
  }
  std::copy(copies.begin(), copies.end(), pids.begin());
  const std::string all(ranks.size(), 'g');
  if (write(go->writer.get(), all.data(), all.size()) != static_cast<ssize_t>(all.size())) {
    return Failed("telling the ranks");
  }
  return absl::OkStatus();
}

}  // namespace phantora
