#include "tools/observe/served_requests.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

constexpr char kWritten[] = R"({
  "schema": "phantora load", "schema_version": 1, "options": {"closed": 2}, "server": ["vllm"],
  "summary": {"requests": 2, "failed": 1, "seconds": 1.5, "ttft": {"mean_s": 0.25, "p99_s": 0.5, "other": 1},
              "server": {"running": {"mean": 1.5, "most": 2}, "queue": {"mean_s": 0.01}, "preemptions": 3},
              "goodput": {"share": 0.5, "requests_per_s": 0.7, "slo_s": {"ttft": 0.3}}},
  "requests": [{"sent_s": 0, "ttft_s": 0.25, "tpot_s": null, "error": ""},
               {"sent_s": 1, "ttft_s": "late", "error": "it ended", "more": [[]]}],
  "server_samples": [{"at_s": 0.5, "running": 2, "kv_use": 0.125}]})";

TEST(ServedRequestsTest, KeepsWhatTheReportNames) {
  const auto kept = ServedRequests(kWritten);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, nlohmann::ordered_json::parse(R"({
    "summary": {"requests": 2, "failed": 1, "seconds": 1.5, "ttft": {"mean_s": 0.25, "p99_s": 0.5},
                "server_running": {"mean": 1.5, "most": 2}, "server_queue": {"mean_s": 0.01}, "preemptions": 3,
                "goodput": {"share": 0.5, "slo_s": {"ttft": 0.3}, "requests_per_s": 0.7}},
    "all": 2,
    "requests": [{"sent_s": 0, "ttft_s": 0.25}, {"sent_s": 1, "error": "it ended"}],
    "server_samples": [{"at_s": 0.5, "running": 2, "kv_use": 0.125}]})"));
}

TEST(ServedRequestsTest, AnythingElseIsAnError) {
  const std::string deep(1 << 20, '[');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"), deep,
        deep + std::string(1 << 20, ']'),
        std::string(R"({"schema": "phantora load", "schema_version": 2})"),
        std::string(R"({"schema": "phantora load", "schema_version": 1, "requests": {}})")}) {
    EXPECT_FALSE(ServedRequests(text).ok()) << text.substr(0, 80);
  }
}

TEST(ServedRequestsTest, ManyAreCutOff) {
  std::string list;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&list, i == 0 ? "" : ",", "{\"sent_s\": ", i, "}");
  const auto kept = ServedRequests(
      absl::StrCat(R"({"schema": "phantora load", "schema_version": 1, "requests": [)", list,
                   R"(], "server_samples": [)", list, "]}"));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ((*kept)["all"], 5000);
  EXPECT_EQ((*kept)["requests"].size(), 4096u);
  EXPECT_EQ((*kept)["server_samples"].size(), 4096u);
}

TEST(ServedRequestsTest, NothingWithoutAFileAndNoWaitForAPipe) {
  const std::string directory = testing::TempDir();
  const std::string path = absl::StrCat(directory, "/", kRequestsFile);
  unlink(path.c_str());
  auto kept = ReadServedRequests(directory);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_FALSE(kept->has_value());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(ReadServedRequests(directory).ok());
  unlink(path.c_str());
  ASSERT_EQ(symlink("/dev/zero", path.c_str()), 0);
  EXPECT_FALSE(ReadServedRequests(directory).ok());
  unlink(path.c_str());
  std::ofstream(path) << kWritten;
  kept = ReadServedRequests(directory);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_TRUE(kept->has_value());
  EXPECT_EQ((**kept)["requests"].size(), 2u);
  unlink(path.c_str());
}

}  // namespace
}  // namespace phantora
