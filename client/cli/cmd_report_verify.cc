// assay report verify, report recompute, receipt verify, receipt recompute: documents of others,
// recognized by content and recomputed.

#include <algorithm>
#include <memory>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/gate_lines.h"
#include "client/cli/published_commands.h"
#include "client/cli/published_files.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/published/examine.h"
#include "storage/published/recompute.h"
#include "storage/seal/pack.h"

namespace assay {
namespace {

struct VerifyCommand {
  std::vector<std::string> files, inputs;
  std::string suite, out, key;
  bool recompute = false;
};

// What the inputs of `recompute` are read from, once for all files.
struct Sources {
  PublishedInputs inputs;
  Suite suite;
  bool has_suite = false;
};

absl::StatusOr<Sources> ReadSources(const VerifyCommand& command) {
  Sources sources;
  for (const std::string& path : command.inputs) {
    ASSAY_RETURN_IF_ERROR(sources.inputs.Add(path));
  }
  if (command.suite.empty()) return sources;
  ASSAY_ASSIGN_OR_RETURN(sources.suite, ReadSuiteManifestAt(command.suite));
  sources.has_suite = true;
  return sources;
}

absl::Status Recompute(const VerifyCommand& command, const std::string& file,
                       const std::string& bytes, const Sources& sources,
                       PublishedExamination* examination) {
  const absl::StatusOr<Json> document =
      RecomputePublished(bytes, file, sources.inputs, sources.has_suite ? &sources.suite : nullptr);
  AddRecomputed(bytes, document, examination);
  if (command.out.empty() || !document.ok()) return absl::OkStatus();
  return WriteFileAtomic(command.out, PythonPrettyJson(*document));
}

// Where assay verify finds a result of Assay's own that `path` is, or is part of; "" for others.
std::string OwnResult(const std::string& path) {
  if (IsDirectory(path) || IsPackedResult(path)) return path;
  const absl::StatusOr<Json> document = ReadJsonFile(path, kPublishedBytesMax);
  if (!document.ok()) return "";
  const std::string schema = DatasetText(DatasetMember(*document, {"schema"}));
  if (schema.rfind("assay-receipt/", 0) == 0) return path;
  return schema.rfind("assay-report/", 0) == 0 ? DirName(path) : "";
}

// Recomputed from the arrays beside it, so it needs no inputs.
absl::StatusOr<int> VerifyOwn(const VerifyCommand& command, CliContext& context) {
  if (command.files.size() > 1) {
    return InvalidError("BAD_USAGE", "give one result of Assay's at a time");
  }
  if (!command.inputs.empty() || !command.suite.empty() || !command.out.empty()) {
    return InvalidError("BAD_USAGE",
                        "--inputs, --suite and --out are for published documents; a result of "
                        "Assay's is recomputed from the arrays beside it");
  }
  return VerifyPath(OwnResult(command.files.front()), command.key, context);
}

absl::StatusOr<int> RunVerify(const VerifyCommand& command, CliContext& context) {
  if (std::any_of(command.files.begin(), command.files.end(),
                  [](const std::string& file) { return !OwnResult(file).empty(); })) {
    return VerifyOwn(command, context);
  }
  if (!command.key.empty()) {
    return InvalidError("RECEIPT_EXPECTED",
                        "no key signs published documents; without --key figures are checked");
  }
  if (!command.out.empty() && command.files.size() > 1) {
    return InvalidError("BAD_USAGE", "--out takes the document of one file; give one");
  }
  ASSAY_ASSIGN_OR_RETURN(const Sources sources, ReadSources(command));
  Json documents = Json::array();
  std::string text;
  bool ok = true;
  for (const std::string& file : command.files) {
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kPublishedBytesMax));
    ASSAY_ASSIGN_OR_RETURN(PublishedExamination examination, ExaminePublished(bytes, file));
    if (command.recompute) {
      ASSAY_RETURN_IF_ERROR(Recompute(command, file, bytes, sources, &examination));
    }
    Json json = {{"file", file},
                 {"schema", examination.schema},
                 {"what", examination.what},
                 {"valid", examination.ok()},
                 {"checked", examination.checked()}};
    text += fmt::format("{}: {}{}\n", file, examination.what,
                        examination.schema.empty() ? "" : " (" + examination.schema + ")");
    for (const PublishedCheck& check : examination.checks) {
      const GateWords words = WordsOf(check.outcome);
      text += fmt::format("  {:>4} {}: {}\n", words.line, check.gate, check.detail);
      json["checks"].push_back(
          {{"gate", check.gate}, {"outcome", words.json}, {"detail", check.detail}});
    }
    text += !examination.ok() ? "REFUSED: see the lines marked FAIL\n"
            : examination.checked()
                ? "VALID: everything that was checked; what was not is marked --\n"
                : "NOT CHECKED: no figure follows from the document alone\n";
    ok = ok && examination.ok();
    documents.push_back(std::move(json));
  }
  context.PrintJson(Json{{"documents", documents}, {"valid", ok}});
  context.Print(text);
  return ok ? kExitSuccess : kExitVerificationFailed;
}

void AddKey(CLI::App* app, VerifyCommand* command) {
  app->add_option("--key", command->key,
                  "For a result of Assay's: public key (PEM) or list of keys that you trust");
}

void AddRecompute(CLI::App& parent, CliContext& context, const std::string& noun) {
  auto command = std::make_shared<VerifyCommand>();
  command->recompute = true;
  CLI::App* recompute = AddCommand(
      parent, context, "recompute",
      "As verify, and compute the document again from the documents that it names: comparisons\n"
      "from their reports, aggregates from shard reports and suite. It must have the same bytes.",
      "  assay " + noun + " recompute k5-10M.json --inputs shards --suite suite\n" + "  assay " +
          noun + " recompute paired.json --inputs a.json --inputs b.json --out again.json\n");
  recompute
      ->add_option("FILE", command->files,
                   "Published documents, or one result of Assay's, recomputed from its arrays")
      ->required();
  AddKey(recompute, command.get());
  recompute
      ->add_option("--inputs", command->inputs,
                   "File, or folder of .json files, that documents name; found by digest")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  recompute->add_option("--suite", command->suite, "Folder or manifest of the suite");
  recompute->add_option("--out", command->out, "File for the document that was computed");
  OnRun(recompute, context, [command, &context] { return RunVerify(*command, context); });
}

}  // namespace

void AddReportVerifyCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<VerifyCommand>();
  CLI::App* verify = AddCommand(
      report, context, "verify",
      "Check published reports of other systems (and their suite and capture manifests, audits,\n"
      "dataset documents): recognized by content, everything that follows from the document is\n"
      "computed again, one line for each gate. Exit code 5 when a figure differs. A result of\n"
      "Assay's own is checked as assay verify does.",
      "  assay report verify FILE.json\n"
      "  assay report verify result/int4 --key lab.pub\n");
  verify->add_option("FILE", command->files, "Documents, or one result of Assay's")->required();
  AddKey(verify, command.get());
  OnRun(verify, context, [command, &context] { return RunVerify(*command, context); });
}

void AddReportRecomputeCommand(CLI::App& report, CliContext& context) {
  AddRecompute(report, context, "report");
}

void AddReceiptRecomputeCommand(CLI::App& receipt, CliContext& context) {
  AddRecompute(receipt, context, "receipt");
}

absl::StatusOr<int> VerifyPublished(const std::string& file, CliContext& context) {
  VerifyCommand command;
  command.files = {file};
  return RunVerify(command, context);
}

}  // namespace assay
