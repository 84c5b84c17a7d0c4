#include "client/cli/labels.h"

#include <cctype>

#include "client/cli/exit_codes.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"

namespace assay {
namespace {

constexpr std::string_view kGguf = ".gguf";

// `status` with its reason and sentence as an error of usage.
absl::Status AsUsage(const absl::Status& status) {
  return status.ok() ? status : UsageError(ReasonOf(status), MessageOf(status));
}

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
  LabelledModel labelled;
  const size_t equals = text.find('=');
  const std::string whole(text);
  const bool has_label = equals != std::string_view::npos &&
                         text.substr(0, equals).find_first_of("/@") == std::string_view::npos &&
                         !FileExists(whole) && !IsDirectory(whole);
  if (has_label) {
    labelled.label = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  ASSAY_ASSIGN_OR_RETURN(labelled.model, ParseModelArgument(text));
  if (!has_label) labelled.label = DefaultLabel(labelled.model);
  ASSAY_RETURN_IF_ERROR(AsUsage(CheckLabel(labelled.label)));
  return labelled;
}

absl::StatusOr<std::vector<LabelledModel>> ParseCandidates(const std::vector<std::string>& texts) {
  std::vector<LabelledModel> candidates;
  for (const std::string& text : texts) {
    ASSAY_ASSIGN_OR_RETURN(LabelledModel candidate, ParseLabelledModel(text));
    for (const LabelledModel& other : candidates) {
      if (other.label != candidate.label) continue;
      return UsageError("LABEL_DUPLICATE",
                        fmt::format("the candidates {} and {} are both called {}; give each its "
                                    "own name as LABEL=MODEL",
                                    other.model.text, candidate.model.text, other.label));
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace assay
