#include "tools/run/host_files.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace phantora {
namespace {

class HostFilesTest : public testing::Test {
 protected:
  HostFilesTest() {
    job_.cluster.host.cores = 112;
    job_.cluster.host.memory_gib = 2048;
    job_.hosts = {"node-0", "node-1"};
    job_.addresses = {"127.77.0.1", "127.77.0.2"};
    AddHostFiles(job_, 1, &files_);
  }
  std::string Text(const std::string& path) {
    const auto found = files_.Find(path);
    EXPECT_EQ(found.verdict, SyntheticFiles::Verdict::kSynthetic) << path;
    return found.node == nullptr ? "" : found.node->text;
  }
  // "key : value" of each block of a file.
  static std::vector<std::map<std::string, std::string>> Blocks(const std::string& text) {
    std::vector<std::map<std::string, std::string>> blocks(1);
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(line, absl::MaxSplits(':', 1));
      if (line.empty() && !blocks.back().empty()) blocks.emplace_back();
      if (line.empty()) continue;
      blocks.back()[std::string(absl::StripAsciiWhitespace(parts.first))] =
          std::string(absl::StripAsciiWhitespace(parts.second));
    }
    if (blocks.back().empty()) blocks.pop_back();
    return blocks;
  }

  Job job_;
  SyntheticFiles files_;
};

TEST_F(HostFilesTest, EachHostHasItsNameAndKnowsAll) {
  EXPECT_EQ(Text("/etc/hostname"), "node-1\n");
  EXPECT_EQ(Text("/proc/sys/kernel/hostname"), "node-1\n");
  const std::string hosts = Text("/etc/hosts");
  EXPECT_TRUE(absl::StrContains(hosts, "\n127.77.0.1 node-0\n")) << hosts;
  EXPECT_TRUE(absl::EndsWith(hosts, "127.77.0.2 node-1\n"));
  EXPECT_TRUE(absl::StrContains(hosts, "localhost")) << "the machine's own names stay";
}

TEST_F(HostFilesTest, MemoryIsTheHosts) {
  const auto memory = Blocks(Text("/proc/meminfo"));
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].at("MemTotal"), "2147483648 kB");
  EXPECT_EQ(memory[0].at("SwapTotal"), "0 kB");
  int64_t free = 0;
  EXPECT_TRUE(absl::SimpleAtoi(memory[0].at("MemAvailable").substr(0, 10), &free));
  EXPECT_GT(free, int64_t{2147483648} * 9 / 10);
  EXPECT_TRUE(memory[0].contains("HugePages_Total")) << "what is not about it is the machine's";
}

TEST_F(HostFilesTest, ProcessorsAreTwoSocketsOfCores) {
  const auto processors = Blocks(Text("/proc/cpuinfo"));
  ASSERT_EQ(processors.size(), 112u);
  std::set<std::string> numbers, places;
  for (const auto& processor : processors) {
    numbers.insert(processor.at("processor"));
    places.insert(processor.at("physical id") + "/" + processor.at("core id"));
    EXPECT_EQ(processor.at("cpu cores"), "56");
    EXPECT_EQ(processor.at("model name"), processors[0].at("model name"));
  }
  EXPECT_EQ(numbers.size(), 112u);
  EXPECT_EQ(places.size(), 112u);
  EXPECT_EQ(processors[111].at("physical id"), "1");
  EXPECT_EQ(Text("/sys/devices/system/cpu/online"), "0-111\n");
}

TEST_F(HostFilesTest, OneCore) {
  job_.cluster.host.cores = 1;
  SyntheticFiles files;
  AddHostFiles(job_, 0, &files);
  EXPECT_EQ(files.Find("/sys/devices/system/cpu/possible").node->text, "0\n");
  EXPECT_EQ(Blocks(files.Find("/proc/cpuinfo").node->text).size(), 1u);
}

}  // namespace
}  // namespace phantora
