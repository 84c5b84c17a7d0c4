#include "client/lib/kept_labels.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/report/report_test_data.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KeptLabels : public ::testing::Test {
 protected:
  KeptLabels() {
    std::string pattern = ::testing::TempDir() + "keptXXXXXX";
    out_ = mkdtemp(pattern.data());
    EXPECT_TRUE(EnsureDirectory(out_ + "/int4").ok());
    const std::string bytes = Must(ReportBytes(Must(BuildReport(SmolInputs("int4-g32")))));
    EXPECT_TRUE(WriteFile(out_ + "/int4/report.json", bytes).ok());
  }
  ~KeptLabels() override { RemoveTree(out_).IgnoreError(); }

  std::string out_;
  const ScoredPart same_ = {"all", 0, 0,
                            static_cast<int64_t>(SmolInputs("int4-g32").contexts.size())};
  const std::string candidate_ = TestOperand("int4-g32").model_identity;
  const std::string reference_ = TestOperand("reference").model_identity;
};

TEST_F(KeptLabels, TheSameModelsOrUnknownOnesAreNoChange) {
  EXPECT_THAT(FindChangedLabels(out_, {{"int4", candidate_, reference_}}, same_), IsEmpty());
  EXPECT_THAT(FindChangedLabels(out_, {{"int4", "", ""}}, same_), IsEmpty());
  EXPECT_THAT(FindChangedLabels(out_, {{"int8", Sha256Hex("x"), reference_}}, same_), IsEmpty());
  EXPECT_TRUE(RefuseChangedLabels(out_, {}).ok());
}

TEST_F(KeptLabels, AnotherModelIsRefusedWithBothDigests) {
  const std::string other = Sha256Hex("another");
  const auto changed = FindChangedLabels(out_, {{"int4", other, other}}, same_);
  ASSERT_EQ(changed.size(), 1u);
  const absl::Status status = RefuseChangedLabels(out_, changed);
  EXPECT_EQ(ReasonOf(status), "LABEL_CHANGED");
  for (const std::string& text : {candidate_, reference_, other, std::string("--replace")}) {
    EXPECT_THAT(MessageOf(status), HasSubstr(text));
  }
}

TEST_F(KeptLabels, AQuickLookDoesNotTakeThePlaceOfAWholeResult) {
  const std::vector<LabelledIdentity> wanted = {{"int4", candidate_, reference_}};
  for (const ScoredPart& part : {ScoredPart{"all", 0, 2, 2}, ScoredPart{"sentinel", 0, 0, 1},
                                 ScoredPart{"all", 8, 0, same_.contexts}}) {
    const auto changed = FindChangedLabels(out_, wanted, part);
    ASSERT_EQ(changed.size(), 1u);
    EXPECT_THAT(changed[0].sentence, HasSubstr("(filter " + part.filter));
    EXPECT_EQ(ReasonOf(RefuseChangedLabels(out_, changed)), "LABEL_CHANGED");
  }
  // The other way round nothing is lost that the new result does not say better.
  const ScoredPart more = {"sentinel", 0, 0, same_.contexts + 1};
  EXPECT_THAT(FindChangedLabels(out_, wanted, more), IsEmpty());
}

TEST_F(KeptLabels, AReplacedResultIsKeptAsideEveryTime) {
  const auto changed = FindChangedLabels(out_, {{"int4", Sha256Hex("another"), ""}}, same_);
  const std::string before = Must(ReadFile(out_ + "/int4/report.json", 1 << 24));
  for (int round = 0; round < 2; ++round) {
    const auto kept = Must(KeepReplaced(out_, changed));
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_EQ(Must(ReadFile(kept[0] + "/report.json", 1 << 24)), before);
    EXPECT_FALSE(IsDirectory(out_ + "/int4"));
    ASSERT_TRUE(EnsureDirectory(out_ + "/int4").ok());
    ASSERT_TRUE(WriteFile(out_ + "/int4/report.json", before).ok());
  }
  EXPECT_EQ(Must(ListDirectory(out_ + "/replaced")).size(), 2u);
}

}  // namespace
}  // namespace assay
