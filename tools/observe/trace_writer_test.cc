#include "tools/observe/trace_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tools/observe/timeline_trace.h"

namespace phantora {
namespace {

VirtualSpan Us(int64_t us) { return VirtualSpan::Microseconds(us); }

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class TraceWriterTest : public testing::Test {
 protected:
  std::unique_ptr<TraceWriter> Open() { return *TraceWriter::Open(path_); }
  nlohmann::json Parsed() { return nlohmann::json::parse(Read(path_)); }
  const std::string path_ = testing::TempDir() + "/trace.json";
};

TEST_F(TraceWriterTest, AnEmptyTraceIsJson) {
  EXPECT_TRUE(Open()->Close().ok());
  EXPECT_EQ(Parsed(), nlohmann::json::array());
}

TEST_F(TraceWriterTest, EscapesNames) {
  auto writer = Open();
  writer->NameProcess(1, "a \"quoted\"\nname \xff", 0);
  writer->Slice(1, 2, Us(1), VirtualSpan::Picoseconds(2'500'999), "kernel", "k\\", "\"a\":1");
  EXPECT_TRUE(writer->Close().ok());
  const auto events = Parsed();
  EXPECT_EQ(events[0]["args"]["name"], "a \"quoted\"\nname \xef\xbf\xbd");
  EXPECT_EQ(events[2]["name"], "k\\");
  EXPECT_EQ(events[2]["args"]["a"], 1);
  EXPECT_DOUBLE_EQ(events[2]["ts"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(events[2]["dur"].get<double>(), 1.5);
}

TEST_F(TraceWriterTest, OnlyWholeEventsReachTheFileBeforeTheEnd) {
  auto writer = Open();
  for (int i = 0; i < 2000; ++i) writer->Counter(1, "memory", "bytes", Us(i), i);
  const std::string text = Read(path_);
  EXPECT_GT(text.size(), 10000u);
  EXPECT_EQ(text.back(), '}');
  EXPECT_GT(nlohmann::json::parse(text + "]").size(), 100u);
}

TEST_F(TraceWriterTest, TellsWhatCannotBeWritten) {
  EXPECT_FALSE(TraceWriter::Open("/nowhere/trace.json").ok());
  auto full = *TraceWriter::Open("/dev/full");
  full->Counter(1, "memory", "bytes", Us(0), 1);
  EXPECT_FALSE(full->Close().ok());
}

TEST_F(TraceWriterTest, SlicesOfATrackNeverOverlap) {
  auto writer = Open();
  TimelineTrace trace(writer.get(), 0, "rank 0");
  // In order of their ends; the second overlaps the first.
  trace.Work(0, 77, Us(0), Us(10), "kernel", "a", "");
  trace.Work(0, 77, Us(5), Us(15), "kernel", "b", "");
  trace.Work(0, 77, Us(10), Us(20), "kernel", "c", "");
  trace.Work(0, 99, Us(0), Us(30), "kernel", "d", "");
  trace.Wait(Us(0), Us(20));
  trace.Wait(Us(0), Us(30));
  EXPECT_TRUE(writer->Close().ok());
  std::map<int, double> ends;
  std::set<std::string> names;
  for (const auto& event : Parsed()) {
    if (event["name"] == "thread_name") names.insert(event["args"]["name"].get<std::string>());
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["ts"].get<double>(), ends[event["tid"].get<int>()]);
    ends[event["tid"].get<int>()] = event["ts"].get<double>() + event["dur"].get<double>();
    EXPECT_EQ(event["pid"], 1'000'000);
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"GPU 0 channel 1", "GPU 0 channel 1, lane 2", "GPU 0 channel 2",
                                   "host waits for GPUs", "host waits for GPUs, lane 2"}));
}

}  // namespace
}  // namespace phantora
