// assay report export: a result in the form of the published reports.

#include <memory>

#include "client/cli/published_commands.h"
#include "client/cli/published_files.h"
#include "client/cli/report_files.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/head.h"
#include "storage/format/published_schema.h"
#include "storage/report/published_export.h"
#include "storage/report/report.h"

namespace assay {
namespace {

struct ExportCommand {
  std::string name, schema, head, out;
  std::string reference_head, candidate_head;
  PublishedExportInfo info;
};

// The file's digest, when it holds the head that the report names.
absl::StatusOr<std::string> HeadFileDigest(const std::string& path, const Json& used,
                                           const char* whose) {
  if (path.empty()) return std::string();
  ASSAY_ASSIGN_OR_RETURN(const HeadInfo info, InspectHead(path, ""));
  if (info.content_sha256 == used.at("rounded_sha256")) return info.file_sha256;
  return InvalidError("DIGEST_MISMATCH", path + ": it is not the head that was the " + whose +
                                             "'s; give the file that was used");
}

// A published report again: in the form it has, which --schema may leave unsaid.
absl::StatusOr<std::string> ExportPublished(ExportCommand* command) {
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(command->name, kPublishedBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const Json document, ParseJson(bytes, command->name));
  if (command->schema.empty()) command->schema = document.value("schema", "");
  return ReexportPublishedReport(bytes, command->name,
                                 ParsePublishedSchema(command->schema).generation);
}

absl::StatusOr<std::string> Export(const ExportCommand& command) {
  PublishedExportInfo info = command.info;
  info.generation = ParsePublishedSchema(command.schema).generation;
  ASSAY_ASSIGN_OR_RETURN(const std::vector<NamedResult> results, ReadLocalResults(command.name));
  if (results.size() != 1) {
    return InvalidError("BAD_USAGE",
                        command.name + " holds several candidates; give one candidate's folder");
  }
  const NamedResult& result = results.front();
  ASSAY_ASSIGN_OR_RETURN(const std::string head, ChooseHead(result, command.head));
  const Json& heads = result.candidate.report.at("heads").at(head);
  ASSAY_ASSIGN_OR_RETURN(info.head_sha256, HeadFileDigest(command.reference_head,
                                                          heads.at("reference_head"), "reference"));
  info.head = command.reference_head;
  ASSAY_ASSIGN_OR_RETURN(
      info.candidate_head_sha256,
      HeadFileDigest(command.candidate_head, heads.at("candidate_head"), "candidate"));
  info.candidate_head = command.candidate_head;
  if (info.candidate.empty()) info.candidate = result.candidate.label;
  if (info.candidate_model.empty()) info.candidate_model = info.candidate;
  if (info.reference_model.empty()) info.reference_model = info.reference;
  ASSAY_ASSIGN_OR_RETURN(const Json document,
                         ExportPublishedReport(result.candidate.report, head, info));
  return PythonPrettyJson(document);
}

absl::StatusOr<int> RunExport(ExportCommand command, CliContext& context) {
  const bool published = IsPublishedFile(command.name);
  if (command.schema.empty() && !published) {
    return InvalidError("BAD_USAGE",
                        "--schema: say which form to write, such as qwen38-fidelity-report/2 (/3 "
                        "for a result of a window)");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes,
                         published ? ExportPublished(&command) : Export(command));
  if (command.out.empty()) {
    context.out() << bytes;
    return kExitSuccess;
  }
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(command.out, bytes));
  context.PrintJson(Json{{"schema", command.schema}, {"file", command.out}});
  context.Print(fmt::format("{}  {}", command.schema, command.out));
  return kExitSuccess;
}

}  // namespace

void AddReportExportCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<ExportCommand>();
  command->info.reference = "reference";
  CLI::App* add = AddCommand(
      report, context, "export",
      "Write a result in the form of the published reports, for their tools and for report\n"
      "aggregate. What the form cannot say is refused, never dropped. A published report is "
      "written\n"
      "again and must give the same bytes.",
      "  assay report export result/k5 --schema qwen38-fidelity-report/2 --reference-head \\\n"
      "    lm-head/weight.safetensors --out report-k5.json\n");
  add->add_option("REPORT", command->name,
                  "report.json, the folder that holds it, or a published report")
      ->required();
  add->add_option("--schema", command->schema,
                  "Form to write; default for a published report: its own")
      ->check(CLI::IsMember(
          {"qwen38-fidelity-report/1", "qwen38-fidelity-report/2", "qwen38-fidelity-report/3"}));
  add->add_option("--head", command->head,
                  "own (as served) or shared (body only); default: own if there")
      ->check(CLI::IsMember({"own", "shared"}));
  add->add_option("--reference-head", command->reference_head,
                  "File of the reference's head: the form states its name and digest");
  add->add_option("--candidate-head", command->candidate_head,
                  "File of the candidate's head, where it is another");
  add->add_option("--reference-name", command->info.reference,
                  "What the form calls the reference's capture")
      ->capture_default_str();
  add->add_option("--candidate-name", command->info.candidate,
                  "And the candidate's; default: the folder's name");
  add->add_option("--reference-model", command->info.reference_model,
                  "model_path of the reference; default: its name");
  add->add_option("--candidate-model", command->info.candidate_model,
                  "model_path of the candidate; default: its name");
  add->add_option("--out", command->out, "File to write; default: standard output");
  OnRun(add, context, [command, &context] { return RunExport(*command, context); });
}

}  // namespace assay
