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
  const std::string candidate_ = TestOperand("int4-g32").model_identity;
  const std::string reference_ = TestOperand("reference").model_identity;
};

TEST_F(KeptLabels, TheSameModelsOrUnknownOnesAreNoChange) {
  EXPECT_THAT(FindChangedLabels(out_, {{"int4", candidate_, reference_}}), IsEmpty());
  EXPECT_THAT(FindChangedLabels(out_, {{"int4", "", ""}}), IsEmpty());
  EXPECT_THAT(FindChangedLabels(out_, {{"int8", Sha256Hex("x"), reference_}}), IsEmpty());
  EXPECT_TRUE(RefuseChangedLabels(out_, {}).ok());
}

TEST_F(KeptLabels, AnotherModelIsRefusedWithBothDigests) {
  const std::string other = Sha256Hex("another");
  const auto changed = FindChangedLabels(out_, {{"int4", other, other}});
  ASSERT_EQ(changed.size(), 1u);
  const absl::Status status = RefuseChangedLabels(out_, changed);
  EXPECT_EQ(ReasonOf(status), "LABEL_CHANGED");
  for (const std::string& text : {candidate_, reference_, other, std::string("--replace")}) {
    EXPECT_THAT(MessageOf(status), HasSubstr(text));
  }
}

TEST_F(KeptLabels, AReplacedResultIsKeptAsideEveryTime) {
  const auto changed = FindChangedLabels(out_, {{"int4", Sha256Hex("another"), ""}});
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
