#include "profiles/kernels/kernel_index.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <new>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "profiles/kernels/code_fingerprint.h"

namespace phantora {
namespace {

// Counts up when the layout changes, or what a fingerprint is.
constexpr char kMagic[8] = {'P', 'h', 'K', 'e', 'r', 'n', '0', '4'};
// Many kernels start alike: a second key is made over the largest of these that fits.
constexpr uint32_t kWindows[] = {8192, 1024};

// Of one file, so that a crafted one is soon done with: libtorch_cuda unpacks to less than a
// gigabyte and has 20,000 kernels.
constexpr uint64_t kMostUnpacked = uint64_t{4} << 30;
constexpr uint64_t kMostKernels = 1 << 20, kMostNameBytes = uint64_t{512} << 20;

struct Header {
  char magic[8];
  uint32_t kernels, places, relocated, parameters;
  uint64_t name_bytes;
};

}  // namespace

// Sorted by prefix, then by code size.
struct KernelIndex::Record {
  uint64_t prefix, window, full;
  uint32_t code_bytes;
  uint32_t name, name_bytes;
  uint32_t relocated, relocated_count;
  uint32_t parameters, parameter_count;
  uint32_t place;
};

namespace {

uint64_t WindowOf(absl::Span<const uint8_t> code) {
  for (const uint32_t bytes : kWindows) {
    if (code.size() >= bytes) return WindowFingerprint(code.subspan(0, bytes));
  }
  return 0;
}

template <typename T>
void Append(std::vector<uint8_t>& out, const T* items, size_t count) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(items);
  out.insert(out.end(), bytes, bytes + count * sizeof(T));
}

}  // namespace

// One kernel on the way into the index: its code is not kept.
struct KernelIndex::Entry {
  explicit Entry(CubinKernel&& kernel)
      : name(std::move(kernel.name)),
        relocated(std::move(kernel.relocated_instructions)),
        parameters(std::move(kernel.parameters)) {
    record.prefix = PrefixFingerprint(kernel.code);
    record.window = WindowOf(kernel.code);
    record.full = FullFingerprint(kernel.code, relocated);
    record.code_bytes = static_cast<uint32_t>(kernel.code.size());
  }
  Record record{};
  std::string name;
  std::vector<uint32_t> relocated;
  std::vector<CubinKernel::Parameter> parameters;
};

std::vector<uint8_t> KernelIndex::Pack(std::vector<Entry> entries, std::vector<CubinPlace> places) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.record.prefix, a.record.code_bytes, a.record.full) <
           std::tie(b.record.prefix, b.record.code_bytes, b.record.full);
  });
  std::vector<Record> records;
  std::vector<uint32_t> relocated;
  std::vector<CubinKernel::Parameter> parameters;
  std::string names;
  std::unordered_map<std::string_view, size_t> known_names;
  for (Entry& entry : entries) {
    Record& record = entry.record;
    if (names.size() + entry.name.size() > kMostNameBytes) break;
    const auto [name, is_new] = known_names.emplace(entry.name, names.size());
    if (is_new) names += entry.name;
    record.name = static_cast<uint32_t>(name->second);
    record.name_bytes = static_cast<uint32_t>(entry.name.size());
    record.relocated = static_cast<uint32_t>(relocated.size());
    record.relocated_count = static_cast<uint32_t>(entry.relocated.size());
    relocated.insert(relocated.end(), entry.relocated.begin(), entry.relocated.end());
    record.parameters = static_cast<uint32_t>(parameters.size());
    record.parameter_count = static_cast<uint32_t>(entry.parameters.size());
    parameters.insert(parameters.end(), entry.parameters.begin(), entry.parameters.end());
    records.push_back(record);
  }
  Header header{{},
                static_cast<uint32_t>(records.size()),
                static_cast<uint32_t>(places.size()),
                static_cast<uint32_t>(relocated.size()),
                static_cast<uint32_t>(parameters.size()),
                names.size()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::vector<uint8_t> out;
  Append(out, &header, 1);
  Append(out, records.data(), records.size());
  Append(out, places.data(), places.size());
  Append(out, relocated.data(), relocated.size());
  Append(out, parameters.data(), parameters.size());
  Append(out, names.data(), names.size());
  return out;
}

std::vector<uint8_t> KernelIndex::Build(std::vector<CubinKernel> kernels) {
  std::vector<Entry> entries;
  for (CubinKernel& kernel : kernels) {
    if (kernel.code.size() >= kPrefixBytes) entries.emplace_back(std::move(kernel));
  }
  return Pack(std::move(entries), {});
}

std::vector<uint8_t> KernelIndex::Build(absl::Span<const uint8_t> file, int architecture,
                                        int threads, uint64_t* malformed) {
  const auto packed = FindPackedCubins(file, architecture);
  std::vector<std::vector<Entry>> found(packed.size());  // in order, whoever reads what
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> bad{0}, unpacked{0}, count{0};
  const auto read_all = [&] {
    std::vector<uint8_t> buffer;
    std::vector<CubinKernel> kernels;
    for (size_t i = next++; i < packed.size(); i = next++) {
      unpacked += std::min(packed[i].unpacked_bytes, kLargestCubin);
      if (unpacked > kMostUnpacked || count > kMostKernels) {
        ++bad;
        continue;
      }
      const auto bytes = Unpack(packed[i], buffer);
      kernels.clear();
      // A compressed block may hold several cubins, one behind the other.
      for (uint64_t at = 0; bytes && at < bytes->size();) {
        const auto rest = bytes->subspan(at);
        const uint64_t size = CubinSize(rest);
        if (size > 0) ReadCubin(rest.subspan(0, size), kernels);
        at += size > 0 ? (size + 7) & ~uint64_t{7} : rest.size();
      }
      if (!bytes && packed[i].architecture != 0) ++bad;
      count += kernels.size();
      for (CubinKernel& kernel : kernels) {
        const bool wanted = packed[i].architecture != 0 || kernel.architecture == architecture;
        if (wanted && kernel.code.size() >= kPrefixBytes) found[i].emplace_back(std::move(kernel));
      }
    }
  };
  const auto work = [&] {
    try {
      read_all();
    } catch (const std::bad_alloc&) {
      ++bad;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  if (malformed != nullptr) *malformed = bad;
  std::vector<Entry> all;
  std::vector<CubinPlace> places;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].empty()) continue;
    for (Entry& entry : found[i]) entry.record.place = static_cast<uint32_t>(places.size());
    places.push_back(PlaceOf(packed[i], file));
    std::move(found[i].begin(), found[i].end(), std::back_inserter(all));
  }
  return Pack(std::move(all), std::move(places));
}

std::optional<KernelIndex> KernelIndex::Open(absl::Span<const uint8_t> bytes,
                                             std::shared_ptr<const void> owner) {
  Header header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint64_t records = uint64_t{header.kernels} * sizeof(Record);
  const uint64_t places = uint64_t{header.places} * sizeof(CubinPlace);
  const uint64_t relocated = uint64_t{header.relocated} * sizeof(uint32_t);
  const uint64_t parameters = uint64_t{header.parameters} * sizeof(CubinKernel::Parameter);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.name_bytes > kMostNameBytes ||
      bytes.size() !=
          sizeof header + records + places + relocated + parameters + header.name_bytes) {
    return std::nullopt;
  }
  KernelIndex index;
  index.owner_ = std::move(owner);
  index.kernels_ = header.kernels;
  const uint8_t* at = bytes.data() + sizeof header;
  index.records_ = at;
  at += records;
  index.places_ = {reinterpret_cast<const CubinPlace*>(at), header.places};
  at += places;
  index.relocated_ = {reinterpret_cast<const uint32_t*>(at), header.relocated};
  at += relocated;
  index.parameters_ = {reinterpret_cast<const CubinKernel::Parameter*>(at), header.parameters};
  at += parameters;
  index.names_ = {reinterpret_cast<const char*>(at), header.name_bytes};
  return index;
}

KernelIndex::Record KernelIndex::At(uint32_t kernel) const {
  Record record;
  std::memcpy(&record, records_ + uint64_t{kernel} * sizeof record, sizeof record);
  return record;
}

template <typename T>
absl::Span<const T> KernelIndex::Part(absl::Span<const T> whole, uint32_t at,
                                      uint32_t count) const {
  return at <= whole.size() && count <= whole.size() - at ? whole.subspan(at, count)
                                                          : absl::Span<const T>();
}

std::optional<IndexedKernel> KernelIndex::Find(uint64_t prefix, const CodeReader& read) const {
  uint32_t first = 0, last = kernels_;
  while (first < last) {
    const uint32_t middle = first + (last - first) / 2;
    if (At(middle).prefix < prefix) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  std::vector<uint8_t> code;
  uint64_t window = 0;
  uint32_t window_of = 0;  // the size that `window` belongs to
  for (uint32_t i = first; i < kernels_; ++i) {
    const Record record = At(i);
    if (record.prefix != prefix) break;
    if (record.code_bytes < kPrefixBytes || record.code_bytes > kLargestCubin) continue;
    const auto fitting = std::find_if(std::begin(kWindows), std::end(kWindows),
                                      [&](uint32_t size) { return record.code_bytes >= size; });
    if (fitting != std::end(kWindows)) {
      if (window_of != *fitting) {
        code.resize(*fitting);
        if (!read(code.data(), code.size())) continue;
        window = WindowFingerprint(code);
        window_of = *fitting;
      }
      if (window != record.window) continue;
    }
    code.resize(record.code_bytes);
    if (!read(code.data(), code.size())) continue;
    const auto relocated = Part(relocated_, record.relocated, record.relocated_count);
    if (FullFingerprint(code, relocated) != record.full) continue;
    const auto name = Part(names_, record.name, record.name_bytes);
    return IndexedKernel{.name = {name.data(), name.size()},
                         .code_bytes = record.code_bytes,
                         .parameters = Part(parameters_, record.parameters, record.parameter_count),
                         .place = record.place < places_.size()
                                      ? std::optional(places_[record.place])
                                      : std::nullopt};
  }
  return std::nullopt;
}

}  // namespace phantora
