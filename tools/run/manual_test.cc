#include "tools/run/manual.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/run/run_options.h"

namespace phantora {
namespace {

std::string Printed(const std::vector<std::string>& arguments) {
  const RunRequest request = ParseRunOptions(arguments);
  EXPECT_EQ(request.exit_status, 0) << request.errors;
  return request.output;
}

TEST(ManualTest, HelpFitsOnAScreen) {
  const std::vector<std::string> lines = absl::StrSplit(Printed({"--help"}), '\n');
  EXPECT_LE(lines.size(), 50u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_EQ(Printed({"-h"}), Printed({"help"}));
}

TEST(ManualTest, HelpNamesOptionsThatThereAre) {
  const std::string all = Printed({"--help-all"});
  for (const absl::string_view option : ShortHelpOptions()) {
    EXPECT_TRUE(absl::StrContains(all, std::string(option))) << option;
  }
}

TEST(ManualTest, EveryOwnCommandIsOne) {
  for (const OwnCommand& command : OwnCommands()) {
    if (command.name == "setup") continue;  // takes any number
    const RunRequest request = ParseRunOptions({std::string(command.name), "a", "b", "c"});
    EXPECT_TRUE(absl::StrContains(request.errors, absl::StrCat("'", command.name, "' takes ")))
        << request.errors;
  }
}

TEST(ManualTest, ThePageHasEveryOption) {
  const std::string page = Printed({"manual"});
  EXPECT_TRUE(absl::StartsWith(page, ".TH PHANTORA"));
  const std::vector<std::string> lines = absl::StrSplit(Printed({"--help-all"}), '\n');
  int options = 0;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (!absl::StartsWith(line, "  -") || words.empty()) continue;
    const std::vector<std::string> names = absl::StrSplit(words[0], ',');
    const std::string roff = absl::StrReplaceAll(names.back(), {{"-", "\\-"}});
    EXPECT_TRUE(absl::StrContains(page, roff)) << names.back();
    ++options;
  }
  EXPECT_GT(options, 40);
}

TEST(ManualTest, ShellsHaveScripts) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = Printed({"completion", shell});
    for (const char* word : {"ranks-per-host", "measured learned fixed zero real", "doctor"}) {
      EXPECT_TRUE(absl::StrContains(script, word)) << shell << " " << word;
    }
  }
  EXPECT_TRUE(
      absl::StrContains(ParseRunOptions({"completion", "sh"}).errors, "bash, zsh and fish"));
}

}  // namespace
}  // namespace phantora
