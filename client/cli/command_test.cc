#include "client/cli/command.h"

#include <sstream>

#include "client/cli/cli_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(RunCliTest, HelpGoesToStdoutAndSucceeds) {
  const CliOutcome outcome = Invoke({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("version"));
  EXPECT_EQ(outcome.err, "");
}

TEST(RunCliTest, HelpOfACommandNamesWhatWasTyped) {
  EXPECT_THAT(Invoke({"version", "--help"}).out, HasSubstr("Usage: assay version "));
  EXPECT_THAT(Invoke({"--help"}).out, HasSubstr("Usage: assay "));
}

TEST(RunCliTest, NoCommandIsBadUsage) {
  const CliOutcome outcome = Invoke({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("assay: error [BAD_USAGE]: "));
}

TEST(RunCliTest, UnknownOptionWithJsonPrintsOneDocument) {
  const CliOutcome outcome = Invoke({"version", "--nonsense", "--json"});
  EXPECT_EQ(outcome.code, 2);
  auto document = ParseJson(outcome.out, "stdout");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ((*document)["error"]["reason"], "BAD_USAGE");
  EXPECT_EQ((*document)["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_THAT((*document)["error"]["message"].get<std::string>(),
              HasSubstr("assay version --help"));
}

TEST(RunCliTest, VersionAsJson) {
  const CliOutcome outcome = Invoke({"version", "--json"});
  EXPECT_EQ(outcome.code, 0);
  auto document = ParseJson(outcome.out, "stdout");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ((*document)["program"], "assay");
}

TEST(ExitCodeTest, ByClass) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  // What was typed wrong is bad usage, whoever notices it and with whatever code.
  for (const char* reason : {"LABEL_DUPLICATE", "LABEL_UNKNOWN", "TRANSFORM_INVALID",
                             "POLICY_UNKNOWN", "REPLAY_POLICY_UNKNOWN"}) {
    EXPECT_EQ(ExitCodeOf(InvalidError(reason, "x")), 2) << reason;
    EXPECT_EQ(ExitCodeOf(Annotate(InternalError(reason, "x"), "y")), 2) << reason;
  }
  EXPECT_EQ(ExitCodeOf(UnavailableError("OUT_BUSY", "x")), 3);
  EXPECT_EQ(ExitCodeOf(PreconditionError("OUT_BUSY", "x")), 3);
  EXPECT_EQ(ExitCodeOf(InvalidError("A", "x")), 3);
  EXPECT_EQ(ExitCodeOf(NotFoundError("A", "x")), 3);
  EXPECT_EQ(ExitCodeOf(PreconditionError("A", "x")), 3);
  EXPECT_EQ(ExitCodeOf(DataLossError("A", "x")), 3);
  EXPECT_EQ(ExitCodeOf(UnavailableError("A", "x")), 1);
  EXPECT_EQ(ExitCodeOf(ExhaustedError("DISK_FULL", "x")), 1);
  EXPECT_EQ(ExitCodeOf(InternalError("A", "x")), 1);
  EXPECT_EQ(ExitCodeOf(Error(absl::StatusCode::kCancelled, "INTERRUPTED", "x")), 130);
}

TEST(CliContextTest, ErrorsAreRenderedOnBothStreams) {
  std::ostringstream out, err;
  CliContext context(out, err, false);
  context.json = true;
  context.set_action([]() -> absl::StatusOr<int> {
    return NotFoundError("FILE_MISSING", "no file x.gguf; check the path");
  });
  EXPECT_EQ(context.Run(), 3);
  EXPECT_EQ(err.str(), "assay: error [FILE_MISSING]: no file x.gguf; check the path\n");
  auto document = ParseJson(out.str(), "stdout");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ((*document)["error"]["reason"], "FILE_MISSING");
  EXPECT_EQ((*document)["error"]["code"], "NOT_FOUND");
}

TEST(CliContextTest, ThrownExceptionIsAnErrorNotAnAbort) {
  std::ostringstream out, err;
  CliContext context(out, err, false);
  context.set_action([]() -> absl::StatusOr<int> { throw std::runtime_error("boom"); });
  EXPECT_EQ(context.Run(), 1);
  EXPECT_THAT(err.str(), HasSubstr("[UNEXPECTED_EXCEPTION]: boom"));
}

}  // namespace
}  // namespace assay
