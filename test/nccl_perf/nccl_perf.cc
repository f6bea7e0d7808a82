// Measures NCCL's operations, with the options and the output of nccl-tests, so that its tables can
// be laid beside published ones. Data is made and checked on the host: on an emulated GPU, kernels
// compute nothing.
//
//   nccl_perf all_reduce -b 8 -e 128M -f 2 -g 8 -c 1
//
// One process with -g GPUs, or one of several with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
// MASTER_PORT in its environment.
#include <getopt.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/nccl_perf/collectives.h"
#include "test/nccl_perf/libraries.h"

namespace phantora::nccl_perf {
namespace {

constexpr const char* kTypes[] = {"int8",   "uint8", "int32", "uint32", "int64",
                                  "uint64", "half",  "float", "double", "bfloat16"};
constexpr const char* kReductions[] = {"sum", "prod", "max", "min", "avg"};

struct Options {
  size_t least = 32 << 20, most = 32 << 20, step = 1 << 20;
  double factor = 0;  // 0: by steps
  int gpus = 1, iterations = 20, warm_ups = 5, root = 0, type = 7, reduction = 0;
  bool check = true;
};

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "nccl_perf: %s\n", why.c_str());
  std::exit(1);
}

int Environment(const char* name, int otherwise) {
  const char* value = getenv(name);
  return value == nullptr ? otherwise : atoi(value);
}

size_t ParseSize(const char* text) {
  char* end;
  const double number = strtod(text, &end);
  const int shift = *end == 'K' || *end == 'k'   ? 10
                    : *end == 'M' || *end == 'm' ? 20
                    : *end == 'G' || *end == 'g' ? 30
                                                 : 0;
  return static_cast<size_t>(number * static_cast<double>(size_t{1} << shift));
}

template <size_t kSize>
int IndexOf(const char* const (&names)[kSize], const std::string& name, const char* what) {
  for (size_t i = 0; i < kSize; ++i) {
    if (name == names[i]) return static_cast<int>(i);
  }
  Fail(std::string("no ") + what + " " + name);
}

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;  // us
}

// Whole numbers up to 2048 are exact in all types.
void Store(int type, double value, uint8_t* to) {
  const auto put = [to](auto typed) { std::memcpy(to, &typed, sizeof typed); };
  switch (type) {
    case 0:
      return put(static_cast<int8_t>(value));
    case 1:
      return put(static_cast<uint8_t>(value));
    case 2:
      return put(static_cast<int32_t>(value));
    case 3:
      return put(static_cast<uint32_t>(value));
    case 4:
      return put(static_cast<int64_t>(value));
    case 5:
      return put(static_cast<uint64_t>(value));
    case 6:
      return put(static_cast<_Float16>(value));
    case 7:
      return put(static_cast<float>(value));
    case 8:
      return put(value);
    default: {
      const auto single = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &single, sizeof bits);
      return put(static_cast<uint16_t>(bits >> 16));
    }
  }
}

class Perf {
 public:
  Perf(const Collective& collective, const Options& options)
      : collective_(collective), options_(options), cuda_(LoadCuda()), nccl_(LoadNccl()) {}

  int Run() {
    Prepare();
    Header();
    for (size_t bytes = options_.least; bytes <= options_.most;) {
      Row(bytes);
      bytes = options_.factor > 1
                  ? static_cast<size_t>(static_cast<double>(bytes) * options_.factor)
                  : bytes + options_.step;
    }
    for (Gpu& gpu : gpus_) Check(nccl_.CommDestroy(gpu.communicator));
    if (first_rank_ == 0) {
      std::printf("# Out of bounds values : %zu %s\n# Avg bus bandwidth    : %g \n#\n", wrong_,
                  wrong_ == 0 ? "OK" : "FAILED", rows_ == 0 ? 0 : bandwidths_ / rows_);
    }
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  struct Gpu {
    void *context, *stream, *communicator;
    uint64_t send, receive;
    int rank;
  };

  void Cuda(int result) {
    if (result != 0) Fail("CUDA error " + std::to_string(result));
  }
  void Check(NcclResult result) {
    if (result != 0) {
      Fail(std::string("NCCL: ") + nccl_.GetErrorString(result) + ": " +
           nccl_.GetLastError(nullptr));
    }
  }

  void Prepare() {
    const int processes = Environment("WORLD_SIZE", 1), process = Environment("RANK", 0);
    ranks_ = processes * options_.gpus;
    first_rank_ = process * options_.gpus;
    if (processes > 1 && getenv("NCCL_COMM_ID") == nullptr) {
      const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
      if (host == nullptr || port == nullptr) Fail("MASTER_ADDR and MASTER_PORT are not set");
      setenv("NCCL_COMM_ID", (std::string(host) + ":" + port).c_str(), 1);
    }
    Cuda(cuda_.Init(0));
    UniqueId id;
    Check(nccl_.GetUniqueId(&id));
    const size_t most = options_.most / kTypeBytes[options_.type];
    const size_t bytes =
        std::max(collective_.sent(most, ranks_), collective_.received(most, ranks_)) *
        kTypeBytes[options_.type];
    // The group writes the communicators later: they must not move.
    gpus_.reserve(static_cast<size_t>(options_.gpus));
    Check(nccl_.GroupStart());
    for (int i = 0; i < options_.gpus; ++i) {
      Gpu gpu{};
      int device;
      gpu.rank = first_rank_ + i;
      Cuda(cuda_.DeviceGet(&device, Environment("LOCAL_RANK", 0) * options_.gpus + i));
      Cuda(cuda_.PrimaryContext(&gpu.context, device));
      Cuda(cuda_.SetContext(gpu.context));
      Cuda(cuda_.CreateStream(&gpu.stream, 1));
      Cuda(cuda_.Allocate(&gpu.send, bytes));
      Cuda(cuda_.Allocate(&gpu.receive, bytes));
      gpus_.push_back(gpu);
      Check(nccl_.CommInitRank(&gpus_.back().communicator, ranks_, id, gpu.rank));
    }
    Check(nccl_.GroupEnd());
  }

  void Header() {
    int version = 0;
    nccl_.GetVersion(&version);
    char name[64] = "", host[64] = "";
    gethostname(host, sizeof host - 1);
    if (first_rank_ != 0) return;
    cuda_.DeviceGetName(name, sizeof name, 0);
    std::printf(
        "# %s, NCCL version %d, nGpus %d minBytes %zu maxBytes %zu step: %g(%s) warmup "
        "iters: %d iters: %d validation: %d\n#\n# Using devices\n",
        collective_.name, version, options_.gpus, options_.least, options_.most,
        options_.factor > 1 ? options_.factor : static_cast<double>(options_.step),
        options_.factor > 1 ? "factor" : "bytes", options_.warm_ups, options_.iterations,
        options_.check);
    for (const Gpu& gpu : gpus_) {
      std::printf("#  Rank %2d Pid %6d on %10s device %2d %s\n", gpu.rank, getpid(), host,
                  gpu.rank - first_rank_, name);
    }
    std::printf(
        "#\n#                                                              out-of-place            "
        "  "
        "         in-place          \n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
        "time   algbw   busbw #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
        "(us)  (GB/s)  (GB/s)       \n");
  }

  Call CallOf(const Gpu& gpu, size_t count, bool in_place) const {
    Call call = {gpu.send,      gpu.receive, count,  options_.type,    options_.reduction,
                 options_.root, gpu.rank,    ranks_, gpu.communicator, gpu.stream};
    if (!in_place) return call;
    // As NCCL defines it for each operation: a gathered part lies where it belongs.
    const size_t part = count / static_cast<size_t>(ranks_) * kTypeBytes[options_.type];
    const uint64_t own = static_cast<uint64_t>(gpu.rank) * part;
    const std::string name = collective_.name;
    if (name == "all_gather") {
      call.send = call.receive + own;
    } else if (name == "reduce_scatter") {
      call.receive = call.send + own;
    } else {
      call.send = call.receive;
    }
    return call;
  }

  void Enqueue(size_t count, bool in_place) {
    if (gpus_.size() > 1) Check(nccl_.GroupStart());
    for (const Gpu& gpu : gpus_) {
      Cuda(cuda_.SetContext(gpu.context));
      Check(collective_.run(nccl_, CallOf(gpu, count, in_place)));
    }
    if (gpus_.size() > 1) Check(nccl_.GroupEnd());
  }

  void Synchronize() {
    for (const Gpu& gpu : gpus_) {
      Cuda(cuda_.SetContext(gpu.context));
      Cuda(cuda_.SynchronizeStream(gpu.stream));
    }
  }

  // Microseconds of one operation.
  double Measure(size_t count, bool in_place) {
    for (int i = 0; i < options_.warm_ups; ++i) Enqueue(count, in_place);
    Synchronize();
    const double begin = Now();
    for (int i = 0; i < options_.iterations; ++i) Enqueue(count, in_place);
    Synchronize();
    return (Now() - begin) / options_.iterations;
  }

  // Elements that are not what they should be.
  size_t Verify(size_t count, bool in_place) {
    const size_t size = kTypeBytes[options_.type];
    const size_t sent = collective_.sent(count, ranks_), got = collective_.received(count, ranks_);
    for (const Gpu& gpu : gpus_) {
      std::vector<uint8_t> data(sent * size);
      for (size_t i = 0; i < sent; ++i) {
        Store(options_.type, Sent(gpu.rank, i), data.data() + i * size);
      }
      Cuda(cuda_.SetContext(gpu.context));
      if (sent > 0) {
        Cuda(cuda_.CopyToDevice(CallOf(gpu, count, in_place).send, data.data(), data.size()));
        // A copy from pageable memory may return before its end has arrived, and the stream waits
        // for no other.
        Cuda(cuda_.SynchronizeStream(nullptr));
      }
    }
    Enqueue(count, in_place);
    Synchronize();
    size_t wrong = 0;
    for (const Gpu& gpu : gpus_) {
      if (std::string(collective_.name) == "reduce" && gpu.rank != options_.root) continue;
      std::vector<uint8_t> data(got * size);
      Cuda(cuda_.SetContext(gpu.context));
      if (got > 0) {
        Cuda(cuda_.CopyToHost(data.data(), CallOf(gpu, count, in_place).receive, data.size()));
      }
      for (size_t i = 0; i < got; ++i) {
        uint8_t expected[8];
        Store(options_.type,
              Expected(collective_, options_.reduction, gpu.rank, ranks_, count, options_.root, i),
              expected);
        wrong += std::memcmp(expected, data.data() + i * size, size) != 0;
      }
    }
    return wrong;
  }

  void Row(size_t bytes) {
    const size_t size = kTypeBytes[options_.type];
    const size_t count = bytes / size;
    const bool rooted = collective_.has_root;
    if (first_rank_ == 0) {
      std::printf("%12zu  %12zu  %8s  %6s  %6d", bytes, count, kTypes[options_.type],
                  collective_.reduces ? kReductions[options_.reduction] : "none",
                  rooted ? options_.root : -1);
    }
    for (const bool in_place : {false, true}) {
      const double us = Measure(count, in_place);
      // Messages to oneself cannot be in place.
      const std::string name = collective_.name;
      const bool checks =
          options_.check && !(in_place && (name == "alltoall" || name == "sendrecv"));
      const size_t wrong = checks ? Verify(count, in_place) : 0;
      wrong_ += wrong;
      const double algorithm = static_cast<double>(bytes) / us / 1e3;
      const double bus = algorithm * collective_.bus_factor(ranks_);
      bandwidths_ += bus;
      ++rows_;
      if (first_rank_ != 0) continue;
      const std::string verdict = checks ? std::to_string(wrong) : "N/A";
      std::printf(us < 1000 ? "  %7.2f  %6.2f  %6.2f  %5s" : "  %7.1f  %6.2f  %6.2f  %5s", us,
                  algorithm, bus, verdict.c_str());
    }
    if (first_rank_ == 0) std::printf("\n"), std::fflush(stdout);
  }

  const Collective& collective_;
  const Options options_;
  const nccl_perf::Cuda cuda_;
  const Nccl nccl_;
  std::vector<Gpu> gpus_;
  int ranks_ = 1, first_rank_ = 0, rows_ = 0;
  size_t wrong_ = 0;
  double bandwidths_ = 0;
};

int Main(int argc, char** argv) {
  const Collective* collective = argc < 2 ? nullptr : FindCollective(argv[1]);
  if (collective == nullptr) {
    std::string names;
    for (const std::string& name : CollectiveNames()) names += " " + name;
    Fail("the first argument must be one of" + names);
  }
  Options options;
  for (int option; (option = getopt(argc - 1, argv + 1, "b:e:i:f:g:n:w:c:d:o:r:")) != -1;) {
    switch (option) {
      case 'b':
        options.least = ParseSize(optarg);
        break;
      case 'e':
        options.most = ParseSize(optarg);
        break;
      case 'i':
        options.step = ParseSize(optarg);
        break;
      case 'f':
        options.factor = atof(optarg);
        break;
      case 'g':
        options.gpus = std::max(atoi(optarg), 1);
        break;
      case 'n':
        options.iterations = std::max(atoi(optarg), 1);
        break;
      case 'w':
        options.warm_ups = std::max(atoi(optarg), 0);
        break;
      case 'c':
        options.check = atoi(optarg) != 0;
        break;
      case 'd':
        options.type = IndexOf(kTypes, optarg, "type");
        break;
      case 'o':
        options.reduction = IndexOf(kReductions, optarg, "reduction");
        break;
      case 'r':
        options.root = atoi(optarg);
        break;
      default:
        return 1;
    }
  }
  options.most = std::max(options.most, options.least);
  return Perf(*collective, options).Run();
}

}  // namespace
}  // namespace phantora::nccl_perf

int main(int argc, char** argv) { return phantora::nccl_perf::Main(argc, argv); }
