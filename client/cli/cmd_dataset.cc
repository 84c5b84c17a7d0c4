// assay dataset: fidelity datasets as published, checked and compared.

#include <memory>

#include "client/cli/commands.h"
#include "fmt/format.h"
#include "storage/dataset/verify.h"

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
                  : fmt::format("VALID: {}, dataset_sha256 {}{}", command.dir,
                                DatasetText(DatasetMember(verdict.manifest, {"dataset_sha256"})),
                                verdict.findings.warnings.empty() ? "" : ", with warnings");
  context.PrintJson(json);
  context.Print(text);
  return refused ? kExitVerificationFailed : kExitSuccess;
}

}  // namespace

void AddDatasetCommand(CLI::App& app, CliContext& context) {
  CLI::App* dataset = AddGroup(app, "dataset", "Check fidelity datasets as published",
                               "  assay dataset verify glm53-root\n");
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
}

}  // namespace assay
