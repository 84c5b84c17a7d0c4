// assay report pair: reports compared context by context, offline; all pairs of more than two.

#include <algorithm>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/published_files.h"
#include "client/cli/published_pair.h"
#include "client/cli/report_files.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/comparability.h"
#include "storage/report/pairing.h"
#include "storage/report/report.h"
#include "storage/report/summary.h"

namespace assay {
namespace {

constexpr size_t kReportsMax = 64;

struct PairCommand {
  std::vector<std::string> reports;
  std::string head, out;
  bool across_policies = false;
};

struct Named {
  std::string name;  // as given, or the label of a candidate of an --out folder
  Json report;
};

absl::StatusOr<std::vector<Named>> ReadAll(const PairCommand& command) {
  std::vector<Named> all;
  for (const std::string& given : command.reports) {
    ASSAY_ASSIGN_OR_RETURN(std::vector<NamedResult> results, ReadLocalResults(given));
    for (NamedResult& result : results) {
      if (!result.candidate.failed_reason.empty()) continue;
      const std::string name = results.size() == 1 ? given : result.candidate.label;
      all.push_back({name, std::move(result.candidate.report)});
    }
  }
  if (all.size() < 2) {
    return InvalidError("BAD_USAGE",
                        "report pair needs two reports or more, or the --out folder of a run with "
                        "two scored candidates");
  }
  if (all.size() > kReportsMax) {
    return InvalidError("BAD_USAGE", fmt::format("{} reports were given, at most {} are paired",
                                                 all.size(), kReportsMax));
  }
  return all;
}

std::string ChooseCommonHead(const std::vector<Named>& all, const std::string& asked) {
  if (!asked.empty()) return asked;
  const std::string own(kHeadOwn);
  for (const Named& entry : all) {
    if (!entry.report.at("heads").contains(own)) return std::string(kHeadShared);
  }
  return own;
}

// One of `comparisons`. With a single one, reports that cannot be compared are an error.
absl::StatusOr<Json> PairOf(const Named& a, const Named& b, const std::string& head,
                            AcrossPolicies across, uint64_t comparisons) {
  Json pair = {{"a", a.name}, {"b", b.name}, {"head", head}, {"not_comparable", nullptr}};
  pair["comparison"] = nullptr;
  const absl::StatusOr<Json> comparison =
      PairReports(a.report, b.report, head, across, comparisons);
  if (comparison.ok()) {
    pair["comparison"] = *comparison;
  } else if (comparisons > 1 && ReasonOf(comparison.status()) == "NOT_COMPARABLE") {
    pair["not_comparable"] = CompareReports(a.report, b.report, head).Text();
  } else {
    return comparison.status();
  }
  return pair;
}

void PrintPairs(const Json& pairs, CliContext& context) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& pair : pairs) {
    const Json& c = pair.at("comparison");
    std::vector<std::string> row = {pair.at("a").get<std::string>(),
                                    pair.at("b").get<std::string>()};
    if (c.is_null()) {
      row.insert(row.end(), {"-", "-", "not comparable", "-"});
      rows.push_back(std::move(row));
      continue;
    }
    const auto number = [](const Json& value) {
      return value.is_number() ? fmt::format("{:+.4g}", value.get<double>()) : "-";
    };
    const auto answer = [](const Json& value) {
      return value.is_null() ? "-" : value.get<bool>() ? "yes" : "no";
    };
    const Json& interval = c.at("bootstrap_difference");
    row.insert(
        row.end(),
        {number(c.at("difference_a_minus_b")),
         fmt::format("[{}, {}]", number(interval.at("ci95_low")), number(interval.at("ci95_high"))),
         answer(c.at("distinguishable")), answer(c.at("simultaneous").at("distinguishable"))});
    rows.push_back(std::move(row));
  }
  context.Print(TextTable(
      {"A", "B", "A MINUS B (NATS)", "95 % INTERVAL (NATS)", "DISTINGUISHABLE", "AMONG ALL"},
      rows));
  context.Print(fmt::format(
      "\n{} pairs were compared. Each interval holds at 95 % for itself: of every 20 pairs that do "
      "not\ndiffer about one looks distinguishable by chance. \"Among all\" asks for intervals "
      "that "
      "hold for\nall {} together (Bonferroni); trust that one unless a single pair was meant from "
      "the start.",
      pairs.size(), pairs.size()));
  for (const Json& pair : pairs) {
    if (!pair.at("not_comparable").is_null()) context.Print(PairText(pair));
  }
}

absl::StatusOr<int> Pair(const PairCommand& command, CliContext& context) {
  if (std::any_of(command.reports.begin(), command.reports.end(), IsPublishedFile)) {
    return PairPublished(command.reports, command.across_policies, command.out, context);
  }
  if (!command.out.empty()) {
    return InvalidError("BAD_USAGE",
                        "--out is for published reports; --json prints the comparison");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::vector<Named> all, ReadAll(command));
  const std::string head = ChooseCommonHead(all, command.head);
  const AcrossPolicies across =
      command.across_policies ? AcrossPolicies::kAllow : AcrossPolicies::kRefuse;
  const uint64_t comparisons = all.size() * (all.size() - 1) / 2;
  Json pairs = Json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      ASSAY_ASSIGN_OR_RETURN(Json pair, PairOf(all[i], all[j], head, across, comparisons));
      pairs.push_back(std::move(pair));
    }
  }
  if (comparisons == 1) {
    context.PrintJson(pairs[0]);
    context.Print(PairText(pairs[0]));
    return kExitSuccess;
  }
  context.PrintJson(Json{{"comparisons", comparisons}, {"pairs", pairs}});
  PrintPairs(pairs, context);
  return kExitSuccess;
}

}  // namespace

void AddReportPairCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<PairCommand>();
  CLI::App* pair = AddCommand(
      report, context, "pair",
      "Compare reports of the same suite and reference, context by context: two, or all pairs of\n"
      "more. Reports that were not measured alike are refused, with every reason. Published "
      "reports\n"
      "of other systems, or their aggregates, give the published form of a comparison.",
      "  assay report pair result/int4 result/int8\n"
      "  assay report pair result\n"
      "  assay report pair kld5-10M-k5.json kld5-10M-k4.json --out paired.json\n"
      "  assay report pair exact/int4/report.json published/int4/report.json --across-policies\n");
  pair->add_option("REPORT", command->reports,
                   "report.json, the folder that holds it, or the --out folder of a run")
      ->required()
      ->expected(1, static_cast<int>(kReportsMax));
  pair->add_option("--head", command->head,
                   "own (as served) or shared (body only); default: own where all have it")
      ->check(CLI::IsMember({"own", "shared"}));
  pair->add_flag("--across-policies", command->across_policies,
                 "Compare although numeric policy, backend or kernels differ, and show that");
  pair->add_option("--out", command->out, "File for the comparison of published reports");
  OnRun(pair, context, [command, &context] { return Pair(*command, context); });
}

}  // namespace assay
