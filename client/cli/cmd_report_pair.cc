// assay report pair: two reports compared context by context, offline.

#include <memory>

#include "client/cli/commands.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/pairing.h"
#include "storage/report/report.h"
#include "storage/report/summary.h"

namespace assay {
namespace {

struct PairCommand {
  std::string a, b, head;
  bool across_policies = false;
};

// REPORT is report.json or the folder that holds it.
absl::StatusOr<Json> ReadReport(const std::string& given) {
  const std::string path = IsDirectory(given) ? JoinPath(given, kReportFile) : given;
  if (IsDirectory(given) && !FileExists(path)) {
    return NotFoundError("REPORT_MISSING", given +
                                               " holds no report.json; give a candidate's folder, "
                                               "which lies in the --out of a run, or the file");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kReportBytesMax));
  return ParseReport(bytes, path);
}

absl::StatusOr<int> Pair(const PairCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const Json a, ReadReport(command.a));
  ASSAY_ASSIGN_OR_RETURN(const Json b, ReadReport(command.b));
  std::string head = command.head;
  if (head.empty()) {
    const std::string own(kHeadOwn);
    const bool both = a.at("heads").contains(own) && b.at("heads").contains(own);
    head = both ? kHeadOwn : kHeadShared;
  }
  ASSAY_ASSIGN_OR_RETURN(
      const Json comparison,
      PairReports(a, b, head,
                  command.across_policies ? AcrossPolicies::kAllow : AcrossPolicies::kRefuse));
  const Json pair = {{"a", command.a},
                     {"b", command.b},
                     {"head", head},
                     {"not_comparable", nullptr},
                     {"comparison", comparison}};
  context.PrintJson(pair);
  context.Print(PairText(pair));
  return kExitSuccess;
}

}  // namespace

void AddReportPairCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<PairCommand>();
  CLI::App* pair = AddCommand(
      report, context, "pair",
      "Compare two reports of the same suite and reference, context by context.\n"
      "Reports that were not measured alike are refused, with every reason.",
      "  assay report pair result/int4 result/int8\n"
      "  assay report pair exact/int4/report.json published/int4/report.json --across-policies\n");
  pair->add_option("A", command->a, "report.json, or the folder that holds it")->required();
  pair->add_option("B", command->b, "The other one")->required();
  pair->add_option("--head", command->head,
                   "own (as served) or shared (body only); default: own where both have it")
      ->check(CLI::IsMember({"own", "shared"}));
  pair->add_flag("--across-policies", command->across_policies,
                 "Compare although numeric policy, backend or kernels differ, and show that");
  OnRun(pair, context, [command, &context] { return Pair(*command, context); });
}

}  // namespace assay
