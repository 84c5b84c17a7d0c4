// assay report, receipt: sealed results of a coordinator.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/published_commands.h"
#include "client/cli/published_files.h"
#include "client/cli/report_files.h"
#include "client/cli/session.h"
#include "client/cli/summary_display.h"
#include "client/cli/tables.h"
#include "client/lib/results.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/out_folder.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report.h"
#include "storage/seal/receipt.h"

namespace assay {
namespace {

struct SealedCommand {
  SessionOptions session;
  std::string name, out, label;
};

absl::StatusOr<int> ListReports(const SealedCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay report list"));
  ASSAY_ASSIGN_OR_RETURN(const Json reports, session->client().List("reports"));
  std::vector<std::vector<std::string>> rows;
  for (const Json& report : reports) {
    rows.push_back({report.value("name", ""), report.value("label", ""), report.value("run", ""),
                    TimeText(report.value("create_time", int64_t{0}))});
  }
  context.PrintJson(Json{{"reports", reports}});
  context.Print(TextTable({"REPORT", "LABEL", "RUN", "SEALED"}, rows));
  return kExitSuccess;
}

absl::StatusOr<int> ListReceipts(const SealedCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay receipt list"));
  ASSAY_ASSIGN_OR_RETURN(const Json receipts, session->client().List("receipts"));
  std::vector<std::vector<std::string>> rows;
  for (const Json& receipt : receipts) {
    rows.push_back({receipt.value("name", ""), receipt["leaf_index"].dump(),
                    receipt.value("report", ""),
                    TimeText(receipt.value("create_time", int64_t{0}))});
  }
  context.PrintJson(Json{{"receipts", receipts}});
  context.Print(TextTable({"RECEIPT", "LEAF", "REPORT", "SEALED"}, rows));
  return kExitSuccess;
}

// The document itself, on standard output as it is sealed.
absl::StatusOr<int> Show(Session* session, const Json& ref, uint64_t max_bytes,
                         CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes,
                         session->client().blobs().ReadBytes(ref.value("sha256", ""), max_bytes));
  context.out() << bytes;
  if (bytes.empty() || bytes.back() != '\n') context.out() << "\n";
  return kExitSuccess;
}

absl::StatusOr<int> ShowReceipt(const SealedCommand& command, CliContext& context) {
  if (FileExists(command.name)) {
    if (IsPublishedFile(command.name)) return ShowPublished(command.name, context);
    const std::string file =
        IsDirectory(command.name) ? JoinPath(command.name, kReceiptFile) : command.name;
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kReceiptBytesMax));
    ASSAY_RETURN_IF_ERROR(ParseJson(bytes, file).status());
    context.out() << bytes << (bytes.ends_with("\n") ? "" : "\n");
    return kExitSuccess;
  }
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay receipt show"));
  ASSAY_ASSIGN_OR_RETURN(
      const Json info,
      WithListAdvice(session->client().GetReceipt(FullName("receipts", command.name)),
                     "receipt list", command.session.server));
  return Show(session.get(), info["receipt"], kReceiptBytesMax, context);
}

absl::StatusOr<int> FetchOneReport(const SealedCommand& command, CliContext& context) {
  ASSAY_RETURN_IF_ERROR(CheckCanWriteFolder(command.out));
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay report fetch"));
  const std::string name = FullName("reports", command.name);
  ASSAY_ASSIGN_OR_RETURN(const Json info, WithListAdvice(session->client().GetReport(name),
                                                         "report list", command.session.server));
  const std::string label = command.label.empty() ? info.value("label", "") : command.label;
  ASSAY_RETURN_IF_ERROR(CheckLabel(label));
  ASSAY_RETURN_IF_ERROR(CheckOutFolder(command.out, {label}));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(command.out));
  ASSAY_ASSIGN_OR_RETURN(const SummaryCandidate candidate,
                         FetchReport(&session->client(), name, command.out, label));
  ASSAY_ASSIGN_OR_RETURN(const Summary summary, BuildSummary({candidate}));
  ASSAY_ASSIGN_OR_RETURN(const Json key, session->client().GetPublicKey());
  ASSAY_RETURN_IF_ERROR(WriteSummaryFiles(command.out, summary, {candidate}, key.value("pem", "")));
  context.PrintJson(Json{{"report", name}, {"folder", JoinPath(command.out, label)}});
  PrintSummaryTable(summary.json, {candidate}, context);
  context.Print(fmt::format("\nResults  {}", JoinPath(command.out, label)));
  return kExitSuccess;
}

absl::StatusOr<int> FetchOneReceipt(const SealedCommand& command, CliContext& context) {
  if (IsDirectory(command.out)) {
    return InvalidError("OUT_INVALID", command.out + " is a folder; give --out a file to write");
  }
  ASSAY_RETURN_IF_ERROR(CheckCanWriteFolder(DirName(command.out)));
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay receipt fetch"));
  const std::string name = FullName("receipts", command.name);
  ASSAY_ASSIGN_OR_RETURN(const Json info, WithListAdvice(session->client().GetReceipt(name),
                                                         "receipt list", command.session.server));
  ASSAY_RETURN_IF_ERROR(
      session->client().blobs().Download(info["receipt"].value("sha256", ""), command.out));
  context.PrintJson(Json{{"receipt", name}, {"file", command.out}});
  context.Print(
      fmt::format("{}  {}\nCheck it with: assay verify {}", name, command.out, command.out));
  return kExitSuccess;
}

using Action = absl::StatusOr<int> (*)(const SealedCommand&, CliContext&);

CLI::App* AddOne(CLI::App& parent, CliContext& context, const std::string& name,
                 const std::string& description, const std::string& examples, Action action,
                 const std::shared_ptr<SealedCommand>& command, const char* takes) {
  CLI::App* sub = AddCommand(parent, context, name, description, examples);
  if (takes != nullptr) sub->add_option(takes, command->name, "Name or its ID")->required();
  AddSessionOptions(sub, &command->session);
  OnRun(sub, context, [command, action, &context] { return action(*command, context); });
  return sub;
}

}  // namespace

void AddReportCommand(CLI::App& app, CliContext& context) {
  CLI::App* report = AddGroup(app, "report", "List, show, fetch, compare and check reports",
                              "  assay report list\n"
                              "  assay report fetch reports/1a2b... --out result\n");
  auto command = std::make_shared<SealedCommand>();
  AddOne(*report, context, "list", "List reports", "  assay report list\n", ListReports, command,
         nullptr);
  AddReportShowCommand(*report, context);
  CLI::App* fetch =
      AddOne(*report, context, "fetch",
             "Fetch report, execution record, receipt and position arrays into a folder",
             "  assay report fetch reports/1a2b... --out result --server coordinator:7070\n",
             FetchOneReport, command, "REPORT");
  fetch->add_option("--out", command->out, "Folder for the result")->required();
  fetch->add_option("--label", command->label,
                    "Name of the candidate's folder; default: as in its run");
  AddReportHtmlCommand(*report, context);
  AddReportPairCommand(*report, context);
  AddReportAggregateCommand(*report, context);
  AddReportExportCommand(*report, context);
  AddReportJointCommand(*report, context);
  AddReportVerifyCommand(*report, context);
  AddReportRecomputeCommand(*report, context);
  AddReportCheckCommand(*report, context);
}

void AddReceiptCommand(CLI::App& app, CliContext& context) {
  CLI::App* receipt = AddGroup(app, "receipt", "List, show, fetch and check receipts",
                               "  assay receipt list\n"
                               "  assay receipt fetch receipts/1a2b... --out receipt.json\n");
  auto command = std::make_shared<SealedCommand>();
  AddOne(*receipt, context, "list", "List receipts", "  assay receipt list\n", ListReceipts,
         command, nullptr);
  AddOne(*receipt, context, "show",
         "Print receipt.json of a coordinator or a file; of a published receipt, what it says",
         "  assay receipt show receipts/1a2b... --server coordinator:7070\n"
         "  assay receipt show kld5-10M.json\n",
         ShowReceipt, command, "RECEIPT");
  CLI::App* fetch = AddOne(*receipt, context, "fetch", "Save receipt.json",
                           "  assay receipt fetch receipts/1a2b... --out receipt.json\n",
                           FetchOneReceipt, command, "RECEIPT");
  fetch->add_option("--out", command->out, "File to write")->required();
  AddReceiptVerifyCommand(*receipt, context);
  AddReceiptRecomputeCommand(*receipt, context);
}

}  // namespace assay
