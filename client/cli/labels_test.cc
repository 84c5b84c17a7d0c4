#include "client/cli/labels.h"

#include "client/cli/exit_codes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

LabelledModel Parse(const std::string& text) {
  auto parsed = ParseLabelledModel(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? *parsed : LabelledModel();
}

TEST(LabelsTest, DefaultIsTheFileName) {
  EXPECT_EQ(Parse("/models/m.gguf").label, "m.gguf");
  EXPECT_EQ(Parse("/models/folder/").label, "folder");
  EXPECT_EQ(Parse("/models/a model (1).gguf").label, "a-model--1-.gguf");
}

TEST(LabelsTest, TransformsMakeNamesOfTheirOwn) {
  const LabelledModel int4 = Parse("/models/m.gguf@rtn:bits=4,group=32");
  EXPECT_EQ(int4.label, "m-rtn-bits4-group32");
  EXPECT_EQ(int4.model.path, "/models/m.gguf");
  EXPECT_EQ(int4.model.transform, "rtn:bits=4,group=32");
  EXPECT_EQ(Parse("/models/m.gguf@rtn:bits=8,group=channel").label, "m-rtn-bits8-groupchannel");
}

TEST(LabelsTest, AnEqualsSignInsideThePathIsNoLabel) {
  const LabelledModel model = Parse("./a=b/m.gguf");
  EXPECT_EQ(model.model.path, "./a=b/m.gguf");
  EXPECT_EQ(model.label, "m.gguf");
}

TEST(LabelsTest, GivenLabels) {
  const LabelledModel model = Parse("int4=m.gguf@rtn:bits=4,group=32");
  EXPECT_EQ(model.label, "int4");
  EXPECT_EQ(model.model.path, "m.gguf");
  EXPECT_EQ(model.model.transform, "rtn:bits=4,group=32");
}

TEST(LabelsTest, RegisteredModels) {
  const LabelledModel model = Parse("models/base@rtn:bits=4,group=32");
  EXPECT_EQ(model.model.remote_name, "base");
  EXPECT_EQ(model.model.path, "");
  EXPECT_EQ(model.label, "base-rtn-bits4-group32");
}

TEST(LabelsTest, WrongLabelsAreBadUsage) {
  for (const char* text : {"a b=m.gguf", "a b=m.gguf@awq", "a/b=/dev/null", "a@b=/dev/null@awq",
                           "=m.gguf", "..=m.gguf", "summary.json=m.gguf"}) {
    const auto parsed = ParseLabelledModel(text);
    EXPECT_EQ(ReasonOf(parsed.status()), "LABEL_INVALID") << text;
    EXPECT_EQ(ExitCodeOf(parsed.status()), kExitBadUsage) << text;
  }
}

TEST(LabelsTest, DuplicatesAreRefusedAndNamed) {
  const auto candidates = ParseCandidates({"/a/m.gguf", "x=/b/n.gguf", "/c/m.gguf"});
  EXPECT_EQ(ReasonOf(candidates.status()), "LABEL_DUPLICATE");
  EXPECT_EQ(ExitCodeOf(candidates.status()), kExitBadUsage);
  EXPECT_THAT(MessageOf(candidates.status()), HasSubstr("/a/m.gguf"));
  EXPECT_THAT(MessageOf(candidates.status()), HasSubstr("/c/m.gguf"));
  EXPECT_TRUE(ParseCandidates({"/a/m.gguf", "y=/c/m.gguf"}).ok());
}

}  // namespace
}  // namespace assay
