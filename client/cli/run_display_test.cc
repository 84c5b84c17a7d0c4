#include "client/cli/run_display.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json Progress(const std::string& phase, const std::string& subject, int done, int total,
              int units_done = 0, int units_total = 0) {
  return {{"kind", "PROGRESS"},
          {"progress",
           {{"phase", phase},
            {"subject", subject},
            {"units_done", units_done},
            {"units_total", units_total},
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

class SteppedClock : public Clock {
 public:
  int64_t UnixMillis() override { return now; }
  int64_t MonotonicMillis() override { return now; }
  int64_t now = 0;
};

TEST(RunDisplayTest, NoTimeIsGuessedBeforeTwoUnitsHaveEnded) {
  std::ostringstream out;
  SteppedClock clock;
  ProgressPrinter printer(out, true, false, &clock);
  RunDisplay display(&printer);
  const auto after = [&](int done, int units_done, int units_total) {
    out.str("");
    clock.now += 1000;
    display.OnEvent(Progress("capture", "", done, 1000, units_done, units_total));
    return out.str();
  };
  after(0, 0, 10);
  EXPECT_THAT(after(1, 0, 10), HasSubstr("1/1000 tokens  estimating"));
  EXPECT_THAT(after(150, 1, 10), HasSubstr("150/1000 tokens  estimating"));
  EXPECT_THAT(after(200, 2, 10), HasSubstr("200/1000 tokens  67/s  12 s left"));
}

TEST(RunDisplayTest, AShortPhaseIsGuessedAfterAThird) {
  std::ostringstream out;
  SteppedClock clock;
  ProgressPrinter printer(out, true, false, &clock);
  RunDisplay display(&printer);
  display.OnEvent(Progress("replay", "", 0, 100, 0, 1));
  clock.now += 1000;
  display.OnEvent(Progress("replay", "", 10, 100, 0, 1));
  EXPECT_THAT(out.str(), Not(HasSubstr("left")));
  clock.now += 4000;
  display.OnEvent(Progress("replay", "", 50, 100, 0, 1));
  EXPECT_THAT(out.str(), HasSubstr("50/100 tokens  10/s  5 s left"));
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
