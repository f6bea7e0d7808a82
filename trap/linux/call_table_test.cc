#include "trap/linux/call_table.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace phantora {
namespace {

// Between the calls up to rseq and those from pidfd_send_signal the kernel left a gap, so that new
// ones have the same number on all architectures.
constexpr int kGapBegin = SYS_rseq + 1, kGapEnd = SYS_pidfd_send_signal;

TEST(CallTableTest, EveryCallHasARow) {
  std::set<int> known;
  for (const CallRow& row : CallTable()) known.insert(row.number);
  for (int number = 0; number <= LastCall(); ++number) {
    if (number >= kGapBegin && number < kGapEnd) continue;
    EXPECT_TRUE(known.contains(number)) << CallName(number);
  }
  EXPECT_GE(LastCall(), 462);
}

TEST(CallTableTest, RowsSayWhatAndWhy) {
  for (const CallRow& row : CallTable()) {
    SCOPED_TRACE(CallName(row.number));
    EXPECT_STRNE(row.reason, "");
    EXPECT_EQ(row.disposition == Disposition::kTrapped, row.handler != CallHandler::kNone);
    EXPECT_EQ(row.disposition == Disposition::kRefused, row.error != 0);
    for (const ArgumentIs& condition : row.conditions) {
      EXPECT_GE(condition.argument, 0);
      EXPECT_LE(condition.argument, 5);
      EXPECT_EQ(condition.value & ~condition.mask, 0u);
    }
  }
}

TEST(CallTableTest, RowsOfOneCallAreOfOneMind) {
  std::map<int, const CallRow*> first;
  for (const CallRow& row : CallTable()) {
    const auto [it, added] = first.emplace(row.number, &row);
    if (added) continue;
    SCOPED_TRACE(CallName(row.number));
    EXPECT_EQ(it->second->handler, row.handler);
    EXPECT_EQ(it->second->disposition, row.disposition);
    // What counts only where runs repeat comes on top of what is trapped in all simulated time.
    if (row.mode != CallMode::kRepeatable) EXPECT_EQ(it->second->mode, row.mode);
    // Or it would never be looked at.
    EXPECT_FALSE(it->second->conditions.empty());
    EXPECT_FALSE(row.conditions.empty());
  }
}

TEST(CallTableTest, HandlersAreFoundByNumber) {
  EXPECT_EQ(HandlerOf(SYS_openat), CallHandler::kPath);
  EXPECT_EQ(HandlerOf(SYS_ioctl), CallHandler::kDevice);
  EXPECT_EQ(HandlerOf(SYS_getpid), CallHandler::kNone);
  EXPECT_EQ(HandlerOf(-1), CallHandler::kNone);
  EXPECT_EQ(HandlerOf(100000), CallHandler::kNone);
}

TEST(CallTableTest, NamesAreTheKernels) {
  EXPECT_EQ(CallName(SYS_clock_gettime), "clock_gettime");
  EXPECT_EQ(CallName(462), "mseal");
}

TEST(CallTableTest, TheDocumentIsMadeFromIt) {
  std::ifstream file("docs/system_calls.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), DescribeCallTable())
      << "bazel run //trap/linux:describe_calls > docs/system_calls.md";
}

}  // namespace
}  // namespace phantora
