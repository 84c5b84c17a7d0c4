// The clean-scope rule: by hand, on a dataset of tests/data, and on the published fractions.

#include "storage/dataset/overlap.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <numeric>

namespace assay {
namespace {

// `shared` ids of the calibration text 0, 1, 2, ..., then ids that occur nowhere else.
std::vector<int32_t> Text(int shared, int length) {
  static int32_t fresh = 10'000;
  std::vector<int32_t> out(static_cast<size_t>(length));
  std::iota(out.begin(), out.begin() + shared, 0);
  for (int i = shared; i < length; ++i) out[static_cast<size_t>(i)] = ++fresh;
  return out;
}

TEST(Overlap, ByHand) {
  const std::vector<PanelWindow> windows = {
      {"cal-0", "doc-c", "calibration", Text(100, 100)},
      {"cal-1", "doc-d", "search", Text(0, 100)},
      {"all", "doc-1", "final", Text(100, 100)},
      {"six", "doc-2", "final", Text(18, 100)},     // 6 of 88 runs
      {"four", "doc-3", "final", Text(16, 100)},    // 4 of 88
      {"twelve", "doc-4", "final", Text(12, 100)},  // none: no run is shared
      {"short", "doc-5", "final", Text(0, 12)},
      {"document", "doc-d", "final", Text(0, 100)}};
  const CalibrationOverlap overlap = FindCalibrationOverlap(windows);
  EXPECT_EQ(overlap.calibration_windows, 2);
  EXPECT_EQ(overlap.calibration_runs, 2 * 88);
  ASSERT_EQ(overlap.rows.size(), 6u);
  const struct {
    double fraction;
    bool excluded;
  } want[] = {{1, true}, {6.0 / 88, true}, {4.0 / 88, false}, {0, false}, {0, true}, {0, true}};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(overlap.rows[i].fraction, want[i].fraction) << overlap.rows[i].window_id;
    EXPECT_EQ(overlap.rows[i].excluded, want[i].excluded) << overlap.rows[i].window_id;
  }
  EXPECT_FALSE(overlap.rows[4].scannable);
  EXPECT_TRUE(overlap.rows[5].same_document);
}

// specs: fidelity-dataset 4.4. The other windows share less than 0014 does.
TEST(Overlap, SeventeenOfTwentyFive) {
  const std::map<int, double> published = {{3, 0.381153},  {7, 0.37027},   {11, 0.373626},
                                           {14, 0.047454}, {15, 0.379973}, {19, 0.377005},
                                           {21, 0.071392}, {22, 0.057935}, {23, 0.390071}};
  std::string kept;
  for (int i = 0; i < 25; ++i) {
    OverlapRow row;
    row.scannable = true;
    row.fraction = published.count(i) != 0 ? published.at(i) : 0.01;
    if (!ExcludedFromCleanScope(row)) kept += std::to_string(i) + " ";
  }
  EXPECT_EQ(kept, "0 1 2 4 5 6 8 9 10 12 13 14 16 17 18 20 24 ");
  OverlapRow edge;
  edge.scannable = true;
  edge.fraction = 0.05;
  EXPECT_FALSE(ExcludedFromCleanScope(edge));
}

TEST(Overlap, PanelOfADataset) {
  const auto windows = ReadPanelWindows(std::string(std::getenv("ASSAY_SOURCE_DIR")) +
                                        "/tests/data/metric/fidelity-dataset/datasets/root");
  ASSERT_TRUE(windows.ok()) << windows.status();
  EXPECT_EQ(windows->size(), 4u);
  for (const PanelWindow& window : *windows) {
    EXPECT_EQ(window.role, "final");
    EXPECT_EQ(window.tokens.size(), 20u);
  }
  for (const OverlapRow& row : FindCalibrationOverlap(*windows).rows) EXPECT_FALSE(row.excluded);
}

}  // namespace
}  // namespace assay
