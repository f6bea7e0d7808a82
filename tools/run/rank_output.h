// What the ranks of a job write: collected, and told apart.
#ifndef PHANTORA_TOOLS_RUN_RANK_OUTPUT_H_
#define PHANTORA_TOOLS_RUN_RANK_OUTPUT_H_

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class RankOutput {
 public:
  // Is this, of --output, the name of a directory?
  static bool IsDirectory(const std::string& where);

  // `labels`: of the ranks ("rank 3"). `where`: "prefix" writes whole lines to stdout and stderr,
  // each after "[rank 3] "; "merged" lets ranks write there themselves; else a directory that gets
  // rank-3.out and rank-3.err. Errors: the directory or its files cannot be made, or descriptors
  // have run out.
  static absl::StatusOr<std::unique_ptr<RankOutput>> Create(const std::string& where,
                                                            const std::vector<std::string>& labels);
  ~RankOutput();

  // Where a rank is to write its output and its errors; -1: where this process does.
  std::pair<int, int> DescriptorsOf(int rank) const;

  // After the ranks have been forked: collects what they write, on a thread of its own.
  void Start();
  // What ranks have written up to now is written.
  void Flush();
  // All is written, also lines without an end.
  void Stop();

 private:
  struct Stream {
    UniqueFd writer, reader;  // of a pipe; or a file, and no reader
    std::string label;
    int target = -1;
    std::string line;       // not ended yet
    bool returned = false;  // before it was a carriage return: a newline now ends the same line
  };

  RankOutput() = default;
  void Run();
  void Drain(Stream& stream);
  // A line that has not ended.
  static void WriteRest(Stream& stream);

  std::vector<Stream> streams_;  // two of each rank
  std::mutex mutex_;             // for what follows Start()
  UniqueFd stop_;                // readable when the thread is to end
  std::thread thread_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_RANK_OUTPUT_H_
