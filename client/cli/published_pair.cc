#include "client/cli/published_pair.h"

#include <ctime>

#include "client/cli/published_files.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/comparability.h"
#include "storage/report/published_report.h"

namespace assay {
namespace {

std::string Number(const Json& value) {
  return value.is_number() ? fmt::format("{:+.4g}", value.get<double>()) : "-";
}

std::string ManyPairs(size_t pairs) {
  return fmt::format(
      "\n{} pairs were compared. Each interval holds at 95 % for itself: of every 20 pairs that do "
      "not\ndiffer about one looks distinguishable by chance.",
      pairs);
}

absl::Status WriteOut(const std::string& out, const Json& document) {
  return out.empty() ? absl::OkStatus() : WriteFileAtomic(out, PythonPrettyJson(document));
}

std::vector<std::string> Row(const std::string& a, const std::string& b, const Json& difference,
                             const Json& interval, const Json& wins) {
  return {
      a, b, Number(difference),
      fmt::format("[{}, {}]", Number(interval.at("ci95_low")), Number(interval.at("ci95_high"))),
      fmt::format("{} / {} / {}", wins.at("a_wins").dump(), wins.at("b_wins").dump(),
                  wins.at("ties").dump())};
}

std::vector<std::string> Titles() {
  return {"A", "B", "A MINUS B (NATS)", "95 % INTERVAL (NATS)", "A WINS / B WINS / TIES"};
}

absl::StatusOr<int> PairReportFiles(const std::vector<PublishedInput>& all, bool across,
                                    const std::string& out, CliContext& context) {
  Json pairs = Json::array();
  std::vector<std::vector<std::string>> rows;
  std::string refused;
  PublishedPairOptions options;
  options.across_comparators = across;
  const size_t comparisons = all.size() * (all.size() - 1) / 2;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      const PublishedSide a{all[i].path, BaseName(all[i].path), all[i].document};
      const PublishedSide b{all[j].path, BaseName(all[j].path), all[j].document};
      const absl::StatusOr<Json> pair = PairPublishedReports(a, b, options);
      const bool apart = ReasonOf(pair.status()) == "NOT_COMPARABLE";
      if (!pair.ok() && (comparisons == 1 || !apart)) return pair.status();
      pairs.push_back(
          {{"a", a.path},
           {"b", b.path},
           {"not_comparable", pair.ok() ? Json(nullptr) : Json(MessageOf(pair.status()))},
           {"comparison", pair.ok() ? *pair : Json(nullptr)}});
      if (pair.ok()) {
        rows.push_back(Row(a.path, b.path, pair->at("difference_a_minus_b"),
                           pair->at("bootstrap_difference"), *pair));
      } else {
        rows.push_back({a.path, b.path, "-", "not comparable", "-"});
        refused += fmt::format("{} and {}: {}\n", a.path, b.path, MessageOf(pair.status()));
      }
    }
  }
  context.Print(TextTable(Titles(), rows));
  if (comparisons == 1) {
    context.PrintJson(pairs[0].at("comparison"));
    ASSAY_RETURN_IF_ERROR(WriteOut(out, pairs[0].at("comparison")));
    return kExitSuccess;
  }
  if (!out.empty()) {
    return InvalidError("BAD_USAGE", "--out takes the comparison of two reports; give two");
  }
  context.PrintJson(Json{{"comparisons", comparisons}, {"pairs", pairs}});
  context.Print(ManyPairs(comparisons));
  if (!refused.empty()) context.Print(refused);
  return kExitSuccess;
}

absl::StatusOr<int> PairAggregates(const std::vector<PublishedInput>& all, const std::string& out,
                                   CliContext& context) {
  std::vector<std::pair<std::string, PublishedInput>> inputs;
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const PublishedInput& input : all) {
    std::string label = BaseName(input.path);
    if (label.ends_with(".json")) label.resize(label.size() - 5);
    for (const auto& [other, unused] : inputs) {
      if (other == label) label = input.path;
    }
    for (const auto& [other, unused] : inputs) pairs.emplace_back(other, label);
    inputs.emplace_back(label, input);
  }
  LadderPairingOptions options = OwnLadderPairingOptions();
  options.generated_utc = TimeText(std::time(nullptr) * 1000);
  ASSAY_ASSIGN_OR_RETURN(const Json document, PairCumulativeReceipts(inputs, pairs, options));
  ASSAY_RETURN_IF_ERROR(WriteOut(out, document));
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, row] : document.at("comparisons").items()) {
    rows.push_back(Row(row.at("a").get<std::string>(), row.at("b").get<std::string>(),
                       row.at("difference_a_minus_b"), row, row));
  }
  context.PrintJson(document);
  context.Print(TextTable(Titles(), rows));
  if (pairs.size() > 1) context.Print(ManyPairs(pairs.size()));
  return kExitSuccess;
}

}  // namespace

absl::StatusOr<int> PairPublished(const std::vector<std::string>& files, bool across_comparators,
                                  const std::string& out, CliContext& context) {
  if (files.size() < 2) return InvalidError("BAD_USAGE", "report pair needs two reports or more");
  std::vector<PublishedInput> all;
  size_t reports = 0, aggregates = 0;
  for (const std::string& file : files) {
    ASSAY_ASSIGN_OR_RETURN(PublishedInput input, ReadPublishedInput(file));
    reports += PublishedSchemaOf(input.document).Is("fidelity-report") ? 1 : 0;
    aggregates += PublishedSchemaOf(input.document).Is("kld-ladder-cumulative") ? 1 : 0;
    all.push_back(std::move(input));
  }
  if (reports == all.size()) return PairReportFiles(all, across_comparators, out, context);
  if (aggregates == all.size()) return PairAggregates(all, out, context);
  return InvalidError(
      "NOT_COMPARABLE",
      "published reports are paired with published reports and aggregates with "
      "aggregates; for a result of Assay's own write the published form with report "
      "export");
}

}  // namespace assay
