#include "client/cli/run_display.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json Progress(const std::string& phase, const std::string& subject, int done, int total) {
  return {{"kind", "PROGRESS"},
          {"progress",
           {{"phase", phase},
            {"subject", subject},
            {"units_done", 0},
            {"units_total", 0},
            {"tokens_done", done},
            {"tokens_total", total}}}};
}

TEST(RunDisplayTest, OneLinePerPhaseSummedOverSubjects) {
  std::ostringstream out;
  ProgressPrinter printer(out, false, false);
  RunDisplay display(&printer);
  display.OnEvent(Progress("capture", "a", 10, 100));
  display.OnEvent(Progress("capture", "b", 20, 100));
  display.OnEvent(Progress("replay", "", 5, 100));  // overlaps: waits for its turn
  EXPECT_THAT(out.str(), Not(HasSubstr("compare distributions")));
  display.OnEvent(Progress("capture", "a", 100, 100));
  display.OnEvent(Progress("capture", "b", 100, 100));
  EXPECT_THAT(out.str(), HasSubstr("capture hidden states        200/200 tokens"));
  EXPECT_THAT(out.str(), HasSubstr("compare distributions"));
  display.OnEvent(Progress("replay", "", 100, 100));
  display.End();
  EXPECT_THAT(out.str(), HasSubstr("compare distributions        100/100 tokens"));
}

TEST(RunDisplayTest, EndsOfCandidatesAreToldOnce) {
  std::ostringstream out;
  ProgressPrinter printer(out, false, false);
  RunDisplay display(&printer);
  const Json event = {
      {"kind", "CANDIDATE"},
      {"run",
       {{"candidates",
         {{{"label", "int4"}, {"state", "SEALED"}, {"receipt", "receipts/x"}, {"error", nullptr}},
          {{"label", "bad"},
           {"state", "FAILED"},
           {"error", {{"reason", "NON_FINITE_INPUT"}, {"message", "row 3"}}}}}}}}};
  display.OnEvent(event);
  display.OnEvent(event);
  EXPECT_EQ(out.str(),
            "  int4: sealed, receipt receipts/x\n  bad: failed [NON_FINITE_INPUT]: row 3\n");
}

}  // namespace
}  // namespace assay
