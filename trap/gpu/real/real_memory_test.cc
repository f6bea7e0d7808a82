#include "trap/gpu/real/real_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "uvm_model/memory_for_test.h"
#include "uvm_model/page_store.h"

namespace phantora {
namespace {

constexpr uint64_t kPiece = RemoteSpace::kPiece;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kAt = 0x7f0000000000;

// Spaces whose bytes lie in this process; kernels are functions of the test.
class FakeGpu : public RemoteGpu {
 public:
  struct Space : RemoteSpace {
    std::map<uint64_t, std::vector<uint8_t>> pieces;
    std::set<uint64_t> drivers;          // pieces that cannot be had
    std::map<uint64_t, uint64_t> hosts;  // memory of the host: bytes by address
    uint64_t put = 0, got = 0;
    int launches = 0, finishes = 0;
    bool is_lost = false;
    std::vector<uint8_t> answer;

    uint8_t* At(uint64_t address) {
      const auto piece = pieces.find(address / kPiece * kPiece);
      return piece == pieces.end() ? nullptr : piece->second.data() + address % kPiece;
    }
    absl::Status Works() const {
      return is_lost ? absl::UnavailableError("lost") : absl::OkStatus();
    }
    absl::Status Reserve(uint64_t address) override {
      EXPECT_EQ(address % kPiece, 0);
      return drivers.contains(address) ? absl::OutOfRangeError("the driver's") : Works();
    }
    absl::Status Map(uint64_t address) override {
      EXPECT_TRUE(pieces.try_emplace(address, kPiece, 0).second);
      return Works();
    }
    absl::Status Unmap(uint64_t address) override {
      EXPECT_EQ(pieces.erase(address), 1);
      return Works();
    }
    absl::Status MapHost(uint64_t address, uint64_t bytes, int file, uint64_t) override {
      EXPECT_GE(file, 0);
      if (drivers.contains(address)) return absl::OutOfRangeError("the driver's");
      hosts[address] = bytes;
      return Works();
    }
    absl::Status UnmapHost(uint64_t address, uint64_t bytes) override {
      EXPECT_EQ(hosts[address], bytes);
      hosts.erase(address);
      return Works();
    }
    absl::StatusOr<uint64_t> Know(const KernelImage&, const std::string&) override { return 1; }
    absl::Status Put(uint64_t address, uint64_t bytes,
                     absl::FunctionRef<void(uint8_t*)> fill) override {
      std::vector<uint8_t> data(bytes);
      fill(data.data());
      put += bytes;
      if (At(address) == nullptr) return absl::InternalError("nothing is there");
      std::memcpy(At(address), data.data(), bytes);
      return Works();
    }
    absl::StatusOr<absl::Span<const uint8_t>> Get(uint64_t address, uint64_t bytes) override {
      if (is_lost || At(address) == nullptr) return absl::UnavailableError("lost");
      got += bytes;
      answer.assign(At(address), At(address) + bytes);
      return absl::Span<const uint8_t>(answer);
    }
    absl::Status Copy(uint64_t to, uint64_t from, uint64_t bytes) override {
      for (uint64_t i = 0; i < bytes; ++i) *At(to + i) = *At(from + i);
      return Works();
    }
    absl::Status Fill(uint64_t address, uint64_t bytes,
                      absl::Span<const uint8_t> pattern) override {
      for (uint64_t i = 0; i < bytes; ++i) *At(address + i) = pattern[i % pattern.size()];
      return Works();
    }
    // Of the only kernel: it adds 1 to the word whose address is its parameter.
    absl::Status Launch(const RemoteLaunch& launch) override {
      if (is_lost) return Works();
      uint64_t address, value;
      std::memcpy(&address, launch.parameters.data(), sizeof address);
      std::memcpy(&value, At(address), sizeof value);
      ++value;
      std::memcpy(At(address), &value, sizeof value);
      ++launches;
      return Works();
    }
    absl::Status Finish() override {
      ++finishes;
      return Works();
    }
  };

  absl::StatusOr<std::unique_ptr<RemoteSpace>> NewSpace() override {
    ++asked;
    if (spaces.size() == most) return absl::ResourceExhaustedError("full");
    auto space = std::make_unique<Space>();
    spaces.push_back(space.get());
    return space;
  }
  const std::string& name() const override { return name_; }
  uint64_t free_bytes() const override { return 0; }

  std::vector<Space*> spaces;  // in the order in which they were made
  size_t most = 10;
  int asked = 0;

 private:
  const std::string name_ = "fake";
};

class RealMemoryTest : public ::testing::Test {
 protected:
  RealMemoryTest() { Map(a_, kAt, memory_); }

  std::shared_ptr<DeviceMemory> New(uint64_t bytes) {
    return std::make_shared<DeviceMemory>(store_, bytes);
  }
  static void Map(AddressSpace& space, uint64_t address,
                  const std::shared_ptr<MemoryObject>& memory) {
    ASSERT_TRUE(space.Map(address, memory->size(), memory, 0));
  }
  static void Write(AddressSpace& space, uint64_t address, uint64_t value) {
    EXPECT_FALSE(space.Write(address, &value, sizeof value));
  }
  static uint64_t Read(AddressSpace& space, uint64_t address) {
    uint64_t value = 0;
    EXPECT_FALSE(space.Read(address, &value, sizeof value));
    return value;
  }
  RealMemory::Space& SpaceOf(AddressSpace& memory) { return **real_.SpaceOf(memory); }
  // A kernel of the space that is given these addresses, and adds 1 to the first.
  absl::Status TryLaunch(AddressSpace& memory, std::vector<uint64_t> addresses) {
    RemoteLaunch launch = {.kernel = 1, .parameters = {}};
    launch.parameters = {reinterpret_cast<const uint8_t*>(addresses.data()), sizeof(uint64_t)};
    return real_.Launch(SpaceOf(memory), launch, addresses);
  }
  void Launch(AddressSpace& memory, std::vector<uint64_t> addresses) {
    EXPECT_EQ(TryLaunch(memory, std::move(addresses)), absl::OkStatus());
  }

  FakeGpu gpu_;
  const std::shared_ptr<PageStore> store_ = std::make_shared<PageStore>(uint64_t{1} << 30);
  RealMemory real_{&gpu_, 8 * kPiece, store_};
  std::shared_ptr<DeviceMemory> memory_ = New(2 * kPiece);
  AddressSpace a_, b_;
};

TEST_F(RealMemoryTest, GoesThereAndComesBackWithWhatAKernelWrote) {
  Write(a_, kAt + 8, 41);
  Launch(a_, {kAt + 8});
  EXPECT_EQ(gpu_.spaces[0]->put, kPage);  // all else was zeros
  EXPECT_EQ(Read(a_, kAt + 8), 42);
  EXPECT_EQ(gpu_.spaces[0]->got, kPage);
  Launch(a_, {kAt + 8});
  EXPECT_EQ(gpu_.spaces[0]->put, kPage);  // nothing had been written here
  EXPECT_EQ(Read(a_, kAt + 8), 43);
  EXPECT_EQ(real_.counters().pieces, 2);
}

TEST_F(RealMemoryTest, TakesNothingOfTheHostWhileItIsThere) {
  std::vector<uint8_t> bytes(2 * kPiece, 7);
  EXPECT_FALSE(a_.Write(kAt, bytes.data(), bytes.size()));
  EXPECT_EQ(store_->used(), 2 * kPiece);
  Launch(a_, {kAt});
  EXPECT_EQ(store_->used(), 0);
  EXPECT_FALSE(a_.Read(kAt + kPiece, bytes.data(), kPage));
  EXPECT_EQ(bytes, std::vector<uint8_t>(2 * kPiece, 7));
  EXPECT_EQ(store_->used(), kPage);
}

TEST_F(RealMemoryTest, AWriteOfAPartKeepsTheRestOfItsPage) {
  Write(a_, kAt, 1);
  Launch(a_, {kAt});
  Write(a_, kAt + 16, 5);
  EXPECT_EQ(Read(a_, kAt), 2);
  Launch(a_, {kAt});
  EXPECT_EQ(Read(a_, kAt), 3);
  EXPECT_EQ(Read(a_, kAt + 16), 5);
}

TEST_F(RealMemoryTest, AWriteOfAllOfAPageDoesNotFetchIt) {
  Launch(a_, {kAt});
  const std::vector<uint8_t> bytes(kPage, 9);
  EXPECT_FALSE(a_.Write(kAt + kPage, bytes.data(), kPage));
  EXPECT_EQ(gpu_.spaces[0]->got, 0);
  Launch(a_, {kAt});
  EXPECT_EQ(Read(a_, kAt + kPage), 0x0909090909090909);
  EXPECT_EQ(Read(a_, kAt), 2);
}

TEST_F(RealMemoryTest, CopiesAndFillsHappenThere) {
  Write(a_, kAt, 1);
  Launch(a_, {kAt});
  const uint64_t to = kAt + kPiece + 100;
  Write(a_, to - 8, 77);       // in the page whose part is overwritten
  Write(a_, to + 5000, 1234);  // and what was here is old
  EXPECT_FALSE(a_.Copy(to, a_, kAt, 3 * kPage));
  EXPECT_EQ(gpu_.spaces[0]->got, 2 * kPage);  // of which parts were written
  EXPECT_EQ(Read(a_, to), 2);
  EXPECT_EQ(Read(a_, to + 5000), 0);
  EXPECT_EQ(Read(a_, to - 8), 77);
  EXPECT_FALSE(a_.Fill(kAt, 2 * kPage, {1, 2, 3, 4}, 0));
  EXPECT_EQ(Read(a_, kAt + kPage), 0x0403020104030201);
  EXPECT_EQ(Read(a_, kAt + 2 * kPage), 0);
}

TEST_F(RealMemoryTest, ACopyFromWhatIsHereIsDoneHere) {
  Launch(a_, {kAt});
  const std::vector<uint8_t> bytes(kPage, 3);
  EXPECT_FALSE(a_.Write(kAt + kPiece, bytes.data(), kPage));
  EXPECT_FALSE(a_.Copy(kAt + 2 * kPage, a_, kAt + kPiece, kPage));
  Launch(a_, {kAt});
  EXPECT_EQ(Read(a_, kAt + 2 * kPage), 0x0303030303030303);
}

TEST_F(RealMemoryTest, CopiesBetweenSpaces) {
  const auto other = New(kPiece);
  Map(b_, kAt, other);
  Write(a_, kAt, 10);
  Launch(a_, {kAt});
  Launch(b_, {kAt});
  EXPECT_FALSE(b_.Copy(kAt, a_, kAt, kPage));
  EXPECT_EQ(Read(b_, kAt), 11);
  Launch(b_, {kAt});
  EXPECT_EQ(Read(b_, kAt), 12);
  EXPECT_EQ(Read(a_, kAt), 11);
}

TEST_F(RealMemoryTest, MemoryOfTwoSpacesMovesBetweenThem) {
  Map(b_, kAt + 16 * kPiece, memory_);
  Write(a_, kAt, 1);
  Launch(a_, {kAt});
  Launch(b_, {kAt + 16 * kPiece});
  Launch(a_, {kAt});
  EXPECT_EQ(Read(b_, kAt + 16 * kPiece), 4);
}

TEST_F(RealMemoryTest, SpacesThatDoNotFitTogetherTakeTurns) {
  const auto large = New(7 * kPiece);
  Map(b_, kAt, large);
  Write(a_, kAt, 1);
  Write(a_, kAt + kPiece, 100);
  Launch(a_, {kAt});
  Launch(b_, {kAt});
  EXPECT_EQ(real_.counters().turns, 1);
  EXPECT_TRUE(gpu_.spaces[0]->pieces.empty());
  // What is asked of the one that waits happens when somebody looks.
  for (int i = 0; i < 5; ++i) Launch(a_, {kAt});
  EXPECT_FALSE(a_.Copy(kAt + kPiece + 2 * kPage, a_, kAt, 2 * kPage));
  EXPECT_FALSE(a_.Fill(kAt + 4 * kPage, kPage, {7}, 0));
  const std::vector<uint8_t> bytes(kPage, 1);
  EXPECT_FALSE(a_.Write(kAt + 8 * kPage, bytes.data(), kPage));
  Launch(a_, {kAt + 8 * kPage});
  Launch(b_, {kAt});
  EXPECT_EQ(gpu_.spaces[0]->launches, 1);
  EXPECT_EQ(real_.counters().turns, 1);
  EXPECT_EQ(Read(a_, kAt), 7);
  EXPECT_EQ(real_.counters().turns, 2);
  EXPECT_EQ(Read(a_, kAt + kPiece), 100);
  EXPECT_EQ(Read(a_, kAt + kPiece + 2 * kPage), 7);
  EXPECT_EQ(Read(a_, kAt + 4 * kPage), 0x0707070707070707);
  EXPECT_EQ(Read(a_, kAt + 8 * kPage), 0x0101010101010102);
  // Nothing is noted for the other: what it has can be read while it waits.
  EXPECT_EQ(Read(b_, kAt), 2);
  EXPECT_EQ(real_.counters().turns, 2);
  EXPECT_LE(real_.counters().most_pieces, 8);
}

TEST_F(RealMemoryTest, OneThatWaitsMayGrowAndShrinkAndEnd) {
  Map(b_, kAt, New(7 * kPiece));
  {
    AddressSpace waiting;
    Map(waiting, kAt, memory_);
    Launch(waiting, {kAt});
    Launch(b_, {kAt});
    auto more = New(kPiece);
    Map(waiting, kAt + 32 * kPiece, more);
    Launch(waiting, {kAt + 32 * kPiece});
    EXPECT_EQ(gpu_.spaces[0]->launches, 1);
    waiting.Unmap(kAt + 32 * kPiece, kPiece);
    more.reset();  // it has its turn before
    EXPECT_EQ(gpu_.spaces[0]->launches, 2);
    Launch(b_, {kAt});
    Launch(waiting, {kAt});
    Launch(waiting, {kAt});
  }
  EXPECT_EQ(Read(a_, kAt), 3);
  EXPECT_EQ(Read(b_, kAt), 2);
}

TEST_F(RealMemoryTest, OneThatWaitsHasItsTurnWhenMuchIsNoted) {
  Map(b_, kAt, New(7 * kPiece));
  Launch(a_, {kAt});
  Launch(b_, {kAt});
  for (int i = 0; i < 20'000; ++i) Launch(a_, {kAt});
  EXPECT_GT(gpu_.spaces[0]->launches, 10'000);
  EXPECT_EQ(Read(a_, kAt), 20'001);
}

TEST_F(RealMemoryTest, ALostSpaceMakesRoom) {
  Map(b_, kAt, New(7 * kPiece));
  Launch(a_, {kAt});
  gpu_.spaces[0]->is_lost = true;
  EXPECT_EQ(Read(a_, kAt), 0);
  EXPECT_EQ(real_.counters().pieces, 0);
  Launch(b_, {kAt});
  EXPECT_EQ(real_.counters().turns, 0);
  a_.Unmap(kAt, 2 * kPiece);
  memory_.reset();
  EXPECT_EQ(real_.counters().pieces, 7);
}

TEST_F(RealMemoryTest, DoesNotAskAgainForAContextThatCannotBe) {
  gpu_.most = 1;
  Launch(a_, {kAt});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(real_.SpaceOf(b_).ok());
  EXPECT_EQ(gpu_.asked, 2);
  Launch(a_, {kAt});
}

TEST_F(RealMemoryTest, SaysWhatDoesNotFit) {
  Map(b_, kAt, New(9 * kPiece));
  Write(b_, kAt, 5);
  const auto status = TryLaunch(b_, {kAt});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(Read(b_, kAt), 5);
}

TEST_F(RealMemoryTest, WhatIsFreedIsGoneThere) {
  Launch(a_, {kAt});
  a_.Unmap(kAt, 2 * kPiece);
  memory_.reset();
  EXPECT_TRUE(gpu_.spaces[0]->pieces.empty());
  EXPECT_EQ(real_.counters().pieces, 0);
  EXPECT_EQ(gpu_.spaces[0]->got, 0);
}

TEST_F(RealMemoryTest, MemoryThatIsMappedElsewhereKeepsItsBytes) {
  Write(a_, kAt, 1);
  Launch(a_, {kAt});
  a_.Unmap(kAt, 2 * kPiece);
  Map(a_, kAt, New(kPiece));
  Map(a_, kAt + 32 * kPiece, memory_);
  Launch(a_, {kAt});
  EXPECT_EQ(Read(a_, kAt), 1);
  EXPECT_EQ(Read(a_, kAt + 32 * kPiece), 2);
  Launch(a_, {kAt + 32 * kPiece});
  EXPECT_EQ(Read(a_, kAt + 32 * kPiece), 3);
}

TEST_F(RealMemoryTest, FindsMemoryInTablesThatTheHostWrote) {
  Map(a_, kAt + 32 * kPiece, New(kPiece));
  Write(a_, kAt + 8 * kPage, kAt + 32 * kPiece + 64);
  Launch(a_, {kAt});
  EXPECT_NE(gpu_.spaces[0]->At(kAt + 32 * kPiece), nullptr);
}

TEST_F(RealMemoryTest, TensorsOfSeveralMappingsAreThereWhole) {
  Map(a_, kAt + 2 * kPiece, New(kPiece));
  Map(a_, kAt - kPiece, New(kPiece));
  Launch(a_, {kAt});
  EXPECT_NE(gpu_.spaces[0]->At(kAt + 2 * kPiece), nullptr);
  EXPECT_NE(gpu_.spaces[0]->At(kAt - kPiece), nullptr);
}

TEST_F(RealMemoryTest, PiecesOfSeveralMappings) {
  const uint64_t at = kAt + 32 * kPiece;
  Map(a_, at, New(16 * kPage));
  Map(a_, at + 16 * kPage, New(16 * kPage));
  Write(a_, at, 1);
  Launch(a_, {at});
  Launch(a_, {at + 16 * kPage});
  EXPECT_EQ(Read(a_, at), 2);
  a_.Unmap(at, 16 * kPage);  // and ends
  Map(a_, at, New(16 * kPage));
  Launch(a_, {at});
  EXPECT_EQ(Read(a_, at), 1);  // zeros, though something else was there
  EXPECT_EQ(Read(a_, at + 16 * kPage), 1);
}

TEST_F(RealMemoryTest, MemoryOfTheHostIsThereToo) {
  const uint64_t at = kAt + 32 * kPiece;
  Map(a_, at, std::make_shared<OwnedMemory>(MemoryKind::kSysmem, kPiece));
  Launch(a_, {kAt});
  EXPECT_EQ(gpu_.spaces[0]->finishes, 0);
  Launch(a_, {kAt, at + 8});
  EXPECT_EQ(gpu_.spaces[0]->hosts, (std::map<uint64_t, uint64_t>{{at, kPiece}}));
  // Who reads it does not ask, so the kernel must be over.
  EXPECT_EQ(gpu_.spaces[0]->finishes, 1);
  Launch(a_, {kAt});
  EXPECT_EQ(gpu_.spaces[0]->finishes, 1);
  Launch(a_, {kAt, at});
  EXPECT_EQ(gpu_.spaces[0]->finishes, 2);
  a_.Unmap(at, kPiece);
  EXPECT_TRUE(gpu_.spaces[0]->hosts.empty());
  // At the driver's own addresses it only looked like an address.
  Map(a_, at, std::make_shared<OwnedMemory>(MemoryKind::kSysmem, kPiece));
  gpu_.spaces[0]->drivers = {at};
  Launch(a_, {kAt, at});
  EXPECT_TRUE(gpu_.spaces[0]->hosts.empty());
}

// A page of a process, which only that can map.
class ProcessMemory : public MemoryObject {
 public:
  ProcessMemory() : MemoryObject(MemoryKind::kExternal, kPage) {}
  bool Read(uint64_t, void*, uint64_t) override { return false; }
  bool Write(uint64_t, const void*, uint64_t) override { return false; }
  bool Zero(uint64_t, uint64_t) override { return false; }
};

TEST_F(RealMemoryTest, RefusesMemoryOfTheProcessItself) {
  Map(a_, kAt + 32 * kPiece, std::make_shared<ProcessMemory>());
  EXPECT_TRUE(absl::IsFailedPrecondition(TryLaunch(a_, {kAt, kAt + 32 * kPiece})));
  Launch(a_, {kAt});
}

TEST_F(RealMemoryTest, LeavesTheDriversOwnHere) {
  Map(a_, kAt + 32 * kPiece, New(kPiece));
  real_.KeepFromGpu(SpaceOf(a_), kAt + 32 * kPiece);
  Map(a_, kAt + 64 * kPiece, New(kPiece));
  gpu_.spaces[0]->drivers = {kAt + 64 * kPiece};
  Launch(a_, {kAt, kAt + 32 * kPiece, kAt + 64 * kPiece});
  EXPECT_EQ(gpu_.spaces[0]->pieces.size(), 2);
  Launch(a_, {kAt, kAt + 64 * kPiece});
  EXPECT_EQ(gpu_.spaces[0]->pieces.size(), 2);
}

TEST_F(RealMemoryTest, MemoryThatAProcessMapsComesBackForGood) {
  Write(a_, kAt, 1);
  Launch(a_, {kAt});
  EXPECT_GE(memory_->MappableFd(), 0);
  EXPECT_EQ(Read(a_, kAt), 2);
  EXPECT_TRUE(gpu_.spaces[0]->pieces.empty());
  EXPECT_TRUE(absl::IsFailedPrecondition(TryLaunch(a_, {kAt})));
}

TEST_F(RealMemoryTest, ALostSpaceIsLostForItsContextOnly) {
  const auto other = New(kPiece);
  Map(b_, kAt, other);
  Launch(a_, {kAt});
  Launch(b_, {kAt});
  gpu_.spaces[0]->is_lost = true;
  EXPECT_EQ(Read(a_, kAt), 0);
  EXPECT_TRUE(real_.IsLost(a_));
  EXPECT_FALSE(real_.IsLost(b_));
  EXPECT_TRUE(absl::IsUnavailable(TryLaunch(a_, {kAt})));
  Write(a_, kAt, 1);
  Launch(b_, {kAt});
  EXPECT_EQ(Read(b_, kAt), 2);
}

TEST_F(RealMemoryTest, WhatASpaceLeavesBehindIsKept) {
  {
    AddressSpace short_lived;
    Map(short_lived, kAt, memory_);
    Write(short_lived, kAt, 1);
    Launch(short_lived, {kAt});
    Map(short_lived, kAt + 32 * kPiece, New(kPiece));
    Launch(short_lived, {kAt + 32 * kPiece});
  }
  EXPECT_EQ(real_.counters().pieces, 0);
  EXPECT_EQ(Read(a_, kAt), 2);
}

TEST_F(RealMemoryTest, AUserOfTheMemoryMayOutliveIt) {
  auto real = std::make_unique<RealMemory>(&gpu_, 8 * kPiece, store_);
  AddressSpace space;
  Map(space, kAt, New(kPiece));
  const uint64_t address = kAt;
  RemoteLaunch launch = {.kernel = 1, .parameters = {}};
  launch.parameters = {reinterpret_cast<const uint8_t*>(&address), sizeof address};
  ASSERT_TRUE(real->Launch(**real->SpaceOf(space), launch, {address}).ok());
  real.reset();
  Write(space, kAt, 3);
  EXPECT_EQ(Read(space, kAt), 3);
}

}  // namespace
}  // namespace phantora
