#include "client/cli/unknown_words.h"

#include <sstream>

#include "client/cli/cli_test_util.h"
#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ErrorOf(std::vector<const char*> args) {
  const CliOutcome outcome = Invoke(std::move(args));
  EXPECT_EQ(outcome.code, 2);
  return outcome.err;
}

TEST(NearestWordTest, OnlyWordsThatAreNear) {
  const std::vector<std::string> known = {"--reference", "--candidate", "--out", "--tp"};
  EXPECT_EQ(NearestWord("--refrence", known), "--reference");
  EXPECT_EQ(NearestWord("--refernece", known), "--reference");
  EXPECT_EQ(NearestWord("-reference", known), "--reference");
  EXPECT_EQ(NearestWord("--output", known), "--out");
  EXPECT_EQ(NearestWord("--out-dir", known), "--out");
  EXPECT_EQ(NearestWord("--cand", known), "--candidate");
  EXPECT_EQ(NearestWord("--otu", known), "--out");
  EXPECT_EQ(NearestWord("--batch", known), "");
}

TEST(UnknownWordsTest, AnUnknownOptionIsNamedBeforeWhatIsMissing) {
  const std::string error = ErrorOf({"score", "--refrence", "m.gguf", "--suite", "s"});
  EXPECT_THAT(error, HasSubstr("there is no option --refrence; did you mean --reference?"));
  EXPECT_THAT(error, HasSubstr("see assay score --help"));
  EXPECT_THAT(error, Not(HasSubstr("required")));
  EXPECT_THAT(ErrorOf({"verify", "x", "--frobnicate=3"}),
              HasSubstr("there is no option --frobnicate; see assay verify --help"));
}

TEST(UnknownWordsTest, AnUnknownCommandIsNamed) {
  EXPECT_THAT(ErrorOf({"scroe", "--out", "x"}), HasSubstr("there is no command scroe"));
  EXPECT_THAT(ErrorOf({"--bogus", "version"}), HasSubstr("there is no option --bogus"));
  EXPECT_THAT(ErrorOf({"scroe"}), HasSubstr("there is no command scroe; did you mean score?"));
  EXPECT_THAT(ErrorOf({"runs", "shwo", "1a2b"}),
              HasSubstr("there is no command shwo; did you mean show?; see assay runs --help"));
}

TEST(UnknownWordsTest, WordsTooManyAreNamed) {
  EXPECT_THAT(ErrorOf({"verify", "a", "b"}), HasSubstr("\"b\" is one argument too many"));
}

TEST(UnknownWordsTest, WhatIsMissingIsStillSaid) {
  EXPECT_THAT(ErrorOf({"verify"}), HasSubstr("PATH is required"));
}

// Calls `visit` with the full name of every command.
void ForEachCommand(const CLI::App& app, const std::string& name,
                    const std::function<void(const CLI::App&, const std::string&)>& visit) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    visit(*sub, name + " " + sub->get_name());
    ForEachCommand(*sub, name + " " + sub->get_name(), visit);
  }
}

TEST(HelpTest, EveryCommandHasExamplesOfItself) {
  std::ostringstream out, err;
  CliContext context(out, err, false);
  CLI::App app("test", "assay");
  app.footer("Examples:\n  assay of the program\n");
  AddAllCommands(app, context);
  int commands = 0;
  ForEachCommand(app, "assay", [&](const CLI::App& command, const std::string& name) {
    ++commands;
    std::istringstream lines(command.get_footer());
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "Examples:") << name;
    int examples = 0;
    bool continued = false;
    while (std::getline(lines, line)) {
      if (!continued) {
        ++examples;
        EXPECT_THAT(line + " ", ::testing::StartsWith("  " + name + " "));
      }
      continued = !line.empty() && line.back() == '\\';
    }
    EXPECT_GT(examples, 0) << name;
  });
  EXPECT_GT(commands, 20);
}

}  // namespace
}  // namespace assay
