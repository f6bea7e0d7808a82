#include "trap/rm/effective_user.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace phantora {
namespace {

TEST(EffectiveUserTest, IsTheUserThatAProcessRunsAs) {
  EXPECT_EQ(EffectiveUser(getpid()), geteuid());
}

TEST(EffectiveUserTest, ADeadProcessHasNone) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(EffectiveUser(child), std::nullopt);
}

TEST(EffectiveUserTest, IsTheEffectiveUserNotTheRealOne) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can take another user's place";
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready) | pipe(done), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char byte = seteuid(4242) == 0 ? 'y' : 'n';
    close(done[1]);
    if (write(ready[1], &byte, 1) == 1) (void)!read(done[0], &byte, 1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  if (byte == 'y') {
    EXPECT_EQ(EffectiveUser(child), 4242u);
  }
  for (int descriptor : {ready[0], ready[1], done[0], done[1]}) close(descriptor);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace phantora
