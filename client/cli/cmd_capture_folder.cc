// assay capture inspect, verify: capture folders of every published form.

#include <memory>

#include "client/cli/artefact_commands.h"
#include "client/cli/gate_lines.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/base/status.h"
#include "storage/published/capture_folder.h"
#include "worker/group/group.h"

namespace assay {
namespace {

struct FolderCommand {
  std::string dir, suite, filter;
  int threads = 0;
  bool allow_partial = false;
};

// Two columns, label and value; nothing for null.
class Lines {
 public:
  void Add(const std::string& label, const Json& value) {
    if (value.is_null() || (value.is_structured() && value.empty())) return;
    rows_.push_back({"  " + label, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  std::string Take() const { return TextTable({}, rows_); }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string List(const Json& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 6; ++i)
    out += (i == 0 ? "" : ", ") + names[i].get<std::string>();
  if (names.size() > 6) out += fmt::format(" and {} more", names.size() - 6);
  return out.empty() ? "nothing" : out;
}

std::string StrataText(const Json& json, const char* first, const char* second) {
  if (!json.contains("strata") || json["strata"].empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const Json& stratum : json["strata"]) {
    std::vector<std::string> row = {stratum.value("stratum", "")};
    row.push_back(stratum[first].dump());
    if (second != nullptr) row.push_back(stratum[second].dump());
    rows.push_back(std::move(row));
  }
  std::vector<std::string> header = {"STRATUM", second == nullptr ? "CONTEXTS" : "CAPTURED"};
  if (second != nullptr) header.push_back("IN SUITE");
  return "\n" + TextTable(header, rows);
}

std::string CaptureText(const Json& json) {
  Lines lines;
  lines.Add("form", json["rule"].is_null() ? json["schema"]
                                           : Json("no schema; read under the rule " +
                                                  json["rule"].get<std::string>()));
  lines.Add("content", json["content_sha256"]);
  lines.Add("manifest", json["manifest"].get<std::string>() + ", SHA-256 " +
                            json["manifest_sha256"].get<std::string>());
  lines.Add("suite tokens", json["suite_token_sha256"]);
  lines.Add("model", json["model"]);
  for (const auto& [key, value] : json["identity"].items()) {
    if (key == "assay_model" || key == "shard_sha256") {
      lines.Add(key, fmt::format("{} members", value.size()));
    } else {
      lines.Add(key, value);
    }
  }
  lines.Add("point", json["cut_point"]);
  lines.Add("complete", json["complete"].get<bool>() ? "yes" : "NO");
  lines.Add("filter", json["filter"]);
  if (!json["rows"].is_null()) {
    lines.Add("contexts", fmt::format("{} of {} rows x {} values, {}", json["contexts"].dump(),
                                      json["rows"].dump(), json["width"].dump(),
                                      json["dtype"].is_null() ? "unknown type"
                                                              : json["dtype"].get<std::string>()));
  }
  lines.Add("positions", json["positions"]);
  lines.Add("size", HumanBytes(json["bytes"].get<uint64_t>()));
  lines.Add("engine",
            json["engine"].is_null() ? Json() : Json(json["engine"].dump().substr(0, 300)));
  lines.Add("missing files", List(json["missing_files"]));
  if (!json["unlisted_files"].empty()) lines.Add("no record names", List(json["unlisted_files"]));
  lines.Add("not stated", List(json["not_stated"]));
  if (json.contains("suite_is_its_own") && !json["suite_is_its_own"].get<bool>())
    lines.Add("suite given", "is ANOTHER one than it was captured over");
  return fmt::format("{}: {}; nothing was checked yet: assay capture verify\n{}{}",
                     json["folder"].get<std::string>(), json["what"].get<std::string>(),
                     lines.Take(), StrataText(json, "captured", "in_suite"));
}

std::string DatasetFolderText(const Json& json) {
  Lines lines;
  lines.Add("form", json["schema"]);
  lines.Add("dataset_sha256", json["dataset_sha256"]);
  for (const char* part : {"dataset", "capture", "panel", "head", "runtime", "determinism"}) {
    for (const auto& [key, value] : json[part].items())
      lines.Add(fmt::format("{}.{}", part, key), value);
  }
  for (const char* key : {"repository", "revision", "codec", "declared_bits"}) {
    if (json["weights"].contains(key))
      lines.Add(fmt::format("weights.{}", key), json["weights"][key]);
  }
  lines.Add("scope", json["scope_digest"]);
  lines.Add("coverage", json["coverage"]);
  lines.Add("disclosures", json["disclosures"]);
  return fmt::format("{}: {}; nothing was checked yet: assay capture verify\n{}{}",
                     json["folder"].get<std::string>(), json["what"].get<std::string>(),
                     lines.Take(), StrataText(json, "contexts", nullptr));
}

absl::StatusOr<int> Inspect(const FolderCommand& command, CliContext& context) {
  if (IsDatasetFolder(command.dir)) {
    ASSAY_ASSIGN_OR_RETURN(const Json json, DescribeDatasetFolder(command.dir));
    context.PrintJson(json);
    context.Print(DatasetFolderText(json));
    return kExitSuccess;
  }
  ASSAY_ASSIGN_OR_RETURN(const CaptureFolder folder, ReadCaptureFolder(command.dir));
  Suite suite;
  if (!command.suite.empty()) {
    ASSAY_ASSIGN_OR_RETURN(suite, ReadSuite(command.suite));
  }
  const Json json = DescribeCaptureFolder(folder, command.suite.empty() ? nullptr : &suite);
  context.PrintJson(json);
  context.Print(CaptureText(json));
  return kExitSuccess;
}

absl::StatusOr<int> Verify(const FolderCommand& command, CliContext& context) {
  if (!IsDirectory(command.dir)) {
    return NotFoundError("FILE_MISSING",
                         command.dir + " is no folder; give one that holds a capture or a dataset");
  }
  Suite suite;
  CaptureCheckOptions options;
  if (!command.suite.empty()) {
    ASSAY_ASSIGN_OR_RETURN(suite, ReadSuite(command.suite));
    options.suite = &suite;
  }
  options.filter = command.filter;
  options.allow_partial = command.allow_partial;
  options.threads = command.threads > 0 ? command.threads : AffinityCpus();
  return PrintGates(command.dir, ExamineCaptureFolder(command.dir, options), context);
}

}  // namespace

void AddCaptureFolderCommands(CLI::App& capture, CliContext& context) {
  auto command = std::make_shared<FolderCommand>();
  CLI::App* inspect = AddCommand(
      capture, context, "inspect",
      "Say what a capture folder is, in any published form: identity, sizes, strata, what is\n"
      "missing and what is not stated. Nothing is verified",
      "  assay capture inspect captures/reference --suite suite\n"
      "  assay capture inspect glm53-root --json\n");
  inspect->add_option("DIR", command->dir, "Capture folder or fidelity dataset")->required();
  inspect->add_option("--suite", command->suite, "Its suite, for the strata");
  OnRun(inspect, context, [command, &context] { return Inspect(*command, context); });
  CLI::App* verify = AddCommand(
      capture, context, "verify",
      "Check a capture folder in any published form: one line for each gate, with pass, FAIL or\n"
      "n/a and why, and one verdict. Exit code 5 when it is refused",
      "  assay capture verify captures/reference --suite suite\n"
      "  assay capture verify v3/reference-hidden --suite v3 --json\n"
      "  assay capture verify glm53-root\n");
  verify->add_option("DIR", command->dir, "Capture folder or fidelity dataset")->required();
  verify->add_option("--suite", command->suite,
                     "Its suite: then tokens, rows and coverage are checked too");
  verify->add_option("--filter", command->filter,
                     "Contexts that must be there (default: those the manifest says)");
  verify->add_option("--threads", command->threads, "Threads (0: all CPUs); changes no result")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  verify->add_flag("--allow-partial", command->allow_partial,
                   "Accept a dataset that is a shard or a subset of its panel");
  OnRun(verify, context, [command, &context] { return Verify(*command, context); });
}

}  // namespace assay
