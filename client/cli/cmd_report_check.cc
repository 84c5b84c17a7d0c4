// assay report check: bounds on figures of a result, for scripts and continuous integration.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/published_files.h"
#include "client/cli/report_bounds.h"
#include "client/cli/report_files.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/published/examine.h"

namespace assay {
namespace {

struct CheckCommand {
  SessionOptions session;
  std::string name, head;
  std::vector<std::string> max, min;
};

absl::StatusOr<std::vector<ReportBound>> ParseBounds(const CheckCommand& command) {
  std::vector<ReportBound> bounds;
  for (const std::string& text : command.max) {
    ASSAY_ASSIGN_OR_RETURN(bounds.emplace_back(), ParseReportBound(text, /*is_max=*/true));
  }
  for (const std::string& text : command.min) {
    ASSAY_ASSIGN_OR_RETURN(bounds.emplace_back(), ParseReportBound(text, /*is_max=*/false));
  }
  if (bounds.empty()) {
    return InvalidError("BAD_USAGE", "give at least one --max or --min PATH=NUMBER");
  }
  return bounds;
}

Json CheckJson(const std::string& label, const Json& head, const ReportBound& bound,
               const ReportFigure& figure) {
  bool passed = false;
  if (figure.value.is_number()) {
    const double value = figure.value.get<double>();
    passed = bound.is_max ? value <= bound.value : value >= bound.value;
  }
  return Json{{"label", label},       {"head", head},
              {"path", bound.path},   {"bound", bound.is_max ? "max" : "min"},
              {"limit", bound.value}, {"value", figure.value},
              {"passed", passed},     {"why", figure.why}};
}

absl::StatusOr<Json> CheckResult(const NamedResult& result, const CheckCommand& command,
                                 const std::vector<ReportBound>& bounds, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const std::string head, ChooseHead(result, command.head));
  if (result.candidate.report.at("coverage").at("complete") != Json(true)) {
    context.Warn(fmt::format("{}: only part of the suite was scored", result.candidate.label));
  }
  ASSAY_ASSIGN_OR_RETURN(const Summary summary, BuildSummary({result.candidate}));
  const Json& summary_head = summary.json.at("candidates")[0].at("heads").at(head);
  Json checks = Json::array();
  for (const ReportBound& bound : bounds) {
    ASSAY_ASSIGN_OR_RETURN(const ReportFigure figure,
                           FindFigure(result.candidate.report, summary_head, head, bound.path));
    checks.push_back(CheckJson(result.candidate.label, head, bound, figure));
  }
  return checks;
}

// A published report has one result, and figures that must follow from its rows.
absl::StatusOr<Json> CheckPublished(const CheckCommand& command,
                                    const std::vector<ReportBound>& bounds) {
  const std::string& path = command.name;
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kPublishedBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const Json document, ParseJson(bytes, path));
  ASSAY_ASSIGN_OR_RETURN(const PublishedExamination examination, ExaminePublished(bytes, path));
  if (!PublishedSchemaOf(document).Is("fidelity-report")) {
    return InvalidError("BAD_USAGE",
                        fmt::format("{} is a published {}; bounds are held against reports of one "
                                    "candidate. Its figures: assay report show {} --json",
                                    path, examination.what, path));
  }
  if (!command.head.empty()) {
    return InvalidError("BAD_USAGE",
                        path + ": a published report has one result; leave out --head");
  }
  if (!examination.ok()) {
    return InvalidError("REPORT_INVALID",
                        fmt::format("{0}: its figures do not follow from its rows, so none is held "
                                    "against a bound; assay report verify {0} says which",
                                    path));
  }
  Json checks = Json::array();
  for (const ReportBound& bound : bounds) {
    ASSAY_ASSIGN_OR_RETURN(const ReportFigure figure, FindPublishedFigure(document, bound.path));
    checks.push_back(CheckJson(BaseName(path), nullptr, bound, figure));
  }
  return checks;
}

void PrintChecks(const Json& checks, CliContext& context) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& check : checks) {
    const bool is_max = check.at("bound") == "max";
    const Json& value = check.at("value");
    const std::string why = check.at("why").get<std::string>();
    rows.push_back(
        {check.at("passed").get<bool>() ? "pass" : "FAIL", check.at("label").get<std::string>(),
         check.at("path").get<std::string>(),
         value.is_number() ? fmt::format("{:.6g}", value.get<double>()) : why,
         fmt::format("{} {:.6g}", is_max ? "<=" : ">=", check.at("limit").get<double>())});
  }
  context.Print(TextTable({"", "CANDIDATE", "FIGURE", "VALUE", "BOUND"}, rows));
}

int EndChecks(bool passed, const Json& checks, CliContext& context) {
  context.PrintJson(Json{{"passed", passed}, {"checks", checks}});
  PrintChecks(checks, context);
  return passed ? kExitSuccess : kExitBoundNotMet;
}

absl::StatusOr<int> CheckReports(const CheckCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<ReportBound> bounds, ParseBounds(command));
  Json checks = Json::array();
  bool passed = true;
  if (IsPublishedFile(command.name)) {
    ASSAY_ASSIGN_OR_RETURN(checks, CheckPublished(command, bounds));
    for (const Json& check : checks) passed = passed && check.at("passed").get<bool>();
    return EndChecks(passed, checks, context);
  }
  ASSAY_ASSIGN_OR_RETURN(const NamedResults all,
                         FindResults(command.name, command.session, "assay report check"));
  for (const NamedResult& result : all.results) {
    const SummaryCandidate& candidate = result.candidate;
    if (!candidate.failed_reason.empty()) {
      context.Warn(fmt::format("{} was not scored [{}]: {}", candidate.label,
                               candidate.failed_reason, candidate.failed_message));
      passed = false;
      continue;
    }
    ASSAY_ASSIGN_OR_RETURN(const Json found, CheckResult(result, command, bounds, context));
    for (const Json& check : found) {
      passed = passed && check.at("passed").get<bool>();
      checks.push_back(check);
    }
  }
  return EndChecks(passed, checks, context);
}

}  // namespace

void AddReportCheckCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<CheckCommand>();
  CLI::App* check = AddCommand(
      report, context, "check",
      "Hold a result against bounds: exit code 0 when all are met, 7 when one is not (a figure "
      "that\n"
      "the report does not have, such as an interval of too few documents, meets no bound). An "
      "--out\n"
      "folder is checked candidate by candidate; one that failed meets no bound either. The "
      "receipt is\n"
      "assay verify's to check.",
      "  assay report check result/int4 --max kl_ref_cand.mean.ci95_high=0.02\n"
      "  assay report check result --max kl_ref_cand.p999=1 --min agreement.same_top1=0.95\n"
      "  assay report check result/int4 --max strata.code.mean_kl_ref_cand=0.05 --json\n");
  check
      ->add_option("REPORT", command->name,
                   "File or folder, reports/ID (or ID) of a coordinator, or a published report")
      ->required();
  check
      ->add_option("--max", command->max,
                   "PATH=NUMBER: the figure must not be larger; may be given several times. PATH "
                   "as in report.json, from heads.HEAD.statistics on (docs/report.md)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  check->add_option("--min", command->min, "PATH=NUMBER: the figure must not be smaller")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  check
      ->add_option("--head", command->head,
                   "own (as served) or shared (body only); default: own if there")
      ->check(CLI::IsMember({"own", "shared"}));
  AddSessionOptions(check, &command->session);
  OnRun(check, context, [command, &context] { return CheckReports(*command, context); });
}

}  // namespace assay
