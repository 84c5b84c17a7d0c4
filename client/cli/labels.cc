#include "client/cli/labels.h"

#include <algorithm>
#include <cctype>

#include "client/cli/unknown_words.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"

namespace assay {
namespace {

constexpr std::string_view kGguf = ".gguf";

}  // namespace

std::string DefaultLabel(const LocalModel& model) {
  std::string name = BaseName(model.remote_name.empty() ? model.path : model.remote_name);
  if (!model.transform.empty()) {
    if (name.size() > kGguf.size() &&
        name.compare(name.size() - kGguf.size(), kGguf.size(), kGguf) == 0) {
      name.resize(name.size() - kGguf.size());
    }
    name += '-';
    for (char c : model.transform) {
      if (c != '=') name += c;
    }
  }
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '-';
  }
  return name;
}

absl::StatusOr<LabelledModel> ParseLabelledModel(std::string_view text) {
  ASSAY_ASSIGN_OR_RETURN(const LabelledText split, SplitLabel(text));
  LabelledModel labelled;
  ASSAY_ASSIGN_OR_RETURN(labelled.model, ParseModelArgument(split.value));
  labelled.label = split.label.empty() ? DefaultLabel(labelled.model) : split.label;
  ASSAY_RETURN_IF_ERROR(CheckLabel(labelled.label));
  return labelled;
}

absl::StatusOr<std::vector<LabelledModel>> ParseCandidates(const std::vector<std::string>& texts) {
  std::vector<LabelledModel> candidates;
  for (const std::string& text : texts) {
    ASSAY_ASSIGN_OR_RETURN(LabelledModel candidate, ParseLabelledModel(text));
    for (const LabelledModel& other : candidates) {
      if (other.label != candidate.label) continue;
      return InvalidError("LABEL_DUPLICATE",
                          fmt::format("the candidates {} and {} are both called {}; give each its "
                                      "own name as LABEL=MODEL",
                                      other.model.text, candidate.model.text, other.label));
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

absl::Status CheckLabelGiven(const std::string& versus, const std::vector<std::string>& labels) {
  if (std::find(labels.begin(), labels.end(), versus) != labels.end()) return absl::OkStatus();
  std::string known;
  for (const std::string& label : labels) known += (known.empty() ? "" : ", ") + label;
  const std::string nearest = NearestWord(versus, labels);
  return InvalidError(
      "LABEL_UNKNOWN",
      fmt::format("--versus {}: no candidate has this label{}; there are {}", versus,
                  nearest.empty() ? "" : ", did you mean " + nearest + "?", known));
}

}  // namespace assay
