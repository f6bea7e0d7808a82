#include "trap/gpu/kernels/kernel_library.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiles/kernels/code_fingerprint.h"
#include "trap/log.h"

namespace phantora {
namespace {

constexpr int kThreads = 2;
// Until a launch goes on without a name: everybody waits for it.
constexpr std::chrono::seconds kLongestWait(120);
constexpr uint64_t kLargestFile = uint64_t{4} << 30;
constexpr uint64_t kMostSections = 4096, kMostNameBytes = 1 << 20;

bool ReadAll(int file, void* to, uint64_t bytes, uint64_t offset) {
  auto* at = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(file, at, bytes, static_cast<off_t>(offset));
    if (got <= 0) return false;
    at += got, offset += static_cast<uint64_t>(got), bytes -= static_cast<uint64_t>(got);
  }
  return true;
}

// The build id of an ELF file, in hexadecimal, if it has fat binaries; what else tells it
// apart if it has none.
std::optional<std::string> KeyOfLibrary(int file, const struct stat& status) {
  Elf64_Ehdr header;
  if (!ReadAll(file, &header, sizeof header, 0) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMostSections ||
      header.e_shstrndx >= header.e_shnum) {
    return std::nullopt;
  }
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!ReadAll(file, sections.data(), sections.size() * sizeof(Elf64_Shdr), header.e_shoff)) {
    return std::nullopt;
  }
  const Elf64_Shdr& strings = sections[header.e_shstrndx];
  if (strings.sh_size > kMostNameBytes) return std::nullopt;
  std::string names(strings.sh_size, '\0');
  if (!ReadAll(file, names.data(), names.size(), strings.sh_offset)) return std::nullopt;
  bool fat = false;
  std::string build_id;
  for (const Elf64_Shdr& section : sections) {
    const std::string_view name =
        section.sh_name < names.size() ? names.c_str() + section.sh_name : std::string_view();
    fat |= name == ".nv_fatbin" || name == "__nv_relfatbin";
    if (name != ".note.gnu.build-id" || section.sh_size > 128 || section.sh_size <= 16) continue;
    std::string note(section.sh_size, '\0');
    if (!ReadAll(file, note.data(), note.size(), section.sh_offset)) continue;
    for (const unsigned char c : note.substr(16)) absl::StrAppendFormat(&build_id, "%02x", c);
  }
  if (!fat) return std::nullopt;
  if (build_id.empty()) {
    build_id = absl::StrFormat("%x-%x-%x-%x", status.st_dev, status.st_ino, status.st_size,
                               status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
  }
  return build_id;
}

// Whose files are believed: one's own, root's, and those of whom the directory belongs to, unless
// everybody may write to that. Somebody else's would name kernels as he likes.
bool IsTrusted(const struct stat& file, const std::string& path) {
  if ((file.st_mode & S_IWOTH) != 0) return false;
  if (file.st_uid == geteuid() || file.st_uid == 0) return true;
  struct stat directory;
  return stat(path.substr(0, path.rfind('/')).c_str(), &directory) == 0 &&
         directory.st_uid == file.st_uid && (directory.st_mode & S_IWOTH) == 0;
}

// Whole files of this program's own making, read rather than mapped: somebody could
// truncate them.
std::optional<KernelIndex> ReadIndex(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) > kLargestFile || !IsTrusted(status, path)) {
    return std::nullopt;
  }
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(status.st_size));
  if (!ReadAll(file.get(), bytes->data(), bytes->size(), 0)) return std::nullopt;
  return KernelIndex::Open(*bytes, bytes);
}

// Complete or not at all; a cache that cannot be written costs time only.
void WriteIndex(const std::string& path, const std::vector<uint8_t>& bytes) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const UniqueFd file(mkstemp(temporary.data()));
  if (!file.valid()) return;
  const bool written =
      write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  if (!written || rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace

KernelLibrary::KernelLibrary(Options options, Unknowns* unknowns)
    : options_(std::move(options)), unknowns_(unknowns) {
  std::error_code ignored;
  if (!options_.cache.empty()) std::filesystem::create_directories(options_.cache, ignored);
}

KernelLibrary::~KernelLibrary() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void KernelLibrary::Want(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) > kLargestFile) {
    return;
  }
  const auto key = KeyOfLibrary(file.get(), status);
  if (!key || !wanted_.insert(*key).second) return;
  std::string cached;
  if (!options_.cache.empty()) {
    cached = absl::StrCat(options_.cache, "/", *key, "-sm", architecture(), ".kernels");
  }
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(file), static_cast<uint64_t>(status.st_size), path, cached});
    if (!thread_.joinable()) thread_ = std::thread(&KernelLibrary::Run, this);
  }
  changed_.notify_all();
}

void KernelLibrary::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    working_ = true;
    lock.unlock();
    std::optional<KernelIndex> index;
    try {
      index = Make(job);
    } catch (const std::bad_alloc&) {
      unknowns_->Count("library too large to index", job.bytes, job.path);
    }
    lock.lock();
    working_ = false;
    if (index && index->size() > 0) {
      Source source = {*std::move(index), nullptr, nullptr};
      if (options_.keep_images) {
        source.library = std::make_shared<const UniqueFd>(std::move(job.file));
      }
      sources_.push_back(std::move(source));
    }
    changed_.notify_all();
  }
}

std::optional<KernelIndex> KernelLibrary::Make(const Job& job) {
  if (!job.cached.empty()) {
    if (auto cached = ReadIndex(job.cached)) return cached;
  }
  uint64_t malformed = 0;
  auto index = std::make_shared<std::vector<uint8_t>>();
  {
    // Not for longer than needed: some have a gigabyte.
    std::vector<uint8_t> library(job.bytes);
    if (!ReadAll(job.file.get(), library.data(), library.size(), 0)) return std::nullopt;
    *index = KernelIndex::Build(library, architecture(), kThreads, &malformed);
  }
  if (malformed > 0) {
    unknowns_->Count("malformed cubins in a library", malformed, job.path);
  }
  if (!job.cached.empty()) WriteIndex(job.cached, *index);
  auto opened = KernelIndex::Open(*index, index);
  LogInfo(absl::StrFormat("%s: %d kernels for sm_%d", job.path, opened ? opened->size() : 0,
                          architecture()));
  return opened;
}

std::optional<KernelLibrary::Found> KernelLibrary::Find(uint64_t prefix, const CodeReader& read) {
  std::unique_lock lock(mutex_);
  const auto is_idle = [this] { return jobs_.empty() && !working_; };
  if (!gave_up_ && !changed_.wait_for(lock, kLongestWait, is_idle)) {
    gave_up_ = true;
    unknowns_->Count("kernel index incomplete", jobs_.size(),
                     "indexing libraries takes very long; some kernels have no name");
  }
  if (is_idle()) gave_up_ = false;
  for (const Source& source : sources_) {
    const auto kernel = source.index.Find(prefix, read);
    if (!kernel) continue;
    Found found = {*kernel, source.cubin};
    if (source.library != nullptr && kernel->place) {
      found.image = std::make_shared<const KernelImage>(source.library, *kernel->place,
                                                        std::string(kernel->name));
    }
    return found;
  }
  return std::nullopt;
}

void KernelLibrary::Add(std::vector<CubinKernel> kernels, absl::Span<const uint8_t> cubin) {
  std::erase_if(kernels, [this](const CubinKernel& kernel) {
    return kernel.architecture != architecture() || kernel.code.size() < kPrefixBytes ||
           !added_.insert(FullFingerprint(kernel.code, kernel.relocated_instructions)).second;
  });
  if (kernels.empty()) return;
  auto bytes = std::make_shared<std::vector<uint8_t>>(KernelIndex::Build(std::move(kernels)));
  auto index = KernelIndex::Open(*bytes, bytes);
  if (!index) return;
  Source source = {*std::move(index), nullptr, nullptr};
  if (options_.keep_images) {
    source.cubin = std::make_shared<const KernelImage>(
        std::make_shared<const std::vector<uint8_t>>(cubin.begin(), cubin.end()));
  }
  std::lock_guard lock(mutex_);
  sources_.push_back(std::move(source));
}

}  // namespace phantora
