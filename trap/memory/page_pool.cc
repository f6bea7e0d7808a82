#include "trap/memory/page_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

constexpr uint32_t kMostPages = 64 << 20;      // 256 GiB
constexpr size_t kMostSeen = size_t{8} << 20;  // of 100,000 pages of each of 64 processes
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // linux/fcntl.h
#endif

uint64_t HashOf(const uint8_t* page) {
  return absl::Hash<absl::string_view>{}(
      absl::string_view(reinterpret_cast<const char*>(page), kPageBytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PagePool>> PagePool::Create() {
  std::unique_ptr<PagePool> pool(new PagePool());
  pool->writer_ = UniqueFd(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!pool->writer_.valid()) return absl::UnavailableError("memfd_create failed");
  void* memory = mmap(nullptr, kMostPages * kPageBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, pool->writer_.get(), 0);
  if (memory == MAP_FAILED) return absl::ResourceExhaustedError("no address space for pages");
  pool->memory_ = static_cast<uint8_t*>(memory);
  // Children have no part in it but what is given to them.
  if (madvise(memory, kMostPages * kPageBytes, MADV_DONTFORK) != 0) {
    return absl::UnavailableError(absl::StrCat("MADV_DONTFORK failed: ", std::strerror(errno)));
  }
  // Nobody but this mapping writes to it, even one who opens it anew.
  if (fcntl(pool->writer_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK) != 0) {
    return absl::UnavailableError(absl::StrCat("a memfd cannot be sealed: ", std::strerror(errno)));
  }
  fchmod(pool->writer_.get(), 0400);
  pool->reader_ = UniqueFd(
      open(absl::StrCat("/proc/self/fd/", pool->writer_.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!pool->reader_.valid()) return absl::UnavailableError("a memfd cannot be opened for reading");
  return pool;
}

PagePool::~PagePool() {
  if (memory_ != nullptr) munmap(memory_, kMostPages * kPageBytes);
}

bool PagePool::Equals(uint32_t number, const uint8_t* page) const {
  // A hole is not looked at: that would fill it.
  return number < places_.size() && places_[number] == Place::kPage &&
         std::memcmp(memory_ + number * kPageBytes, page, kPageBytes) == 0;
}

std::optional<uint32_t> PagePool::NewWindow(bool for_others) {
  const auto first = static_cast<uint32_t>(places_.size());
  if (kMostPages - first < kWindowPages ||
      ftruncate(writer_.get(), static_cast<off_t>((first + kWindowPages) * kPageBytes)) != 0) {
    return std::nullopt;
  }
  places_.resize(first + kWindowPages, Place::kFree);
  is_for_others_.push_back(for_others);
  return first;
}

std::optional<uint32_t> PagePool::PlaceOf(uint64_t address) {
  const auto [window, fresh] = windows_.try_emplace(address / kWindowBytes);
  if (fresh) {
    const auto first = NewWindow(false);
    if (!first) {
      windows_.erase(window);
      return std::nullopt;
    }
    window->second = *first;
  }
  return window->second + static_cast<uint32_t>(address % kWindowBytes / kPageBytes);
}

std::optional<uint32_t> PagePool::OtherPlace() {
  // A process that has the window's memory may have come to use a place meanwhile.
  while (!stale_others_.empty()) {
    const uint32_t place = stale_others_.back();
    stale_others_.pop_back();
    if (places_[place] == Place::kStale) return place;
  }
  for (;;) {
    if (next_other_ % kWindowPages == 0) {
      const auto first = NewWindow(true);
      if (!first) return std::nullopt;
      next_other_ = *first;
    }
    const uint32_t place = next_other_++;
    if (places_[place] == Place::kFree) return place;
  }
}

bool PagePool::TakeZeros(uint32_t place) {
  if (place >= places_.size() || places_[place] == Place::kPage) return false;
  if (places_[place] == Place::kStale) std::memset(memory_ + place * kPageBytes, 0, kPageBytes);
  places_[place] = Place::kZeros;
  return true;
}

void PagePool::Recycle(const std::vector<bool>& used) {
  for (uint32_t place = 0; place < places_.size(); ++place) {
    if (used[place]) continue;
    if (places_[place] == Place::kPage) {
      places_[place] = Place::kStale;
      --pages_;
      if (is_for_others_[place / kWindowPages]) stale_others_.push_back(place);
    } else if (places_[place] == Place::kZeros) {
      places_[place] = Place::kFree;  // zeros still, whether there is memory for them or not
    }
  }
  absl::erase_if(by_hash_,
                 [this](const auto& each) { return places_[each.second] != Place::kPage; });
}

uint32_t PagePool::given(pid_t process) const {
  const auto found = given_.find(process);
  return found == given_.end() ? 0 : found->second;
}

uint32_t PagePool::TakeGiven(pid_t process) {
  const uint32_t given = this->given(process);
  given_.erase(process);
  return given;
}

std::optional<uint32_t> PagePool::Offer(pid_t process, const uint8_t* page,
                                        std::optional<uint32_t> place, const uint8_t* next) {
  if (place && Equals(*place, page)) return place;
  const bool free = place && *place < places_.size() &&
                    (places_[*place] == Place::kFree || places_[*place] == Place::kStale);
  const uint64_t hash = HashOf(page);
  const auto known = by_hash_.find(hash);
  if (known != by_hash_.end()) {
    if (!Equals(known->second, page)) return std::nullopt;
    if (!free || (next != nullptr && Equals(known->second + 1, next))) return known->second;
  } else {
    if (seen_.size() >= kMostSeen) seen_.clear();
    const auto [first, fresh] = seen_.try_emplace(hash, process);
    if (fresh || first->second == process) return std::nullopt;
    if (!free) place = OtherPlace();
    if (!place) return std::nullopt;
    ++given_[first->second];
    seen_.erase(first);
    by_hash_[hash] = *place;
  }
  std::memcpy(memory_ + *place * kPageBytes, page, kPageBytes);
  places_[*place] = Place::kPage;
  ++pages_;
  return place;
}

}  // namespace phantora
