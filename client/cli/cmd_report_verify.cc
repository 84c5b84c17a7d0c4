// assay report verify: published documents, recognized by content and recomputed.

#include <memory>
#include <vector>

#include "client/cli/commands.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/published/examine.h"

namespace assay {
namespace {

constexpr uint64_t kDocumentBytesMax = uint64_t{1} << 30;

struct VerifyCommand {
  std::vector<std::string> files;
};

const char* Word(PublishedOutcome outcome) {
  switch (outcome) {
    case PublishedOutcome::kPass:
      return "pass";
    case PublishedOutcome::kFail:
      return "FAIL";
    case PublishedOutcome::kNotChecked:
      return "  --";
  }
  return "";
}

absl::StatusOr<int> RunVerify(const VerifyCommand& command, CliContext& context) {
  Json documents = Json::array();
  std::string text;
  bool ok = true;
  for (const std::string& file : command.files) {
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kDocumentBytesMax));
    ASSAY_ASSIGN_OR_RETURN(const PublishedExamination examination, ExaminePublished(bytes, file));
    Json json = {{"file", file}, {"schema", examination.schema}, {"valid", examination.ok()}};
    text += fmt::format("{}: {} ({})\n", file, examination.what, examination.schema);
    for (const PublishedCheck& check : examination.checks) {
      text += fmt::format("  {} {}: {}\n", Word(check.outcome), check.gate, check.detail);
      json["checks"].push_back(
          {{"gate", check.gate},
           {"outcome", check.outcome == PublishedOutcome::kPass   ? "pass"
                       : check.outcome == PublishedOutcome::kFail ? "fail"
                                                                  : "not_checked"},
           {"detail", check.detail}});
    }
    text += examination.ok() ? "VALID: everything that follows from the document itself\n"
                             : "REFUSED: see the lines marked FAIL\n";
    ok = ok && examination.ok();
    documents.push_back(std::move(json));
  }
  context.PrintJson(Json{{"documents", documents}, {"valid", ok}});
  context.Print(text);
  return ok ? kExitSuccess : kExitVerificationFailed;
}

}  // namespace

void AddReportVerifyCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<VerifyCommand>();
  CLI::App* verify = AddCommand(report, context, "verify",
                                "Check published reports, aggregates, paired comparisons, suite "
                                "and capture manifests, dataset "
                                "documents and receipts of other systems: recognized by content, "
                                "everything that follows from the "
                                "document is recomputed, and what can't be is named. Exit code 5 "
                                "when a figure differs. Assay's own "
                                "results: assay verify",
                                "  assay report verify report.json\n"
                                "  assay report verify receipts/*.json --json\n");
  verify->add_option("FILE", command->files, "Documents")->required();
  OnRun(verify, context, [command, &context] { return RunVerify(*command, context); });
}

}  // namespace assay
