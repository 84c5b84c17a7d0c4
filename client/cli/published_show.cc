// What a published document says, for people.

#include "client/cli/published_files.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/dataset/finding.h"
#include "storage/published/examine.h"

namespace assay {
namespace {

// One line: title and the member of the document, in the order shown. A member that is absent is
// left out.
struct Line {
  const char* title;
  std::initializer_list<const char*> member;
  const char* unit;
};

const Line kLines[] = {
    {"Candidate", {"candidate"}, ""},
    {"Label", {"label"}, ""},
    {"Reference", {"reference"}, ""},
    {"A", {"a", "label"}, ""},
    {"B", {"b", "label"}, ""},
    {"Kind", {"comparison_kind"}, ""},
    {"Class", {"comparability", "class"}, ""},
    {"Dataset", {"dataset", "id"}, ""},
    {"Role", {"dataset", "role"}, ""},
    {"Model", {"model"}, ""},
    {"Suite", {"suite_token_sha256"}, ""},
    {"Suite", {"suite", "parent", "suite_token_sha256"}, ""},
    {"Panel", {"panel", "panel_id"}, ""},
    {"Filter", {"filter"}, ""},
    {"Scored from", {"scored_position_window", "score_from"}, "of each context"},
    {"Reports", {"reports"}, ""},
    {"Contexts", {"contexts"}, ""},
    {"Contexts", {"panel", "contexts"}, ""},
    {"Positions", {"scored_positions"}, ""},
    {"Positions", {"panel", "scored_positions"}, ""},
    {"Documents", {"source_clusters"}, ""},
    {"Documents", {"context_bootstrap", "clusters"}, ""},
    {"Mean KLD", {"token_mean_kld"}, "nats, over positions"},
    {"Mean KLD", {"metric", "value"}, "nats, over positions"},
    {"Mean KLD", {"context_macro_mean_kld"}, "nats, over contexts"},
    {"95 % from", {"context_bootstrap", "ci95_low"}, "nats"},
    {"95 % to", {"context_bootstrap", "ci95_high"}, "nats"},
    {"A minus B", {"difference_a_minus_b"}, "nats, over contexts"},
    {"95 % from", {"bootstrap_difference", "ci95_low"}, "nats"},
    {"95 % to", {"bootstrap_difference", "ci95_high"}, "nats"},
    {"A wins", {"a_wins"}, "contexts"},
    {"B wins", {"b_wins"}, "contexts"},
    {"Ties", {"ties"}, "contexts"},
    {"Median KLD", {"token_median_kld"}, "nats"},
    {"99 %", {"p99_kld"}, "nats"},
    {"99.9 %", {"p999_kld"}, "nats"},
    {"99 % in", {"tail", "quantiles", "p99", "lower"}, "nats and above"},
    {"Max KLD", {"max_kld"}, "nats"},
    {"Mean JSD", {"mean_jsd_bits"}, "bits"},
    {"Same top", {"top1_agreement"}, ""},
    {"Seal", {"dataset_sha256"}, ""},
    {"Seal", {"receipt_sha256"}, ""},
    {"Content", {"content_sha256"}, ""},
};

}  // namespace

absl::StatusOr<int> ShowPublished(const std::string& path, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kPublishedBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const Json document, ParseJson(bytes, path));
  if (context.json) {
    context.out() << bytes << (bytes.ends_with("\n") ? "" : "\n");
    return kExitSuccess;
  }
  ASSAY_ASSIGN_OR_RETURN(const PublishedExamination examination, ExaminePublished(bytes, path));
  std::string text = fmt::format("{}: {}{}\n", path, examination.what,
                                 examination.schema.empty() ? "" : " (" + examination.schema + ")");
  for (const Line& line : kLines) {
    const Json& value = DatasetMember(document, line.member);
    if (!value.is_primitive() || value.is_null()) continue;
    text += fmt::format("  {:<12} {}{}{}\n", line.title,
                        value.is_string()         ? value.get<std::string>()
                        : value.is_number_float() ? fmt::format("{:.6g}", value.get<double>())
                                                  : value.dump(),
                        *line.unit == '\0' ? "" : " ", line.unit);
  }
  const Json& comparisons = DatasetMember(document, {"comparisons"});
  for (const auto& [name, row] : comparisons.items()) {
    if (!row.is_object()) continue;
    text += fmt::format(
        "  {}: {} nats [{}, {}]\n", name, DatasetMember(row, {"difference_a_minus_b"}).dump(),
        DatasetMember(row, {"ci95_low"}).dump(), DatasetMember(row, {"ci95_high"}).dump());
  }
  for (const Json& row : DatasetMember(document, {"disclosures"})) {
    text += fmt::format("  Disclosed    {}\n", DatasetText(DatasetMember(row, {"code"})));
  }
  int failed = 0, open = 0;
  for (const PublishedCheck& check : examination.checks) {
    failed += check.outcome == PublishedOutcome::kFail ? 1 : 0;
    open += check.outcome == PublishedOutcome::kNotChecked ? 1 : 0;
  }
  text += failed > 0
              ? fmt::format("{} figures do not follow from the document: report verify\n", failed)
              : fmt::format(
                    "All that follows from the document itself does; gates that need more than "
                    "it: {} (report verify lists them)\n",
                    open);
  context.Print(text);
  return failed > 0 ? kExitVerificationFailed : kExitSuccess;
}

}  // namespace assay
