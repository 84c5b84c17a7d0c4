// Which windows of a panel share text with its calibration windows (specs: fidelity-dataset 4.4).
//
// Every run of 13 token ids of the windows whose role is not "final", together, is the calibration
// set. A final window is left out of the clean scope when its document is one of theirs, when more
// than 5 % of its distinct runs are in the set, or when it is too short to have any.

#ifndef ASSAY_STORAGE_DATASET_OVERLAP_H_
#define ASSAY_STORAGE_DATASET_OVERLAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace assay {

inline constexpr size_t kOverlapRun = 13;          // token ids
inline constexpr double kOverlapThreshold = 0.05;  // share of distinct runs, strictly above

struct PanelWindow {
  std::string window_id, document_id, role;
  std::vector<int32_t> tokens;
};

struct OverlapRow {
  std::string window_id;
  bool scannable = false;      // it has a run at all
  bool same_document = false;  // its document is one of the calibration windows'
  double fraction = 0;         // of its distinct runs, in the calibration set
  bool excluded = false;
};

struct CalibrationOverlap {
  int64_t calibration_windows = 0, calibration_runs = 0;  // distinct runs
  std::vector<OverlapRow> rows;                           // final windows, in the panel's order
};

bool ExcludedFromCleanScope(const OverlapRow& row);

CalibrationOverlap FindCalibrationOverlap(const std::vector<PanelWindow>& windows);

// The windows of panel/panel.json of dataset `root` with their token files, each checked against
// its digest. FILE_*, JSON_INVALID, FIELD_*, PATH_UNSAFE, DIGEST_MISMATCH.
absl::StatusOr<std::vector<PanelWindow>> ReadPanelWindows(const std::string& root);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_OVERLAP_H_
