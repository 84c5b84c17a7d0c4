#include "client/cli/progress.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FakeClock : public Clock {
 public:
  int64_t UnixMillis() override { return now; }
  int64_t MonotonicMillis() override { return now; }
  int64_t now = 1000000;
};

int Lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(ProgressTest, PlainLinesAtStartEveryIntervalAndAtEnd) {
  std::ostringstream out;
  FakeClock clock;
  ProgressPrinter progress(out, /*terminal=*/false, /*quiet=*/false, &clock);
  progress.Begin("replay", "contexts");
  EXPECT_EQ(Lines(out.str()), 1);
  for (int i = 1; i <= 14; ++i) {
    clock.now += 1000;
    progress.Update(static_cast<uint64_t>(i), 56);
  }
  EXPECT_EQ(Lines(out.str()), 1) << out.str();
  clock.now += 1000;
  progress.Update(15, 56);
  EXPECT_EQ(Lines(out.str()), 2);
  EXPECT_THAT(out.str(), HasSubstr("15/56 contexts  1.00/s  41 s left"));
  clock.now += 41000;
  progress.Update(56, 56);
  progress.End("done");
  EXPECT_THAT(out.str(), HasSubstr("56/56 contexts  1.00/s  56 s  done\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("\x1b")));
}

TEST(ProgressTest, ResumedWorkDoesNotFlatterTheRate) {
  std::ostringstream out;
  FakeClock clock;
  ProgressPrinter progress(out, false, false, &clock);
  progress.Begin("upload", "bytes", 1048576);
  clock.now += 20000;
  progress.Update(2 * 1048576, 4 * 1048576);
  EXPECT_THAT(out.str(), HasSubstr("2.0 MiB/4.0 MiB  51.2 KiB/s  40 s left"));
}

TEST(ProgressTest, ALogGetsEachLineOnceAndNoTrailingBlanks) {
  std::ostringstream out;
  FakeClock clock;
  ProgressPrinter progress(out, false, false, &clock);
  progress.Begin("check models", "");
  progress.End();
  progress.Update("upload suite", "bytes", 115, 5120);
  progress.Update("upload suite", "bytes", 5120, 5120);
  progress.Update("read models", "", 0, 2);
  progress.Update("read models", "", 2, 2);
  progress.Update("seal", "", 2, 2);
  progress.End();
  EXPECT_EQ(out.str(),
            "check models\n"
            "upload suite                 115 B/5.0 KiB\n"
            "upload suite                 5.0 KiB/5.0 KiB  0 s\n"
            "read models                  0/2\n"
            "read models                  2/2  0 s\n"
            "seal                         2/2  0 s\n");
}

TEST(ProgressTest, TerminalRedrawsInPlaceAndNotesStayAbove) {
  std::ostringstream out;
  FakeClock clock;
  {
    ProgressPrinter progress(out, true, false, &clock);
    progress.Begin("replay", "contexts");
    clock.now += 1000;
    progress.Update(1, 2);
    progress.Note("a note");
    EXPECT_EQ(Lines(out.str()), 1);
  }
  EXPECT_EQ(out.str().back(), '\n');
}

TEST(ProgressTest, QuietPrintsNothing) {
  std::ostringstream out;
  ProgressPrinter progress(out, true, true);
  progress.Note("x");
  progress.Begin("replay", "contexts");
  progress.Update(1, 1);
  progress.End();
  EXPECT_EQ(out.str(), "");
}

TEST(ProgressTest, Durations) {
  EXPECT_EQ(HumanDuration(59), "59 s");
  EXPECT_EQ(HumanDuration(200), "3 min 20 s");
  EXPECT_EQ(HumanDuration(7500), "2 h 05 min");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
}

}  // namespace
}  // namespace assay
