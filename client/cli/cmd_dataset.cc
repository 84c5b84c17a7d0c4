// assay dataset: fidelity datasets as published, checked and compared.

#include <ctime>
#include <memory>

#include "client/cli/artefact_commands.h"
#include "client/cli/commands.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/compare.h"
#include "storage/dataset/overlap.h"
#include "storage/dataset/receipt.h"
#include "storage/dataset/verify.h"
#include "worker/group/group.h"

namespace assay {
namespace {

struct DatasetCommand {
  std::string dir;
  DatasetOptions options;
  bool no_tensors = false, strict = false;
};

Json FindingsJson(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& f : findings)
    out.push_back({{"code", f.code}, {"rule", f.rule}, {"message", f.message}});
  return out;
}

std::string FindingLines(const char* kind, const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings)
    out += fmt::format("  {} {} [{}] {}\n", kind, f.code, f.rule, f.message);
  return out;
}

absl::StatusOr<int> RunVerify(DatasetCommand command, CliContext& context) {
  if (!IsDirectory(command.dir)) {
    return NotFoundError("FILE_MISSING",
                         command.dir + " is no folder; give the one that holds a dataset");
  }
  command.options.verify_tensors = !command.no_tensors;
  const DatasetVerdict verdict = VerifyDataset(command.dir, command.options);
  const bool refused = !verdict.ok() || (command.strict && !verdict.findings.warnings.empty());
  Json json = {{"dataset", command.dir}, {"verdict", refused ? "refused" : "valid"}};
  json["gates"] = Json::array();
  std::string text;
  for (const DatasetGate& gate : verdict.gates) {
    json["gates"].push_back({{"gate", gate.name}, {"passed", gate.passed}});
    text += fmt::format("{} {}\n", gate.passed ? "pass" : "FAIL", gate.name);
  }
  if (command.no_tensors) text += "  -- tensors: not read (--no-verify-tensors)\n";
  json["errors"] = FindingsJson(verdict.findings.errors);
  json["warnings"] = FindingsJson(verdict.findings.warnings);
  text += FindingLines("error", verdict.findings.errors);
  text += FindingLines("warning", verdict.findings.warnings);
  text += refused ? fmt::format("REFUSED: {} has {} errors and {} warnings", command.dir,
                                verdict.findings.errors.size(), verdict.findings.warnings.size())
                  : fmt::format(
                        "VALID: {}, dataset_sha256 {}{}", command.dir,
                        DatasetText(DatasetMember(verdict.documents.manifest, {"dataset_sha256"})),
                        verdict.findings.warnings.empty() ? "" : ", with warnings");
  context.PrintJson(json);
  context.Print(text);
  return refused ? kExitVerificationFailed : kExitSuccess;
}

absl::StatusOr<int> RunOverlap(const std::string& dir, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<PanelWindow> windows, ReadPanelWindows(dir));
  const CalibrationOverlap overlap = FindCalibrationOverlap(windows);
  Json json = {{"dataset", dir},
               {"calibration_windows", overlap.calibration_windows},
               {"calibration_runs", overlap.calibration_runs},
               {"threshold", kOverlapThreshold},
               {"windows", Json::array()},
               {"clean", Json::array()}};
  std::string text, clean;
  for (const OverlapRow& row : overlap.rows) {
    json["windows"].push_back({{"window_id", row.window_id},
                               {"fraction", row.fraction},
                               {"scannable", row.scannable},
                               {"same_document", row.same_document},
                               {"excluded", row.excluded}});
    text += fmt::format("{} {}: {:.6f} of its runs of {} tokens are in calibration windows{}{}\n",
                        row.excluded ? "out " : "keep", row.window_id, row.fraction, kOverlapRun,
                        row.same_document ? "; so is its document" : "",
                        row.scannable ? "" : "; too short to tell");
    if (row.excluded) continue;
    json["clean"].push_back(row.window_id);
    clean += (clean.empty() ? "" : ",") + row.window_id;
  }
  text +=
      fmt::format("Clean: {} of {} windows, against {} calibration windows\n{}",
                  json["clean"].size(), overlap.rows.size(), overlap.calibration_windows, clean);
  context.PrintJson(json);
  context.Print(text);
  return kExitSuccess;
}

struct CompareCommand {
  std::string reference, candidate, out, head;
  int64_t vocab_chunk = 0;
  DatasetCompareOptions options;
};

std::string ComparisonText(const Json& summary) {
  const Json& kl = summary["kl"];
  std::string disclosures;
  for (const Json& code : summary["disclosures"]) disclosures += " " + code.get<std::string>();
  return fmt::format(
      "{} ({}): mean KLD {:.9g} nats, median {:.6g}, 99 % {:.6g}, 99.9 % {:.6g}, max {:.6g}\n"
      "same top {:.4f} %, {} positions{}, {}, {}{}\ndisclosures:{}",
      summary["comparison_kind"].get<std::string>(), summary["class"].get<std::string>(),
      kl["mean"].get<double>(), kl["median"].get<double>(), kl["p99"].get<double>(),
      kl["p99_9"].get<double>(), kl["max"].get<double>(),
      100 * summary["top1_agreement"].get<double>(), summary["scored_positions"].get<size_t>(),
      summary["computed"].get<bool>() ? "" : " (proven by digests)",
      summary["stack_relation"].get<std::string>(), summary["head_policy"].get<std::string>(),
      summary["usable_as_floor"].get<bool>() ? ", usable as a noise floor" : "", disclosures);
}

absl::StatusOr<int> RunCompare(CompareCommand command, CliContext& context) {
  if (command.vocab_chunk > 0) command.options.vocab_chunk = command.vocab_chunk;
  if (!command.head.empty()) command.options.head = command.head;
  if (command.options.threads == 0) {
    command.options.threads = AffinityCpus();
  }
  const DatasetComparison result =
      CompareDatasets(command.reference, command.candidate, command.options);
  if (result.relation.refusal) {
    const DatasetRefusal& refusal = *result.relation.refusal;
    return PreconditionError("DATASETS_NOT_COMPARABLE",
                             "gate " + refusal.gate + ", " + refusal.code + ": " + refusal.message);
  }
  if (!command.out.empty()) {
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(command.out));
    ASSAY_RETURN_IF_ERROR(
        WriteFileAtomic(JoinPath(command.out, "tokenwise-kld.npy"), TokenwiseNpy(result.windows)));
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(command.out, "comparison.json"),
                                          PythonPrettyJson(result.summary) + "\n"));
    ComparisonReceiptInfo info;
    info.created_utc = TimeText(std::time(nullptr) * 1000);
    info.computed = result.computed;
    const Json receipt =
        ComparisonReceipt(result.reference, result.candidate, result, command.options, info);
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(command.out, "comparison-receipt.json"),
                                          DatasetPrettyJson(receipt)));
  }
  context.PrintJson(result.summary);
  context.Print(ComparisonText(result.summary));
  return kExitSuccess;
}

void AddDatasetCompare(CLI::App& dataset, CliContext& context) {
  auto command = std::make_shared<CompareCommand>();
  command->options.threads = 0;
  CLI::App* compare = AddCommand(
      dataset, context, "compare",
      "Compare a candidate dataset with its reference by the published gates and estimator "
      "(float32 products, float64 softmax). Both are verified first. Products take a plain loop: "
      "for "
      "large heads, assay replay is many times as fast",
      "  assay dataset compare glm53-root glm53-k6 --out comparison\n"
      "  assay dataset compare root rerun --self-compare\n");
  compare->add_option("REFERENCE", command->reference, "Dataset folder of the reference")
      ->required();
  compare->add_option("CANDIDATE", command->candidate, "Dataset folder of the candidate")
      ->required();
  compare->add_option("--out", command->out,
                      "Folder for comparison.json, tokenwise-kld.npy and the published form\n"
                      "comparison-receipt.json");
  DatasetCompareOptions* options = &command->options;
  compare->add_flag("--own-heads", options->own_heads, "Each side through its own head");
  compare->add_flag("--disclose-head-substitution", options->disclose_head_substitution,
                    "Other heads: both sides through the reference's; the result says so");
  compare->add_option("--head", command->head, "Head file, where the payload was not shipped");
  compare->add_flag("--allow-cross-lane", options->allow_cross_lane,
                    "Accept captures of different engines; the result is advisory");
  compare->add_flag("--allow-partial", options->allow_partial,
                    "Compare the records that both hold");
  compare->add_flag("--self-compare", options->self_compare, "Refuse anything but a reproduction");
  compare->add_flag("--force-compute", options->force_compute,
                    "Compute a reproduction too; every value must be exactly 0");
  compare
      ->add_option("--vocab-chunk", command->vocab_chunk,
                   "Columns at a time (0: all); changes no result")
      ->check(CLI::Range(0, 1 << 30));
  compare
      ->add_option("--position-block", options->position_block, "Rows at a time; changes no result")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  compare->add_option("--threads", options->threads, "Threads (0: all CPUs); changes no result")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  OnRun(compare, context, [command, &context] { return RunCompare(*command, context); });
}

}  // namespace

void AddDatasetCommand(CLI::App& app, CliContext& context) {
  CLI::App* dataset = AddGroup(app, "dataset", "Check and compare fidelity datasets as published",
                               "  assay dataset verify glm53-root\n"
                               "  assay dataset compare glm53-root glm53-k6\n");
  auto command = std::make_shared<DatasetCommand>();
  CLI::App* verify = AddCommand(*dataset, context, "verify",
                                "Check every seal, digest and rule of a dataset folder: one line "
                                "for each gate, and a verdict. "
                                "Exit code 5 when it is refused",
                                "  assay dataset verify glm53-root\n"
                                "  assay dataset verify shard-3 --allow-partial --json\n");
  verify->add_option("DIR", command->dir, "Folder that holds fidelity-dataset.json")->required();
  verify->add_flag("--manifest-only", command->options.manifest_only,
                   "Check the top manifest alone");
  verify->add_flag("--allow-partial", command->options.allow_partial,
                   "Accept a shard or a subset of the panel");
  verify->add_flag("--no-verify-tensors", command->no_tensors, "Do not read the tensors");
  verify->add_flag("--strict", command->strict, "Refuse on warnings too");
  OnRun(verify, context, [command, &context] { return RunVerify(*command, context); });
  AddDatasetCompare(*dataset, context);
  AddDatasetPackCommand(*dataset, context);
  auto panel = std::make_shared<std::string>();
  CLI::App* overlap =
      AddCommand(*dataset, context, "overlap",
                 "Which final windows share text with the panel's calibration windows, and so do "
                 "not count as clean. The ids printed last fit report joint --only",
                 "  assay dataset overlap glm53-root\n");
  overlap->add_option("DIR", *panel, "Folder that holds panel/panel.json")->required();
  OnRun(overlap, context, [panel, &context] { return RunOverlap(*panel, context); });
}

}  // namespace assay
