#include "client/lib/kept_labels.h"

#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report.h"

namespace assay {
namespace {

constexpr int kReplacedMax = 10000;

std::string IdentityOf(const Json& report, const char* operand) {
  const Json& identity = report.at(operand).at("model_identity");
  return identity.is_string() ? identity.get<std::string>() : "";
}

std::string Difference(std::string_view what, const std::string& there, const std::string& wanted) {
  if (there.empty() || wanted.empty() || there == wanted) return "";
  return fmt::format("its {} is {} there and {} now", what, there, wanted);
}

std::string Described(const ScoredPart& part) {
  std::string text = fmt::format("{} contexts (filter {}", part.contexts, part.filter);
  if (part.limit > 0) text += fmt::format(", limited to {}", part.limit);
  if (part.score_from > 0) text += fmt::format(", from position {}", part.score_from);
  return text + ")";
}

std::string PartDifference(const Json& report, const ScoredPart& wanted) {
  const Json& coverage = report.at("coverage");
  const ScoredPart there = {
      coverage.at("filter").get<std::string>(), coverage.value("score_from", int64_t{0}),
      coverage.value("limit", int64_t{0}), coverage.at("contexts").get<int64_t>()};
  if (there.contexts < wanted.contexts) return "";
  if (there.filter == wanted.filter && there.score_from == wanted.score_from &&
      there.limit == wanted.limit) {
    return "";
  }
  return fmt::format("it is of {} there and of {} now", Described(there), Described(wanted));
}

}  // namespace

std::vector<ChangedLabel> FindChangedLabels(const std::string& out,
                                            const std::vector<LabelledIdentity>& wanted,
                                            const ScoredPart& part) {
  std::vector<ChangedLabel> changed;
  for (const LabelledIdentity& label : wanted) {
    const std::string path = JoinPath(JoinPath(out, label.label), kReportFile);
    if (!FileExists(path)) continue;
    const absl::StatusOr<std::string> bytes = ReadFile(path, kReportBytesMax);
    if (!bytes.ok()) continue;
    const absl::StatusOr<Json> report = ParseReport(*bytes, path);
    if (!report.ok()) continue;
    std::string sentence;
    for (const std::string& difference :
         {Difference("candidate", IdentityOf(*report, "candidate"), label.candidate),
          Difference("reference", IdentityOf(*report, "reference"), label.reference),
          PartDifference(*report, part)}) {
      if (!sentence.empty() && !difference.empty()) sentence += ", ";
      sentence += difference;
    }
    if (!sentence.empty()) changed.push_back({label.label, Sha256Hex(*bytes), sentence});
  }
  return changed;
}

absl::Status RefuseChangedLabels(const std::string& out, const std::vector<ChangedLabel>& changed) {
  if (changed.empty()) return absl::OkStatus();
  std::string list;
  for (const ChangedLabel& label : changed) {
    list += fmt::format("{}{}: {}", list.empty() ? "" : "; ", label.label, label.sentence);
  }
  return PreconditionError(
      "LABEL_CHANGED",
      fmt::format("{} holds other results under the same names. {}. Give another label "
                  "or --out, or --replace, which keeps the old result in {}",
                  out, list, JoinPath(out, kReplacedFolder)));
}

absl::StatusOr<std::vector<std::string>> KeepReplaced(const std::string& out,
                                                      const std::vector<ChangedLabel>& changed) {
  std::vector<std::string> kept;
  for (const ChangedLabel& label : changed) {
    const std::string folder = JoinPath(out, kReplacedFolder);
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder));
    const std::string base = fmt::format("{}-{}", label.label, label.report_sha256.substr(0, 12));
    std::string target = JoinPath(folder, base);
    for (int i = 2; IsDirectory(target) && i < kReplacedMax; ++i) {
      target = JoinPath(folder, fmt::format("{}-{}", base, i));
    }
    const std::string source = JoinPath(out, label.label);
    std::error_code error;
    std::filesystem::rename(source, target, error);
    if (error) {
      return ErrnoError(error.value(), fmt::format("{} cannot be moved to {}", source, target));
    }
    kept.push_back(target);
  }
  return kept;
}

}  // namespace assay
