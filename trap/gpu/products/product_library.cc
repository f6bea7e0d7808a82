#include "trap/gpu/products/product_library.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "absl/hash/hash.h"
#include "trap/gpu/products/number.h"

namespace phantora {
namespace {

// Smaller ones are as soon done by their own code.
constexpr double kLeastFlops = 4e6;
// Thread instructions to find out what a launch does, of each cluster.
constexpr uint64_t kWatched = 150'000'000;
// Bytes of this machine's memory for matrices of one launch.
constexpr uint64_t kMostBytes = uint64_t{4} << 30;
// A launch whose values said nothing is watched so often. A kernel of which so many launches in a
// row were watched in vain is left alone.
constexpr int kMostAttempts = 3, kMostInVain = 12;
constexpr size_t kMostKernels = 4096, kMostKnown = 256;
// Rows of results that a thread makes at a time.
constexpr uint64_t kLeastRows = 64, kMostRows = 1024, kTaskBytes = 64 << 20;

uint64_t AddressAt(absl::Span<const uint8_t> parameters, uint32_t at) {
  uint64_t address = 0;
  if (at + sizeof address <= parameters.size()) {
    std::memcpy(&address, &parameters[at], sizeof address);
  }
  return address;
}

// Of what is read of the parameters: numbers as they are, pointers by which of them are the same.
uint64_t HashOfRead(absl::Span<const std::pair<uint32_t, uint32_t>> read,
                    absl::Span<const uint8_t> parameters, absl::Span<const uint32_t> pointers) {
  std::vector<uint8_t> bytes;
  std::map<uint64_t, uint8_t> numbers;
  for (const auto& [begin, end] : read) {
    for (uint32_t at = begin; at < std::min<size_t>(end, parameters.size()); ++at) {
      if (!std::binary_search(pointers.begin(), pointers.end(), at / 8 * 8)) {
        bytes.push_back(parameters[at]);
        continue;
      }
      const auto number = static_cast<uint8_t>(numbers.size());
      bytes.push_back(numbers.try_emplace(AddressAt(parameters, at / 8 * 8), number).first->second);
    }
  }
  return absl::HashOf(bytes, parameters.size());
}

// Rows of numbers of a matrix as they are wanted: one behind the other.
AddressSpace::Fault ReadRows(AddressSpace& memory, uint64_t address, uint64_t stride, uint64_t rows,
                             uint64_t width, uint8_t* to) {
  if (stride == width) return memory.Read(address, to, rows * width);
  for (uint64_t row = 0; row < rows; ++row) {
    if (auto fault = memory.Read(address + row * stride, to + row * width, width)) return fault;
  }
  return std::nullopt;
}
AddressSpace::Fault WriteRows(AddressSpace& memory, uint64_t address, uint64_t stride,
                              uint64_t rows, uint64_t width, const uint8_t* from) {
  if (stride == width) return memory.Write(address, from, rows * width);
  for (uint64_t row = 0; row < rows; ++row) {
    if (auto fault = memory.Write(address + row * stride, from + row * width, width)) return fault;
  }
  return std::nullopt;
}

// Addresses that a matrix may have numbers at: begin and end.
std::pair<uint64_t, uint64_t> Extent(uint64_t base, const MatrixPlace& place, uint64_t batch,
                                     uint64_t rows, uint64_t width) {
  return {base, base + (batch - 1) * place.batch_stride + (rows - 1) * place.stride + width};
}
bool Overlap(const std::pair<uint64_t, uint64_t>& a, const std::pair<uint64_t, uint64_t>& b) {
  return a.first < b.second && b.first < a.second;
}

void Convert(Number number, const uint8_t* from, size_t count, float* to) {
  ToFloats(number, from, count, to);
}
void Convert(Number, const uint8_t* from, size_t count, double* to) {
  std::memcpy(to, from, count * sizeof *to);
}
void Convert(Number number, const float* from, size_t count, uint8_t* to) {
  FromFloats(number, from, count, to);
}
void Convert(Number, const double* from, size_t count, uint8_t* to) {
  std::memcpy(to, from, count * sizeof *from);
}

}  // namespace

bool ProductLibrary::Run(const Launch& launch, sass::Executor& executor, AddressSpace& memory) {
  const KernelWork& work = launch.work;
  shows_.reset();
  const bool is_known = work.checked && !work.guessed && FactorsOf(work.precision);
  why_ = !is_known                  ? "its sizes or types are not known"
         : work.flops < kLeastFlops ? "it is small"
                                    : "";
  if (!why_.empty()) return false;
  const ProductForm* const form = FormOf(launch, executor, memory);
  if (form == nullptr || !LeavesCounter(launch, *form, memory)) return false;
  const bool done = form->factors == Number::kDouble
                        ? Multiply<double>(*form, launch.parameters, memory)
                        : Multiply<float>(*form, launch.parameters, memory);
  if (done) {
    ++counters_.done;
    counters_.flops += work.flops;
  }
  return done;
}

bool ProductLibrary::LeavesCounter(const Launch& launch, const ProductForm& form,
                                   AddressSpace& memory) {
  if (!form.counter) return true;
  if (leaves_counter_.size() >= kMostKernels) leaves_counter_.clear();
  const uint64_t code = absl::HashOf(launch.program.code());
  if (const auto found = leaves_counter_.find(code); found != leaves_counter_.end()) {
    if (!found->second) why_ = "it leaves a counter for the next";
    return found->second;
  }
  why_ = "the first of its kind is to show what it leaves";
  Shows shows = {.code = code, .address = AddressAt(launch.parameters, *form.counter)};
  if (!memory.Read(shows.address, shows.before.data(), shows.before.size())) shows_ = shows;
  return false;
}

void ProductLibrary::WasExecuted(AddressSpace& memory) {
  if (!shows_) return;
  decltype(Shows::before) now;
  leaves_counter_[shows_->code] =
      !memory.Read(shows_->address, now.data(), now.size()) && now == shows_->before;
  shows_.reset();
}

const ProductForm* ProductLibrary::FormOf(const Launch& launch, sass::Executor& executor,
                                          AddressSpace& memory) {
  const sass::Launch& of = launch.launch;
  if (kernels_.size() >= kMostKernels) kernels_.clear();
  Kernel& kernel = kernels_[{absl::HashOf(launch.program.code()),
                             {of.grid.x, of.grid.y, of.grid.z, of.block.x, of.block.y, of.block.z,
                              of.cluster.x, of.cluster.y, of.cluster.z}}];
  const auto pointers = launch.pointers;
  Known* known = nullptr;
  for (Known& each : kernel.known) {
    if (each.hash == HashOfRead(each.read, launch.parameters, pointers)) known = &each;
  }
  if (known != nullptr && known->form) return &*known->form;
  if ((known != nullptr && known->attempts >= kMostAttempts) || kernel.in_vain >= kMostInVain) {
    why_ = "launches like it were not understood";
    return nullptr;
  }
  std::vector<sass::Watched> watched;
  ++counters_.watched;
  ++kernel.in_vain;
  if (!Watch(launch, executor, memory, watched)) {
    why_ = "its blocks take long, or see each other";
    return nullptr;
  }
  if (known == nullptr) {
    if (kernel.known.size() >= kMostKnown) kernel.known.clear();
    known = &kernel.known.emplace_back();
    for (const sass::Watched& each : watched) {
      for (const auto& [begin, end] : each.constants_read) {
        if (end <= launch.parameter_offset) continue;
        known->read.emplace_back(std::max(begin, launch.parameter_offset) - launch.parameter_offset,
                                 end - launch.parameter_offset);
      }
    }
    std::sort(known->read.begin(), known->read.end());
    known->hash = HashOfRead(known->read, launch.parameters, pointers);
  }
  ++known->attempts;
  const auto& shape = launch.work.shape;
  const ProductLaunch wanted = {
      .sizes = {static_cast<uint64_t>(shape[0]), static_cast<uint64_t>(shape[1]),
                static_cast<uint64_t>(shape[2]), static_cast<uint64_t>(std::max(shape[3], 1.0))},
      .factors = *FactorsOf(launch.work.precision),
      .parameters = launch.parameters,
      .pointers = pointers};
  known->form = FindProductForm(wanted, watched, memory, why_);
  if (!known->form) return nullptr;
  kernel.in_vain = 0;
  return &*known->form;
}

bool ProductLibrary::Watch(const Launch& launch, sass::Executor& executor, AddressSpace& memory,
                           std::vector<sass::Watched>& watched) {
  const sass::Launch& of = launch.launch;
  const uint64_t of_cluster =
      std::max<uint64_t>(uint64_t{std::max(of.cluster.x, 1u)} * std::max(of.cluster.y, 1u) *
                             std::max(of.cluster.z, 1u),
                         1);
  const uint64_t clusters = of.grid.count() / of_cluster;
  if (clusters == 0) return false;
  std::vector<uint64_t> chosen = {0, clusters / 2, clusters - 1};
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  for (const uint64_t number : chosen) {
    auto each = executor.Watch(of, launch.program, memory, number, kWatched, is_ending_);
    if (!each) return false;
    // Tensor maps are read among the parameters.
    const uint64_t constants = of.constants_address;
    std::erase_if(each->read, [&](const auto& range) {
      return range.first >= constants && range.second <= constants + of.constants[0].size();
    });
    watched.push_back(*std::move(each));
  }
  return true;
}

template <typename T>
bool ProductLibrary::Multiply(const ProductForm& form, absl::Span<const uint8_t> parameters,
                              AddressSpace& memory) {
  const auto base = [&](uint32_t at) { return AddressAt(parameters, at); };
  const uint64_t rows_a = form.Rows(form.a, form.x), width_a = form.Width(form.a, form.x),
                 rows_b = form.Rows(form.b, form.y), width_b = form.Width(form.b, form.y),
                 width = form.ResultWidth();
  const uint64_t size = BytesOf(form.factors);
  using Range = std::pair<uint64_t, uint64_t>;
  const Range written =
      Extent(base(form.results.parameter), form.results, form.Matrices(), form.y, width);
  std::vector<Range> read = {Extent(base(form.a.parameter), form.a, form.batch, rows_a, width_a),
                             Extent(base(form.b.parameter), form.b, form.batch, rows_b, width_b)};
  if (form.bias) read.emplace_back(base(*form.bias), base(*form.bias) + width);
  for (const Range& range : read) {
    // Some blocks may have read what others have written.
    if (Overlap(written, range)) {
      why_ = "it writes where it reads";
      return false;
    }
  }
  read.push_back(written);
  why_ = "its matrices are not there, or depend on what was not executed";
  for (const auto& [begin, end] : read) {
    if (memory.Check(begin, end - begin)) return false;
    const bool is_read = begin != written.first || form.adds;
    if (is_read && memory.IsTainted(begin, end - begin)) return false;
  }
  why_.clear();
  std::vector<T> bias;
  if (form.bias) {
    std::vector<uint8_t> bytes(width);
    if (memory.Read(base(*form.bias), bytes.data(), width)) return false;
    bias.resize(form.x);
    Convert(form.result, bytes.data(), form.x, bias.data());
  }
  const uint64_t of_one = (rows_a * width_a + rows_b * width_b) / size * (size + sizeof(T)) +
                          form.parts * form.y * width;
  const uint64_t together = kMostBytes / std::max<uint64_t>(of_one, 1);
  if (together == 0) {
    why_ = "it takes too much of this machine's memory";
    return false;
  }
  const uint64_t row_bytes = form.x * sizeof(T);
  const uint64_t rows_of_task = std::min(
      std::clamp(form.y / (2 * static_cast<uint64_t>(workers_.count())), kLeastRows, kMostRows),
      std::max<uint64_t>(kTaskBytes / row_bytes, 1));
  std::vector<uint8_t> bytes_a, bytes_b, results;
  std::vector<T> a, b;
  for (uint64_t first = 0; first < form.batch;) {
    const uint64_t batch = std::min(form.batch - first, together);
    const uint64_t count_a = rows_a * width_a / size, count_b = rows_b * width_b / size;
    bytes_a.resize(batch * rows_a * width_a);
    bytes_b.resize(batch * rows_b * width_b);
    const uint64_t matrices = batch * form.parts, first_matrix = first * form.parts;
    results.resize(matrices * form.y * width);
    for (uint64_t each = 0; each < batch; ++each) {
      const uint64_t number = first + each;
      const auto address = [&](const MatrixPlace& place) {
        return base(place.parameter) + number * place.batch_stride;
      };
      if (ReadRows(memory, address(form.a), form.a.stride, rows_a, width_a,
                   &bytes_a[each * rows_a * width_a]) ||
          ReadRows(memory, address(form.b), form.b.stride, rows_b, width_b,
                   &bytes_b[each * rows_b * width_b])) {
        return false;
      }
    }
    const auto address_of_results = [&](uint64_t each) {
      return base(form.results.parameter) + (first_matrix + each) * form.results.batch_stride;
    };
    for (uint64_t each = 0; form.adds && each < matrices; ++each) {
      if (ReadRows(memory, address_of_results(each), form.results.stride, form.y, width,
                   &results[each * form.y * width])) {
        return false;
      }
    }
    a.resize(batch * count_a);
    b.resize(batch * count_b);
    const uint64_t tasks_of_one = (form.y + rows_of_task - 1) / rows_of_task;
    std::atomic<uint64_t> next_a = 0, next_b = 0, next_task = 0;
    std::atomic<bool> give_up = false;
    const auto ask = [&] {
      if (is_ending_()) give_up = true;
    };
    // By rows, as many as make a good piece of work.
    const auto convert = [&](std::atomic<uint64_t>& next, const std::vector<uint8_t>& from,
                             std::vector<T>& to) {
      constexpr uint64_t kAtOnce = 1 << 16;
      for (uint64_t at; (at = next.fetch_add(kAtOnce)) < to.size();) {
        Convert(form.factors, &from[at * size], std::min<uint64_t>(kAtOnce, to.size() - at),
                &to[at]);
      }
    };
    workers_.Run(
        [&](int) {
          convert(next_a, bytes_a, a);
          convert(next_b, bytes_b, b);
        },
        ask);
    workers_.Run(
        [&](int worker) {
          std::vector<T> sums(std::min(form.y, rows_of_task) * form.x), there(form.x);
          for (uint64_t task; (task = next_task.fetch_add(1)) < matrices * tasks_of_one;) {
            if (worker == 0) ask();
            if (give_up) return;
            const uint64_t each = task / tasks_of_one, y = task % tasks_of_one * rows_of_task;
            const uint64_t rows = std::min(rows_of_task, form.y - y);
            const auto [term, terms] = form.TermsOf(each);
            const T* const of_a =
                &a[each / form.parts * count_a] + (form.a.by_depth ? term : term * form.x);
            const T* const of_b = &b[each / form.parts * count_b] +
                                  (form.b.by_depth ? y * form.depth + term : term * form.y + y);
            blas_->Multiply(
                static_cast<int64_t>(form.x), static_cast<int64_t>(rows),
                static_cast<int64_t>(terms), of_a,
                {form.a.by_depth, static_cast<int64_t>(form.a.by_depth ? form.depth : form.x)},
                of_b,
                {form.b.by_depth, static_cast<int64_t>(form.b.by_depth ? form.depth : form.y)},
                sums.data());
            for (uint64_t row = 0; row < rows; ++row) {
              T* const of_row = &sums[row * form.x];
              uint8_t* const to = &results[(each * form.y + y + row) * width];
              if (form.factor != 1) {
                for (uint64_t x = 0; x < form.x; ++x) of_row[x] *= static_cast<T>(form.factor);
              }
              if (form.adds) {
                Convert(form.result, to, form.x, there.data());
                for (uint64_t x = 0; x < form.x; ++x) of_row[x] += there[x];
              }
              if (form.bias) {
                for (uint64_t x = 0; x < form.x; ++x) of_row[x] += bias[x];
              }
              Convert(form.result, of_row, form.x, to);
            }
          }
        },
        ask);
    // The launch's own code, begun anew, sees that the run is to end.
    if (give_up) return false;
    for (uint64_t each = 0; each < matrices; ++each) {
      if (WriteRows(memory, address_of_results(each), form.results.stride, form.y, width,
                    &results[each * form.y * width])) {
        return false;
      }
    }
    first += batch;
  }
  return true;
}

}  // namespace phantora
