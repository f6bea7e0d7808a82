// Measured kernels: profiles/data/<gpu>/kernels.tsv, what others have published, measured_kernels.tsv, which
// phantora_bench.py has measured, and peers.tsv, of kernels of several GPUs (tools/prices/import_peers.py).
#ifndef PHANTORA_PROFILES_KERNELS_KERNEL_ROWS_H_
#define PHANTORA_PROFILES_KERNELS_KERNEL_ROWS_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "profiles/gpu/work_price.h"

namespace phantora {

// Rows of tab-separated columns; # begins a comment. The first line names the columns:
//   family     as Name(WorkFamily)
//   precision  as Name(MathPrecision)
//   direction  forward or backward
//   kernel     as KernelTitle(), or * for any of the family
//   shape      KernelWork::shape, numbers with x between them, or -
//   flops, bytes, tiles  of KernelWork
//   time_us    of the kernel alone, warm: a median
//   error      of the measurement, relative
//   source     a word that a comment explains
class KernelRows {
 public:
  // Of a GPU with these rates; `sms` as for EstimateOf. Errors name the line.
  static absl::StatusOr<KernelRows> Parse(std::string_view text, const GpuRates& rates, int sms);
  // The rows that there are for a GPU; none if there is no file. Errors: as above.
  static absl::StatusOr<KernelRows> Find(const std::string& gpu, const GpuRates& rates, int sms);

  // Makes them rows of another GPU, whose prices have these errors more
  // (profiles/gpu/rate_transfer.h): what the model misses there is taken to be what it misses here,
  // so that no work counts as measured any more.
  void TransferWith(const std::array<double, kWorkFamilies>& error);

  struct Found {
    TimeEstimate time;
    bool measured = false;  // this very work; else interpolated
  };
  // `estimate` is EstimateOf `work`. If it was not measured itself, the estimate is corrected by
  // what it misses similar work by: as far as a row's sizes are within a factor of four in all,
  // the more the nearer, towards no correction between them. Its error is then larger, by what
  // the rows miss each other by when each in turn is left out. nullopt: nothing similar was
  // measured.
  std::optional<Found> Of(const KernelWork& work, WorkFamily family, std::string_view kernel,
                          const TimeEstimate& estimate) const;

  size_t size() const { return size_; }

  static std::string_view Header();  // the first line, with the columns' names
  // The columns from family to tiles of a row about this work, with tabs between them.
  static std::string NameOf(const KernelWork& work, WorkFamily family, std::string_view kernel);

  // Every row beside what it would be priced at without it.
  struct Comparison {
    std::string row;  // its first five columns
    KernelWork work;
    WorkFamily family;
    std::string kernel;
    double measured_s = 0, modelled_s = 0;
    std::optional<double> others_s;  // by the model and the other rows, if any is near
  };
  std::vector<Comparison> Compare() const;

 private:
  struct Row {
    std::string name;  // its first five columns
    KernelWork work;
    WorkFamily family = WorkFamily::kUnknown;
    std::string kernel;
    double seconds = 0, error = 0;
    double missed_by = 0;  // log of measured over estimated
  };
  struct Group {
    std::vector<Row> rows;
    double left_out_error = 0;  // relative, root mean square; 0 if no row has a neighbour
  };
  static std::string KeyOf(const KernelWork& work, WorkFamily family, std::string_view kernel);
  static void LeaveOneOut(Group& group);
  // By how much the estimate of `work` is to be corrected, as a logarithm, without the row
  // `but`; nullopt: no row is near.
  static std::optional<double> Correction(const Group& group, const KernelWork& work,
                                          const Row* but);

  absl::flat_hash_map<std::string, Group> groups_;
  size_t size_ = 0;
  bool transferred_ = false;
  std::array<double, kWorkFamilies> transfer_error_{};
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_KERNEL_ROWS_H_
