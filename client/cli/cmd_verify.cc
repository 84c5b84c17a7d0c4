// assay verify: checks receipts and result folders, with no server.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/published_commands.h"
#include "client/cli/published_files.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/report.h"
#include "storage/seal/pack.h"
#include "storage/seal/receipt.h"
#include "storage/seal/verify.h"

namespace assay {
namespace {

struct VerifyOptions {
  std::string path, key;
};

// A report is not what vouches for itself, and a model or an archive is no result at all: nothing
// would be checked, so nothing is wrong but the path. Damaged receipts are for verify to judge.
absl::Status CheckIsNoReport(const std::string& path) {
  if (IsDirectory(path) || IsPackedResult(path)) return absl::OkStatus();
  const absl::StatusOr<std::string> bytes = ReadFile(path, kReportBytesMax);
  const std::string advice = "; give the folder that assay score wrote, or a receipt.json";
  if (!bytes.ok()) return Annotate(bytes.status(), "verify: not a receipt" + advice);
  const absl::StatusOr<Json> json = ParseJson(*bytes, path);
  if (!json.ok() && bytes->size() > kReceiptBytesMax) {
    return InvalidError("RECEIPT_EXPECTED", path + " is no receipt" + advice);
  }
  if (!json.ok() || !json->is_object()) return absl::OkStatus();
  const std::string schema = json->contains("schema") && json->at("schema").is_string()
                                 ? json->at("schema").get<std::string>()
                                 : "";
  if (IsPublishedFile(path)) {
    return InvalidError("RECEIPT_EXPECTED", path +
                                                " is a published document of another system, which "
                                                "no key signed; assay report verify checks it");
  }
  if (schema.rfind("assay-report/", 0) != 0) return absl::OkStatus();
  return InvalidError("RECEIPT_EXPECTED", path + " is a report" + advice);
}

absl::StatusOr<int> RunVerify(const VerifyOptions& options, CliContext& context) {
  if (!FileExists(options.path) && !IsDirectory(options.path)) {
    return NotFoundError("FILE_MISSING", options.path +
                                             " does not exist; give the folder that "
                                             "assay score wrote, or a receipt.json");
  }
  ASSAY_RETURN_IF_ERROR(CheckIsNoReport(options.path));
  if (!options.key.empty()) {
    if (!FileExists(options.key)) {
      return NotFoundError("FILE_MISSING", options.key +
                                               " does not exist; --key takes a public key "
                                               "in PEM form, such as key.pub");
    }
    ASSAY_RETURN_IF_ERROR(Annotate(CheckTrustFile(options.key), "--key"));
  }
  const Verification verification = IsPackedResult(options.path)
                                        ? VerifyPackedResult(options.path, options.key)
                                        : VerifyDirectory(options.path, options.key);
  for (const Gate& gate : verification.gates) {
    // Nothing was checked, so nothing is wrong but the path.
    if (gate.reason == "NOTHING_TO_VERIFY") return NotFoundError(gate.reason, gate.message);
  }
  context.PrintJson(verification.ToJson());
  context.Print(context.quiet ? verification.ToBriefText() : verification.ToText());
  switch (verification.verdict) {
    case Verdict::kValid:
      return kExitSuccess;
    case Verdict::kValidUnknownKey:
      return kExitUnknownKey;
    case Verdict::kFailed:
      break;
  }
  return kExitVerificationFailed;
}

}  // namespace

absl::StatusOr<int> VerifyPath(const std::string& path, const std::string& key,
                               CliContext& context) {
  return RunVerify({path, key}, context);
}

void AddVerifyCommand(CLI::App& app, CliContext& context) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = AddCommand(
      app, context, "verify",
      "Check receipts, and everything beside them, with no server: signatures, log proofs,\n"
      "digests, statistics and summaries recomputed. Files that a result does not consist of are\n"
      "listed as not covered. Without --key a good receipt is \"valid for an unknown key\" (exit\n"
      "code 6); anything wrong is exit code 5.",
      "  assay verify result --key lab.pub\n"
      "  assay verify result/int4/receipt.json --key result/key.pub\n"
      "  assay verify result.tar --key lab.pub\n");
  command->get_option("--quiet")->description("Print only what failed and the verdict");
  command
      ->add_option("PATH", options->path,
                   "Result folder, candidate folder, receipt, or a file of assay pack")
      ->required();
  command->add_option("--key", options->key,
                      "Public key (PEM) or list of keys (keys.json) that you trust");
  OnRun(command, context, [options, &context] { return RunVerify(*options, context); });
}

}  // namespace assay
