#include "trap/launch/python_command.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phantora {
namespace {

using Words = std::vector<std::string>;

TEST(PythonCommandTest, AFile) {
  const auto parsed = PythonCommand::Parse(
      {"/opt/venv/bin/python3.11", "-u", "-W", "ignore", "-Xdev", "train.py", "-m", "model"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->interpreter,
            (Words{"/opt/venv/bin/python3.11", "-u", "-W", "ignore", "-Xdev"}));
  EXPECT_EQ(parsed->kind, "file");
  EXPECT_EQ(parsed->program, "train.py");
  EXPECT_EQ(parsed->arguments, (Words{"-m", "model"}));
}

TEST(PythonCommandTest, AModuleOrCode) {
  const auto module = PythonCommand::Parse({"python", "-Iu", "-m", "package.train", "--lr", "1"});
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->kind, "module");
  EXPECT_EQ(module->interpreter, (Words{"python", "-Iu"}));
  EXPECT_EQ(module->program, "package.train");
  EXPECT_EQ(module->arguments, (Words{"--lr", "1"}));
  const auto code = PythonCommand::Parse({"python3", "-c", "print(1)"});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(code->kind, "code");
  EXPECT_EQ(code->program, "print(1)");
  EXPECT_TRUE(code->arguments.empty());
}

TEST(PythonCommandTest, WhatIsNone) {
  for (const Words& command :
       {Words{}, Words{"torchrun", "train.py"}, Words{"pythonic", "train.py"}, Words{"python3"},
        Words{"python3", "-u"}, Words{"python3", "-m"}, Words{"python3", "-"},
        Words{"python3", "--check-hash-based-pycs", "never", "train.py"},
        Words{"python3", "-um", "train"}, Words{"sh", "-c", "python3 train.py"}}) {
    EXPECT_FALSE(PythonCommand::Parse(command).ok()) << testing::PrintToString(command);
  }
}

}  // namespace
}  // namespace phantora
