// Results that an --out folder holds already, against what a command is about to put there.

#ifndef ASSAY_CLIENT_LIB_KEPT_LABELS_H_
#define ASSAY_CLIENT_LIB_KEPT_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// What a command will score under a label. "" where an identity is not known beforehand (a model
// that only the coordinator knows, a capture): nothing is refused for its sake.
struct LabelledIdentity {
  std::string label;
  std::string candidate;  // model identity, SHA-256 in hex
  std::string reference;
};

// The part of the suite that a command scores: as asked, and how many contexts that is.
struct ScoredPart {
  std::string filter;
  int64_t score_from = 0, limit = 0;
  int64_t contexts = 0;
};

// A label whose report in `out` is of another candidate or reference, or of more of the suite.
struct ChangedLabel {
  std::string label;
  std::string report_sha256;  // of the report that is there
  std::string sentence;       // what differs: both digests, or both parts
};

// Labels whose OUT/LABEL/report.json names another model than `wanted`, or covers another part of
// the suite with no fewer contexts than `part`: a quick look never takes the place of a whole
// result, while the whole result takes that of a quick look. A folder without a readable report is
// none: it is written anew.
std::vector<ChangedLabel> FindChangedLabels(const std::string& out,
                                            const std::vector<LabelledIdentity>& wanted,
                                            const ScoredPart& part);

// LABEL_CHANGED, with what differs for every changed label, unless there is none.
absl::Status RefuseChangedLabels(const std::string& out, const std::vector<ChangedLabel>& changed);

// Moves OUT/LABEL of each to OUT/replaced/, where nothing is overwritten: the sealed result stays
// whole. The folders that it was moved to.
absl::StatusOr<std::vector<std::string>> KeepReplaced(const std::string& out,
                                                      const std::vector<ChangedLabel>& changed);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_KEPT_LABELS_H_
