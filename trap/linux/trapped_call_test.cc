#include "trap/linux/trapped_call.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "trap/linux/fake_listener.h"

namespace phantora {
namespace {

RemoteAddress Address(const void* pointer) {
  return RemoteAddress{reinterpret_cast<uintptr_t>(pointer)};
}

class TrappedCallTest : public testing::Test {
 protected:
  seccomp_notif Call(std::initializer_list<uint64_t> arguments) {
    return listener_.Call(getpid(), SYS_read, arguments);
  }

  FakeListener listener_;
  Tracee tracee_{getpid()};
};

TEST_F(TrappedCallTest, ArgumentsAreWhatTheyAreReadAs) {
  const seccomp_notif notification = Call({0xffffffff'fffffff6, 2, 0x1'00000003});
  const TrappedCall call(notification, tracee_, listener_);
  EXPECT_EQ(call.number(), SYS_read);
  EXPECT_EQ(call.process(), getpid());
  EXPECT_EQ(call.Int(0), -10);
  EXPECT_EQ(call.Int(2), 3);  // an int has 32 bits
  EXPECT_EQ(call.Word(2), 0x1'00000003u);
  EXPECT_EQ(call.Address(1), RemoteAddress{2});
}

TEST_F(TrappedCallTest, AnswersAreOneOfThree) {
  const seccomp_notif value = Call({}), error = Call({}), native = Call({}), negative = Call({});
  TrappedCall(value, tracee_, listener_).Value(7);
  TrappedCall(error, tracee_, listener_).Error(EINVAL);
  TrappedCall(native, tracee_, listener_).Continue();
  TrappedCall(negative, tracee_, listener_).Result(-ENOMEM);
  EXPECT_EQ(listener_.AnswerOf(value)->value, 7);
  EXPECT_EQ(listener_.AnswerOf(error)->error, EINVAL);
  EXPECT_TRUE(listener_.AnswerOf(native)->continues);
  EXPECT_EQ(listener_.AnswerOf(negative)->error, ENOMEM);
  EXPECT_EQ(listener_.doubles(), 0);
}

TEST_F(TrappedCallTest, MemoryIsTheCallers) {
  const seccomp_notif notification = Call({});
  const TrappedCall call(notification, tracee_, listener_);
  uint32_t word = 42, copy = 0;
  EXPECT_TRUE(call.memory().Read(Address(&word), &copy, sizeof copy));
  EXPECT_EQ(copy, 42u);
  EXPECT_TRUE(call.memory().WriteObject(Address(&word), uint32_t{43}));
  EXPECT_EQ(word, 43u);
  EXPECT_FALSE(call.memory().ReadObject<uint64_t>(RemoteAddress{8}));
}

TEST_F(TrappedCallTest, WhatADeadCallersNumberMeansIsNeitherReadNorWritten) {
  const seccomp_notif notification = Call({});
  const TrappedCall call(notification, tracee_, listener_);
  uint32_t word = 42;
  listener_.Die(notification.id);
  EXPECT_FALSE(call.pending());
  EXPECT_FALSE(call.memory().ReadObject<uint32_t>(Address(&word)));
  EXPECT_FALSE(call.memory().WriteObject(Address(&word), uint32_t{43}));
  EXPECT_FALSE(call.memory().ReadString(Address("text"), 16));
  EXPECT_EQ(word, 42u);
}

TEST_F(TrappedCallTest, ReadOnlyMemoryIsNotWritten) {
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const seccomp_notif notification = Call({});
  const TrappedCall call(notification, tracee_, listener_);
  EXPECT_FALSE(call.memory().WriteObject(Address(page), uint32_t{1}));
  munmap(page, 4096);
}

// Strings, whose ends may be anywhere.
class StringTest : public TrappedCallTest {
 protected:
  StringTest() {
    pages_ = static_cast<char*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(pages_ + kPage, kPage);
  }
  ~StringTest() override { munmap(pages_, kPage); }
  std::optional<std::string> Read(const char* from, size_t limit) {
    const seccomp_notif notification = Call({});
    return TrappedCall(notification, tracee_, listener_).memory().ReadString(Address(from), limit);
  }

  static constexpr size_t kPage = 4096;
  char* pages_;
};

TEST_F(StringTest, EndsAtItsTerminator) {
  EXPECT_EQ(Read("", 10), "");
  EXPECT_EQ(Read("hello", 10), "hello");
  const std::string text(3000, 'x');
  EXPECT_EQ(Read(text.c_str(), 4096), text);
}

TEST_F(StringTest, LongerOnesThanAllowedAreNone) {
  EXPECT_EQ(Read("hello", 4), std::nullopt);
  EXPECT_EQ(Read("hello", 5), "hello");
}

TEST_F(StringTest, MayEndWithItsPage) {
  char* const end = pages_ + kPage;
  end[-3] = 'a', end[-2] = 'b', end[-1] = 0;
  EXPECT_EQ(Read(end - 3, 100), "ab");
  end[-1] = 'c';
  EXPECT_EQ(Read(end - 3, 100), std::nullopt);  // it goes on where there is no memory
  EXPECT_EQ(Read(end, 100), std::nullopt);
}

TEST_F(TrappedCallTest, WordsLieAnywhere) {
  const RemoteMemory memory(getpid());
  std::vector<uint32_t> words(300);
  std::vector<RemoteAddress> addresses;
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<uint32_t>(i * i);
    addresses.push_back(Address(&words[i]));
  }
  std::vector<uint32_t> read(words.size());
  EXPECT_TRUE(memory.ReadWords(addresses, read.data()));
  EXPECT_EQ(read, words);
  addresses[200] = RemoteAddress{16};
  EXPECT_FALSE(memory.ReadWords(addresses, read.data()));
}

}  // namespace
}  // namespace phantora
