// LABEL=MODEL on the command line.

#ifndef ASSAY_CLIENT_CLI_LABELS_H_
#define ASSAY_CLIENT_CLI_LABELS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/inputs.h"

namespace assay {

struct LabelledModel {
  std::string label;
  LocalModel model;
  absl::Status status;  // why it is out; OK = in
};

// [LABEL=]MODEL[@TRANSFORM], split as SplitLabel does. LABEL_INVALID, MODEL_SPEC_INVALID,
// TRANSFORM_INVALID.
absl::StatusOr<LabelledModel> ParseLabelledModel(std::string_view text);

// File or folder name; with a transform the name without ".gguf" and the transform's text, as in
// "model-rtn-bits4-group32". Characters that no label has become '-'.
std::string DefaultLabel(const LocalModel& model);

// Parses all; LABEL_DUPLICATE names both models of a label given twice.
absl::StatusOr<std::vector<LabelledModel>> ParseCandidates(const std::vector<std::string>& texts);

// LABEL_UNKNOWN, with the nearest one, when --versus names none of the candidates' labels.
absl::Status CheckLabelGiven(const std::string& versus, const std::vector<std::string>& labels);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_LABELS_H_
