// assay receipt verify: a receipt against its log as it is now, or as a saved proof shows it.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/published_commands.h"
#include "client/cli/published_files.h"
#include "client/cli/session.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/seal/log_proof.h"
#include "storage/seal/receipt.h"
#include "storage/seal/verify_log.h"

namespace assay {
namespace {

constexpr uint64_t kCheckpointBytesMax = kReceiptBytesMax;  // a note, or a receipt that holds one

struct ReceiptVerify {
  SessionOptions session;
  std::string path, key, proof, save_proof, save_checkpoint;
  std::vector<std::string> older;
};

absl::StatusOr<std::vector<KeptCheckpoint>> ReadOlder(const std::vector<std::string>& paths) {
  std::vector<KeptCheckpoint> kept;
  for (const std::string& path : paths) {
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kCheckpointBytesMax));
    ASSAY_ASSIGN_OR_RETURN(KeptCheckpoint checkpoint, ReadCheckpoint(bytes, path));
    kept.push_back(std::move(checkpoint));
  }
  return kept;
}

absl::StatusOr<std::string> FetchProof(const ReceiptVerify& options, const std::string& receipt,
                                       const std::vector<KeptCheckpoint>& older) {
  ASSAY_ASSIGN_OR_RETURN(const std::string id, ReceiptId(receipt));
  ASSAY_ASSIGN_OR_RETURN(const KeptCheckpoint own, ReadCheckpoint(receipt, options.path));
  std::vector<uint64_t> sizes = {own.note.checkpoint.size};
  for (const KeptCheckpoint& kept : older) sizes.push_back(kept.note.checkpoint.size);
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(options.session, "assay receipt verify"));
  ASSAY_ASSIGN_OR_RETURN(const Json proof, session->client().GetLogProof("receipts/" + id, sizes));
  return CanonicalJson(proof);
}

absl::StatusOr<int> RunReceiptVerify(const ReceiptVerify& options, CliContext& context) {
  if (IsPublishedFile(options.path)) {
    // Nobody who asks for a signature may take "every figure follows" for one.
    if (!options.key.empty() || !options.proof.empty() || !options.session.server.empty() ||
        !options.older.empty()) {
      return InvalidError("RECEIPT_EXPECTED",
                          options.path +
                              " is a published document of another system: no key signed it and no "
                              "log holds it; without --key, --proof, --server and --older its "
                              "figures are checked");
    }
    return VerifyPublished(options.path, context);
  }
  if (options.proof.empty() && options.session.server.empty()) {
    if (!options.older.empty() || !options.save_proof.empty() || !options.save_checkpoint.empty()) {
      return InvalidError("BAD_USAGE",
                          "--older, --save-proof and --save-checkpoint need the log: give "
                          "--server ADDRESS, or --proof FILE");
    }
    return VerifyPath(options.path, options.key, context);
  }
  if (!options.proof.empty() && !options.session.server.empty()) {
    return InvalidError("BAD_USAGE", "give --proof FILE or --server ADDRESS, not both");
  }
  const std::string file =
      IsDirectory(options.path) ? JoinPath(options.path, kReceiptFile) : options.path;
  ASSAY_ASSIGN_OR_RETURN(const std::string receipt, ReadFile(file, kReceiptBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const std::vector<KeptCheckpoint> older, ReadOlder(options.older));
  std::string proof;
  if (options.proof.empty()) {
    ASSAY_ASSIGN_OR_RETURN(proof, FetchProof(options, receipt, older));
  } else {
    ASSAY_ASSIGN_OR_RETURN(proof, ReadFile(options.proof, kLogProofBytesMax));
  }
  // Saved whatever comes of it: a bad proof is evidence.
  if (!options.save_proof.empty()) {
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(options.save_proof, proof));
  }
  const std::string name = options.proof.empty() ? options.session.server : options.proof;
  const Verification verification = VerifyWithProof(options.path, options.key, proof, name, older);
  if (!options.save_checkpoint.empty() && verification.verdict != Verdict::kFailed) {
    ASSAY_ASSIGN_OR_RETURN(const LogProof parsed, ParseLogProof(proof, name));
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(options.save_checkpoint, parsed.checkpoint));
  }
  context.PrintJson(verification.ToJson());
  context.Print(context.quiet ? verification.ToBriefText() : verification.ToText());
  return verification.verdict == Verdict::kValid             ? kExitSuccess
         : verification.verdict == Verdict::kValidUnknownKey ? kExitUnknownKey
                                                             : kExitVerificationFailed;
}

}  // namespace

void AddReceiptVerifyCommand(CLI::App& receipt, CliContext& context) {
  auto options = std::make_shared<ReceiptVerify>();
  CLI::App* command = AddCommand(
      receipt, context, "verify",
      "Check a receipt as assay verify does and, with --server or --proof, that the log of now\n"
      "holds it: its inclusion under the newest signed checkpoint, and that the log of the\n"
      "receipt's own checkpoint, and of every one that you saved (--older), is the beginning of\n"
      "that log. A published receipt of another system is recognized by content and checked as\n"
      "assay report verify does. Exit codes as assay verify.",
      "  assay receipt verify result/int4 --key lab.pub --server coordinator:7070 \\\n"
      "      --older log.checkpoint --save-checkpoint log.checkpoint --save-proof proof.json\n"
      "  assay receipt verify result/int4 --key lab.pub --proof proof.json --older "
      "log.checkpoint\n");
  command->add_option("PATH", options->path, "Candidate folder or receipt")->required();
  command->add_option("--key", options->key,
                      "Public key (PEM) or list of keys (keys.json) that you trust");
  command->add_option("--proof", options->proof, "Proof that was saved (assay-log-proof/1)");
  command->add_option("--older", options->older,
                      "Checkpoint that you saved, or an older receipt; may be given several times");
  command->add_option("--save-proof", options->save_proof, "Keep the proof in this file");
  command->add_option("--save-checkpoint", options->save_checkpoint,
                      "Keep the log's newest checkpoint in this file, for --older next time");
  AddServerOptions(command, &options->session);
  OnRun(command, context, [options, &context] { return RunReceiptVerify(*options, context); });
}

}  // namespace assay
