// assay report joint: statistics over windows as joint measurements state them.

#include <memory>

#include "client/cli/published_commands.h"
#include "client/cli/published_files.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/report/joint.h"

namespace assay {
namespace {

struct JointCommand {
  std::string file, against;
  std::vector<std::string> only;
};

// Where the documents that are read keep their windows, and how they call the members.
struct Layout {
  std::initializer_list<const char*> rows;
  const char *id, *mean, *positions, *domain;
};
const Layout kLayouts[] = {
    {{"windows"}, "id", "mean", "positions", "domain"},
    {{"per_context_all"}, "index", "mean_kld", "positions_scored", "stratum"},
    {{"per_context"}, "window_id", "mean", "scored_rows", "domain"},  // receipts of datasets
    {{"heads", "own", "contexts"}, "index", "mean_kl_ref_cand", "positions", "stratum"},
    {{"heads", "shared", "contexts"}, "index", "mean_kl_ref_cand", "positions", "stratum"},
};

absl::StatusOr<std::vector<JointWindow>> ReadWindows(const std::string& given) {
  const std::string file = IsDirectory(given) ? JoinPath(given, "report.json") : given;
  ASSAY_ASSIGN_OR_RETURN(const Json document, ReadJsonFile(file, kPublishedBytesMax));
  for (const Layout& layout : kLayouts) {
    const Json& rows = DatasetMember(document, layout.rows);
    if (!rows.is_array()) continue;
    std::vector<JointWindow> out;
    for (const Json& row : rows) {
      const Json& id = DatasetMember(row, {layout.id});
      const Json& stated = DatasetMember(row, {layout.mean});
      const Json& mean = stated.is_object() ? DatasetMember(stated, {"value"}) : stated;
      const auto positions = DatasetInt(DatasetMember(row, {layout.positions}));
      if (!mean.is_number() || !positions || id.is_null()) {
        return InvalidError("JOINT_INVALID", fmt::format("{}: a window lacks {}, {} or {}", file,
                                                         layout.id, layout.mean, layout.positions));
      }
      const auto number = DatasetInt(id);
      out.push_back({number ? fmt::format("{:06}", *number) : DatasetText(id),
                     DatasetString(DatasetMember(row, {layout.domain})).value_or(""),
                     mean.get<double>(), *positions});
    }
    return out;
  }
  return InvalidError("JOINT_INVALID",
                      file +
                          ": it holds no windows; a report, a comparison receipt of datasets or "
                          "{\"windows\":[{\"id\",\"mean\",\"positions\",\"domain\"}]} do");
}

std::string Range(const Json& interval) {
  return fmt::format("[{:.6g}, {:.6g}]", interval[0].get<double>(), interval[1].get<double>());
}

std::string ScopeText(const std::string& name, const Json& scope) {
  std::string text = fmt::format(
      "{}: {} windows, {} positions\n  mean {:.6g} nats, clustered error {:.3g}\n"
      "  95 % {} (percentile), {} (BCa)\n",
      name, scope.at("windows").dump(), scope.at("positions").dump(),
      scope.at("mean").get<double>(), scope.at("clustered_se").get<double>(),
      Range(scope.at("percentile95")), Range(scope.at("bca95")));
  for (const auto& [domain, row] : scope.at("by_domain").items()) {
    const Json& interval = row.at("log_t95").is_null() ? row.at("bca95") : row.at("log_t95");
    text +=
        fmt::format("  {}: {:.6g} nats, {} windows{}{}\n", domain, row.at("mean").get<double>(),
                    row.at("windows").dump(), interval.is_null() ? "" : ", 95 % " + Range(interval),
                    row.at("few_windows").get<bool>() ? " (few)" : "");
  }
  return text;
}

absl::StatusOr<int> RunJoint(const JointCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<JointWindow> windows, ReadWindows(command.file));
  Json out;
  std::string text;
  if (command.only.empty()) {
    ASSAY_ASSIGN_OR_RETURN(out["all"], JointStatistics(windows));
    text += ScopeText("All", out["all"]);
  } else {
    ASSAY_ASSIGN_OR_RETURN(out, JointScopes(windows, command.only));
    text += ScopeText("All", out["all"]) + ScopeText("Selected", out["selected"]);
    const Json& delta = out["scope_delta"];
    text += fmt::format(
        "The selection moves the mean {} by {:+.4g} nats; the two are never compared "
        "with each other's candidates\n",
        delta.at("direction").get<std::string>(), delta.at("absolute_nats").get<double>());
  }
  if (!command.against.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const std::vector<JointWindow> other, ReadWindows(command.against));
    ASSAY_ASSIGN_OR_RETURN(out["paired"], JointPaired(windows, other));
    const Json& paired = out["paired"];
    text += fmt::format(
        "{} minus {}: {:+.6g} nats, 95 % {} (percentile), {} (BCa); sign test p {:.4g} ({} up, {} "
        "down)\n",
        command.file, command.against, paired.at("mean_difference").get<double>(),
        Range(paired.at("percentile95")), Range(paired.at("bca95")),
        paired.at("sign_test").at("p").get<double>(), paired.at("sign_test").at("positive").dump(),
        paired.at("sign_test").at("negative").dump());
  }
  context.PrintJson(out);
  context.Print(text);
  return kExitSuccess;
}

}  // namespace

void AddReportJointCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<JointCommand>();
  CLI::App* joint = AddCommand(
      report, context, "joint",
      "Statistics over windows as joint measurements state them: clustered standard error,\n"
      "percentile and BCa intervals (numpy's generator, seed 20260829), by domain; of a selection "
      "of\n"
      "windows too, and paired with another candidate's. Windows have equal numbers of positions.",
      "  assay report joint comparison-receipt.json --only final-0000,final-0001,final-0002\n"
      "  assay report joint k6.json --against k8.json --json\n");
  joint
      ->add_option("FILE", command->file,
                   "Report, comparison receipt of datasets, or {\"windows\":[...]}")
      ->required();
  joint->add_option("--only", command->only, "Ids of the windows of a second scope")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  joint->add_option("--against", command->against, "Another candidate over the same windows");
  OnRun(joint, context, [command, &context] { return RunJoint(*command, context); });
}

}  // namespace assay
