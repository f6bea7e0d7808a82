#include "tools/run/status_line.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "trap/log.h"

namespace phantora {
namespace {

TEST(StatusLineTest, SaysSpeedAndRateSinceThePast) {
  const RunProgress before{VirtualSpan::Microseconds(1'000'000), 1, 100};
  const RunProgress now{VirtualSpan::Microseconds(2'000'000), 2, 1100, uint64_t{3} << 29};
  EXPECT_EQ(FormatProgress(before, now, 2.0),
            "2.000 s simulated, 2 ranks, 0.5x real time, 500 kernels/s, 1.5 GiB");
  EXPECT_EQ(FormatProgress(now, now, 0),
            "2.000 s simulated, 2 ranks, 0x real time, 0 kernels/s, 1.5 GiB");
}

TEST(StatusLineTest, NeedsATerminal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(StatusLine::Possible(ends[1]));
}

// In a child that leads the terminal's session, as a shell's command would.
TEST(StatusLineTest, IsTakenAwayBeforeMessagesAndAtTheEnd) {
  int terminal;
  const winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    if (!StatusLine::Possible(STDERR_FILENO)) _exit(1);
    StatusLine line(STDERR_FILENO);
    while (!line.Wanted()) continue;
    line.Set({VirtualSpan(), 1, 0});
    usleep(700'000);  // until it is drawn
    LogWarning("message");
    line.Stop();
    LogWarning("after");
    _exit(0);
  }
  std::string shown;
  char buffer[1000];
  for (ssize_t got; (got = read(terminal, buffer, sizeof buffer)) > 0;) shown.append(buffer, got);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const std::string text = "0.000 s simulated, 1 rank, 0x real time, 0 kernels/s, 0.0 GiB";
  EXPECT_EQ(shown,
            "\x1b"
            "7\x1b[" +
                std::to_string(100 - text.size() - 1) + "G " + text +
                "\x1b[K\x1b"
                "8\x1b[Kphantora: warning: message\r\n\x1b[K"
                "phantora: warning: after\r\n");
}

}  // namespace
}  // namespace phantora
