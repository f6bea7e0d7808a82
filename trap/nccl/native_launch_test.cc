#include "trap/nccl/native_launch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace phantora {
namespace {

using nccl::Operation;
using testing::Test;

constexpr uint64_t kComm = 0x10000, kWork = 0x20000;
constexpr char kReduceKernel[] =
    "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLP11ncclDevCommmP8ncclWork";

// Memory that is mapped where something was written.
class NativeLaunchTest : public Test {
 protected:
  NativeLaunchTest() {
    library_.version = 22105;
    for (const char* name :
         {"ncclDevFunc_AllReduce_Sum_f32_RING_LL", "ncclDevFunc_AllReduce_Sum_f32_RING_SIMPLE",
          "ncclDevFunc_SendRecv", "ncclDevFunc_AllReduce_MinMax_u32_RING_LL",
          "ncclDevFunc_Broadcast_RING_LL", "ncclDevFunc_AllReduce_SumPostDiv_u32_RING_LL",
          "ncclDevFunc_AllReduce_PreMulSum_f16_TREE_SIMPLE",
          "ncclDevFunc_AllReduce_Sum_f32_NVLS_SIMPLE"}) {
      library_.functions.push_back(ParseNcclFunction(name));
    }
    library_.functions.push_back(std::nullopt);
    Store<int32_t>(kComm, 1);
    Store<int32_t>(kComm + 4, 4);
  }

  template <typename T>
  void Store(uint64_t address, T value) {
    for (size_t i = 0; i < sizeof value; ++i) {
      memory_[address + i] = reinterpret_cast<const uint8_t*>(&value)[i];
    }
  }
  bool Read(uint64_t address, void* to, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) {
      const auto it = memory_.find(address + i);
      if (it == memory_.end()) return false;
      static_cast<uint8_t*>(to)[i] = it->second;
    }
    return true;
  }

  // --- Before 2.22 ---

  void Header(uint64_t index, uint16_t function, uint8_t type, bool last, int32_t next = 0,
              bool in_ring = false) {
    const uint64_t at = kWork + 512 * index;
    for (uint64_t i = 0; i < 512; ++i) memory_[at + i] = 0;
    Store<int32_t>(at, next);
    Store<uint16_t>(at + 4, function);
    Store<uint8_t>(at + 6, static_cast<uint8_t>((last ? 1 : 0) | (in_ring ? 2 : 0)));
    Store<uint8_t>(at + 7, type);
  }
  struct Part {
    uint64_t send, receive, count, offset, length, argument = 0;
    int32_t root = 0;
    bool is_address = false;
  };
  void Element(uint64_t index, int element, const Part& part) {
    const uint64_t at = kWork + 512 * index + 8 + 56 * static_cast<uint64_t>(element);
    Store<uint8_t>(at, static_cast<uint8_t>(1 | (part.is_address ? 2 : 0)));
    Store(at + 4, part.root);
    Store(at + 8, part.send);
    Store(at + 16, part.receive);
    Store(at + 24, part.count);
    Store(at + 32, part.argument);
    Store(at + 40, part.length << 25 | 17);
    Store(at + 48, part.offset << 25 | 17);
  }
  void Message(uint64_t index, int element, int peer, bool send, uint64_t address, uint64_t bytes) {
    const uint64_t at = kWork + 512 * index + 8 + 28 * static_cast<uint64_t>(element);
    Store<uint32_t>(at, static_cast<uint32_t>(peer) & 0x3fffffff);
    Store<uint8_t>(at + 4, send ? 1 : 2);
    Store(at + 8, static_cast<uint32_t>(address >> 32));
    Store(at + 12, static_cast<uint32_t>(address));
    Store(at + 16, static_cast<uint32_t>(bytes >> 32));
    Store(at + 20, static_cast<uint32_t>(bytes));
  }
  absl::StatusOr<NativeLaunch> Decode(uint64_t mask, const std::string& kernel = kReduceKernel) {
    std::vector<uint8_t> parameters(24);
    std::memcpy(parameters.data(), &kComm, 8);
    std::memcpy(parameters.data() + 8, &mask, 8);
    std::memcpy(parameters.data() + 16, &kWork, 8);
    return Decode(parameters, kernel);
  }
  absl::StatusOr<NativeLaunch> Decode(const std::vector<uint8_t>& parameters,
                                      const std::string& kernel = kReduceKernel) {
    return DecodeNativeLaunch(
        library_, kernel, parameters,
        [this](uint64_t address, void* to, uint64_t bytes) { return Read(address, to, bytes); });
  }

  NativeNccl library_;
  std::map<uint64_t, uint8_t> memory_;
};

TEST_F(NativeLaunchTest, PartsOfChannelsMakeACollective) {
  Header(0, 0, 1, true);
  Element(0, 0, {0x1000, 0x2000, 100, 0, 60});
  Header(1, 0, 1, true);
  Element(1, 0, {0x1000, 0x2000, 100, 60, 40});
  const auto launch = Decode(0b1001);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->communicator, kComm);
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->ranks, 4);
  ASSERT_EQ(launch->operations.size(), 1u);
  const NativeOperation& operation = launch->operations[0];
  EXPECT_EQ(operation.entry.operation, Operation::kAllReduce);
  EXPECT_EQ(operation.entry.type, 7);
  EXPECT_EQ(operation.entry.reduction, nccl::kSum);
  EXPECT_EQ(operation.entry.count, 100u);
  EXPECT_EQ(operation.entry.send, 0x1000u);
  EXPECT_EQ(operation.entry.receive, 0x2000u);
  EXPECT_EQ(operation.given, (NcclGiven{NcclAlgorithm::kRing, NcclProtocol::kLl}));
  EXPECT_TRUE(launch->stores.empty());
}

TEST_F(NativeLaunchTest, SeveralCollectivesKeepTheOrderOfTheirChannels) {
  // The first on channels 0 and 1, the second on 1 and 2; then the first again, on 2.
  Header(0, 0, 1, true);
  Element(0, 0, {0x9000, 0x9000, 10, 0, 6});
  Header(1, 0, 1, true);
  Element(1, 0, {0x9000, 0x9000, 10, 6, 4});
  Element(1, 1, {0x1000, 0x1000, 20, 0, 5});
  Header(2, 0, 1, false, 3);
  Element(2, 0, {0x1000, 0x1000, 20, 5, 15});
  Header(3, 1, 1, true);
  Element(3, 0, {0x9000, 0x9000, 10, 0, 10});
  const auto launch = Decode(0b111);
  ASSERT_TRUE(launch.ok()) << launch.status();
  ASSERT_EQ(launch->operations.size(), 3u);
  EXPECT_EQ(launch->operations[0].entry.send, 0x9000u);
  EXPECT_EQ(launch->operations[1].entry.send, 0x1000u);
  EXPECT_EQ(launch->operations[2].entry.send, 0x9000u);
  EXPECT_EQ(launch->operations[2].given.protocol, NcclProtocol::kSimple);
}

TEST_F(NativeLaunchTest, TheSameCollectiveTwice) {
  for (uint64_t channel : {0, 1}) {
    Header(channel, 0, 1, true);
    Element(channel, 0, {0x1000, 0x1000, 10, 5 * channel, 5});
    Element(channel, 1, {0x1000, 0x1000, 10, 5 * channel, 5});
  }
  const auto launch = Decode(0b11);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->operations.size(), 2u);
}

TEST_F(NativeLaunchTest, RefusesWhatIsMissing) {
  Header(0, 0, 1, true);
  Element(0, 0, {0x1000, 0x2000, 100, 0, 60});
  EXPECT_FALSE(Decode(1).ok()) << "a part is missing";
  Element(0, 0, {0x1000, 0x2000, 100, 10, 90});
  EXPECT_FALSE(Decode(1).ok()) << "the first part is missing";
  Element(0, 0, {0x1000, 0x2000, 100, 20, 90});
  EXPECT_FALSE(Decode(1).ok()) << "more than there is";
  Element(0, 0, {0x1000, 0x2000, 100, 0, 100});
  EXPECT_TRUE(Decode(1).ok());
  EXPECT_FALSE(Decode(3).ok()) << "no work for a channel";
  EXPECT_FALSE(Decode(0).ok()) << "no channel";
  // Kernels with the same code have one name.
  EXPECT_TRUE(
      Decode(1, "_Z39ncclDevKernel_AllReduce_Sum_f64_RING_LLP11ncclDevCommmP8ncclWork").ok());
  EXPECT_FALSE(Decode(1, "_Z9ncclDevKernel_AllReduce_Sum_f32_RING_LLv").ok());
  Header(0, 8, 1, true);
  Element(0, 0, {0x1000, 0x2000, 100, 0, 100});
  EXPECT_FALSE(Decode(1).ok()) << "no such function";
  Header(0, 2, 1, true);
  EXPECT_FALSE(Decode(1).ok()) << "messages that are none";
  Header(0, 0, 1, false, 0);
  EXPECT_FALSE(Decode(1).ok()) << "work without end";
  Store<int32_t>(kComm, 4);
  EXPECT_FALSE(Decode(1).ok()) << "rank 4 of 4";
  library_.version = 21803;
  EXPECT_EQ(Decode(1).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(NativeLaunchTest, Reductions) {
  struct Case {
    uint16_t function;
    uint64_t argument;
    bool is_address;
    uint8_t type, reduction;
  };
  for (const Case& test : {Case{3, 0, false, 3, nccl::kMin},
                           {3, 0xffffffff, false, 3, nccl::kMax},
                           {3, 0x80000000, false, 2, nccl::kMin},
                           {3, 0x7fffffff, false, 2, nccl::kMax},
                           {5, 4, false, 3, nccl::kAvg},
                           {6, 0x3400, false, 6, nccl::kPreMulSum},
                           {6, 0x7000, true, 6, nccl::kPreMulSum}}) {
    Header(0, test.function, 1, true);
    Element(0, 0, {0x1000, 0x2000, 8, 0, 8, test.argument, 0, test.is_address});
    const auto launch = Decode(1, "ncclDevKernel_Generic");
    ASSERT_TRUE(launch.ok()) << launch.status();
    const nccl::Entry& entry = launch->operations[0].entry;
    EXPECT_EQ(entry.type, test.type) << test.argument;
    EXPECT_EQ(entry.reduction, test.reduction) << test.argument;
    if (test.reduction == nccl::kPreMulSum) {
      EXPECT_EQ(entry.scalar, test.argument);
      EXPECT_EQ(entry.scalar_on_device, test.is_address ? 1 : 0);
    }
  }
  for (const auto& [function, argument] :
       {std::pair<uint16_t, uint64_t>{3, 5}, {3, uint64_t{1} << 40}, {5, 3}}) {
    Header(0, function, 1, true);
    Element(0, 0, {0x1000, 0x2000, 8, 0, 8, argument});
    EXPECT_FALSE(Decode(1, "ncclDevKernel_Generic").ok()) << argument;
  }
}

TEST_F(NativeLaunchTest, OtherAlgorithmsCountTheirChannels) {
  for (uint64_t channel : {0, 1}) {
    Header(channel, 7, 1, true);
    Element(channel, 0, {0x1000, 0x1000, 1000, 0, 0});
    const uint64_t at = kWork + 512 * channel + 8;
    Store<uint32_t>(at + 48, static_cast<uint32_t>(channel));
    Store<uint32_t>(at + 52, 2);
  }
  const auto launch = Decode(0b11);
  ASSERT_TRUE(launch.ok()) << launch.status();
  ASSERT_EQ(launch->operations.size(), 1u);
  EXPECT_EQ(launch->operations[0].entry.count, 1000u);
  EXPECT_EQ(launch->operations[0].given.algorithm, NcclAlgorithm::kNvls);
}

TEST_F(NativeLaunchTest, ChunksMakeMessages) {
  // To rank 2: 10 bytes in two chunks, then 4 bytes that follow them in memory. From rank 3:
  // nothing, in one message. Chunks begin at channel 5.
  const uint64_t mask = uint64_t{1} << 5 | uint64_t{1} << 1;
  Header(0, 2, 2, true);
  Message(0, 1, 2, true, 0x100000006, 4);
  Header(1, 2, 2, false, 2);
  Message(1, 1, 2, true, 0x100000000, 6);
  Message(1, 2, 3, false, 0x5000, 0);
  Header(2, 2, 2, true, 77, true);
  Message(2, 1, 2, true, 0x10000000a, 4);
  Store<uint64_t>(kComm + 80 + 5 * 368 + 352, 0x7000);
  const auto launch = Decode(mask, "_Z22ncclDevKernel_SendRecvP11ncclDevCommmP8ncclWork");
  ASSERT_TRUE(launch.ok()) << launch.status();
  ASSERT_EQ(launch->operations.size(), 3u);
  const auto& operations = launch->operations;
  EXPECT_EQ(operations[0].entry.operation, Operation::kSend);
  EXPECT_EQ(operations[0].entry.peer, 2);
  EXPECT_EQ(operations[0].entry.send, 0x100000000u);
  EXPECT_EQ(operations[0].entry.count, 10u);
  EXPECT_EQ(operations[1].entry.send, 0x10000000au);
  EXPECT_EQ(operations[1].entry.count, 4u);
  EXPECT_EQ(operations[2].entry.operation, Operation::kReceive);
  EXPECT_EQ(operations[2].entry.peer, 3);
  EXPECT_EQ(operations[2].entry.count, 0u);
  ASSERT_EQ(launch->stores.size(), 1u);
  EXPECT_EQ(launch->stores[0].address, 0x7000u);
  EXPECT_EQ(launch->stores[0].value, 77u);
}

// --- From 2.22 on -----------------------------------------------------------------------

class NativeBatchTest : public NativeLaunchTest {
 protected:
  NativeBatchTest() {
    library_.version = 22203;
    parameters_.resize(4096);
    Put(0, kComm);
  }
  template <typename T>
  void Put(size_t at, T value) {
    std::memcpy(parameters_.data() + at, &value, sizeof value);
  }
  void Batch(size_t index, uint32_t jump, uint32_t type, uint32_t function, uint32_t offset,
             uint64_t bits) {
    Put(32 + 16 * index, jump | type << 15 | function << 17);
    Put(36 + 16 * index, offset);
    Put(40 + 16 * index, bits);
  }
  void Collective(size_t at, uint8_t low, uint8_t high, uint64_t send, uint64_t low_count,
                  uint64_t mid_count, uint64_t high_count) {
    Put(at, low);
    Put(at + 1, high);
    Put(at + 8, send + 0x100);
    Put(at + 16, send);
    Put(at + 24, low_count);
    Put(at + 32, mid_count);
    Put(at + 40, high_count);
  }
  std::vector<uint8_t> parameters_;
};

TEST_F(NativeBatchTest, CollectivesInParameters) {
  Put<uint64_t>(8, 0b111);
  Batch(0, 0, 1, 0, 0x60, 1);
  Batch(1, 0, 1, 0, 0x60, 1);
  Batch(2, 0, 1, 0, 0x60, 3);
  Collective(0x60, 0, 2, 0x1000, 10, 20, 5);
  Collective(0xa0, 2, 2, 0x2000, 7, 0, 0);
  const auto launch = Decode(parameters_);
  ASSERT_TRUE(launch.ok()) << launch.status();
  ASSERT_EQ(launch->operations.size(), 2u);
  EXPECT_EQ(launch->operations[0].entry.count, 35u);
  EXPECT_EQ(launch->operations[0].entry.send, 0x1000u);
  EXPECT_EQ(launch->operations[0].entry.receive, 0x1100u);
  EXPECT_EQ(launch->operations[1].entry.count, 7u);

  Put<uint64_t>(8, 0b110);
  EXPECT_FALSE(Decode(parameters_).ok()) << "a channel is missing";
  Put<uint64_t>(8, 0b111);
  Batch(1, 0x3fff, 1, 0, 0x60, 1);
  EXPECT_FALSE(Decode(parameters_).ok()) << "a batch behind the parameters";
  Batch(1, 0, 1, 0, 0xfffff0, 1);
  EXPECT_FALSE(Decode(parameters_).ok()) << "work behind the parameters";
  Batch(1, 0, 3, 0, 0x60, 1);
  EXPECT_FALSE(Decode(parameters_).ok()) << "no such work";
}

TEST_F(NativeBatchTest, MessagesInTheRing) {
  Put<uint64_t>(8, 0b11);
  Put<uint8_t>(16, 1);
  Put<uint32_t>(20, 0xff);  // a ring of 256 bytes
  Put<uint64_t>(24, kWork);
  Store<uint64_t>(kComm + 32, 0x7000);
  // It starts before the end of the ring, and goes on at its beginning.
  Batch(0, 2, 0, 2, 0xfffffff0, 1);
  Batch(1, 0, 0, 2, 0xfffffff0, 1);
  Batch(2, 0, 0, 2, 0x20, 1);
  uint8_t first[48] = {}, second[48] = {};
  const auto set = [](uint8_t* work, size_t at, auto value) {
    std::memcpy(work + at, &value, sizeof value);
  };
  set(first, 0, uint64_t{0x1000});
  set(first, 8, uint64_t{0x2000});
  set(first, 16, uint64_t{11});
  set(first, 24, uint64_t{22});
  set(first, 32, 2);
  set(first, 36, 0);
  first[42] = 2, first[43] = 2;
  set(second, 8, uint64_t{0x3000});
  set(second, 24, uint64_t{33});
  set(second, 36, 0);
  second[43] = 1;
  for (uint64_t i = 0; i < 48; ++i) {
    Store(kWork + ((0xfffffff0u + i) & 0xff), first[i]);
    Store(kWork + 0x20 + i, second[i]);
  }
  const auto launch = Decode(parameters_, "ncclDevKernel_SendRecv");
  ASSERT_TRUE(launch.ok()) << launch.status();
  ASSERT_EQ(launch->operations.size(), 3u);
  EXPECT_EQ(launch->operations[0].entry.operation, Operation::kSend);
  EXPECT_EQ(launch->operations[0].entry.count, 11u);
  EXPECT_EQ(launch->operations[1].entry.operation, Operation::kReceive);
  EXPECT_EQ(launch->operations[1].entry.receive, 0x2000u);
  EXPECT_EQ(launch->operations[2].entry.receive, 0x3000u);
  EXPECT_EQ(launch->operations[2].entry.count, 33u);
  ASSERT_EQ(launch->stores.size(), 2u);
  EXPECT_EQ(launch->stores[0].address, 0x7000u);
  EXPECT_EQ(launch->stores[0].value, 0x50u);
  EXPECT_EQ(launch->stores[1].address, 0x7004u);
  EXPECT_EQ(launch->stores[1].value, 0x20u);
}

// --- Hostile bytes ------------------------------------------------------------------------

TEST_F(NativeLaunchTest, SurvivesRandomWork) {
  std::mt19937 random(11);
  int decoded = 0;
  for (int round = 0; round < 2000; ++round) {
    for (uint64_t i = 0; i < 3; ++i) {
      const bool messages = random() % 3 == 0;
      Header(i, messages ? 2 : random() % 9, messages ? 2 : 1, random() % 4 != 0,
             static_cast<int32_t>(random() % 4) - 1, random() % 4 == 0);
      if (messages) {
        Message(i, static_cast<int>(random() % 16), static_cast<int>(random() % 6) - 1,
                random() % 2 == 0, random() % 64, random() % 64);
      } else {
        Element(i, 0, {0x1000, 0x2000, random() % 8 + 1, random() % 8, random() % 8, random()});
      }
      for (int damage = random() % 3; damage > 0; --damage) {
        memory_[kWork + 512 * i + random() % 512] = static_cast<uint8_t>(random());
      }
    }
    const auto launch = Decode(random() % 8);
    if (launch.ok()) ++decoded;
  }
  EXPECT_GT(decoded, 0);
  for (const int version : {21903, 22005, 22203, 22304, 22501, 22602, 22707}) {
    library_.version = version;
    for (int round = 0; round < 1000; ++round) {
      std::vector<uint8_t> parameters(random() % 4097);
      for (uint8_t& byte : parameters) byte = static_cast<uint8_t>(random());
      if (parameters.size() > 32) {
        std::memcpy(parameters.data(), &kComm, 8);
        std::memcpy(parameters.data() + 16, &kWork, 8);
        if (round % 2 == 0) parameters[16] = 0, parameters[34] &= 0x3;
      }
      static_cast<void>(Decode(parameters));
    }
  }
}

}  // namespace
}  // namespace phantora
