#include "client/lib/child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class ChildProcessTest : public ::testing::Test {
 protected:
  ChildProcessTest() {
    std::string pattern = ::testing::TempDir() + "childXXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~ChildProcessTest() override { RemoveTree(dir_).IgnoreError(); }
  // A shell script as a program.
  std::string Script(const std::string& body) {
    const std::string path = JoinPath(dir_, "program");
    EXPECT_TRUE(WriteFile(path, "#!/bin/sh\n" + body).ok());
    chmod(path.c_str(), 0755);
    return path;
  }
  std::string log() const { return JoinPath(dir_, "log"); }
  std::string dir_;
};

TEST_F(ChildProcessTest, GetsItsArgumentsAndTheLifelineFlag) {
  auto child = ChildProcess::Start(Script("echo \"$@\"\nread line <&3\n"), {"--a", "b c"}, log());
  ASSERT_TRUE(child.ok()) << child.status();
  while (TailOf(log(), 1).empty() && (*child)->Alive()) usleep(1000);
  EXPECT_EQ(TailOf(log(), 1), "--a b c --parent-fd 3");
  EXPECT_TRUE((*child)->Alive());
}

// The pipe's read end then is descriptor 0, which the child gets anew.
TEST_F(ChildProcessTest, KeepsItsLifelineWhenStandardInputIsClosed) {
  const std::string program = Script("read line <&3\necho the parent is gone\n");
  const int saved = dup(STDIN_FILENO);
  close(STDIN_FILENO);
  auto child = ChildProcess::Start(program, {}, log());
  dup2(saved, STDIN_FILENO);
  close(saved);
  ASSERT_TRUE(child.ok()) << child.status();
  // Whoever lives on has a lifeline that is open.
  usleep(200'000);
  EXPECT_TRUE((*child)->Alive());
  EXPECT_EQ(TailOf(log(), 1), "");
}

TEST_F(ChildProcessTest, StopsOnSigterm) {
  auto child = ChildProcess::Start(Script("trap 'echo bye; exit 7' TERM\necho up\n"
                                          "while :; do sleep 0.01; done\n"),
                                   {}, log());
  ASSERT_TRUE(child.ok()) << child.status();
  while (TailOf(log(), 1).empty() && (*child)->Alive()) usleep(1000);
  (*child)->Stop(60'000);
  EXPECT_FALSE((*child)->Alive());
  EXPECT_THAT((*child)->Obituary(), HasSubstr("ended with exit code 7"));
  EXPECT_THAT((*child)->Obituary(), HasSubstr("bye"));
}

TEST_F(ChildProcessTest, IsKilledWhenItIgnoresSigterm) {
  auto child = ChildProcess::Start(Script("trap '' TERM\necho up\nwhile :; do sleep 0.01; done\n"),
                                   {}, log());
  ASSERT_TRUE(child.ok()) << child.status();
  while (TailOf(log(), 1).empty() && (*child)->Alive()) usleep(1000);
  (*child)->Stop(50);
  EXPECT_THAT((*child)->Obituary(), HasSubstr("was killed by signal 9"));
}

TEST_F(ChildProcessTest, AMissingProgramIsNamed) {
  const auto child = ChildProcess::Start(JoinPath(dir_, "nothing"), {}, log());
  EXPECT_EQ(ReasonOf(child.status()), "PROGRAM_MISSING");
  EXPECT_THAT(MessageOf(child.status()), HasSubstr("nothing"));
}

// The parent is killed with SIGKILL, so no destructor and no handler runs in it.
TEST_F(ChildProcessTest, EndsWhenItsParentIsKilled) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const std::string program = Script("read line <&3\nexit 42\n");
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    auto child = ChildProcess::Start(program, {}, log());
    const pid_t pid = child.ok() ? (*child)->pid() : -1;
    if (write(pipe_fds[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    raise(SIGKILL);
    _exit(1);
  }
  pid_t pid = -1;
  ASSERT_EQ(read(pipe_fds[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ASSERT_GT(pid, 0);
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  ASSERT_TRUE(WIFSIGNALED(status));
  // The orphan is ours now. An orphan that stays makes this wait run into the test's time limit.
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(TailTest, LastLines) {
  const std::string path = ::testing::TempDir() + "tail_test";
  ASSERT_TRUE(WriteFile(path, "one\ntwo\nthree\n").ok());
  EXPECT_EQ(TailOf(path, 1), "three");
  EXPECT_EQ(TailOf(path, 2), "two\nthree");
  EXPECT_EQ(TailOf(path, 9), "one\ntwo\nthree");
  EXPECT_EQ(TailOf(path + ".none", 1), "");
}

}  // namespace
}  // namespace assay
