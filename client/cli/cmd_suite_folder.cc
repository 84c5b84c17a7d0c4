// assay suite verify, view: a published suite checked gate by gate, and its shard views.

#include <filesystem>
#include <memory>
#include <set>

#include "client/cli/artefact_commands.h"
#include "client/cli/gate_lines.h"
#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/suite_view.h"
#include "storage/published/suite_folder.h"

namespace assay {
namespace {

constexpr std::string_view kManifestName = "suite-manifest.json";

struct SuiteFolderCommand {
  std::string dir, parent, out, name;
  SuiteViewOptions view;
  bool all = false;
};

absl::StatusOr<int> Verify(const SuiteFolderCommand& command, CliContext& context) {
  if (!IsDirectory(command.dir)) {
    return NotFoundError("FILE_MISSING", command.dir + " is no folder; give the one that holds " +
                                             std::string(kManifestName));
  }
  return PrintGates(command.dir, ExamineSuiteFolder(command.dir, command.parent), context);
}

// A view beside its parent's token files, or with a link to them.
absl::Status WriteView(const std::string& bytes, const std::string& tokens,
                       const std::string& folder) {
  const std::string path = JoinPath(folder, kManifestName);
  if (FileExists(path)) {
    ASSAY_ASSIGN_OR_RETURN(const std::string old, ReadFile(path, kSuiteManifestBytesMax));
    if (old == bytes) return absl::OkStatus();
    return Error(absl::StatusCode::kAlreadyExists, "OUT_SUITE_DIFFERS",
                 path + " is another view; give another --out");
  }
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder));
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(path, bytes));
  std::error_code error;
  const std::string link = JoinPath(folder, "tokens");
  const auto target = std::filesystem::relative(tokens, folder, error);
  if (error || FileExists(link) || IsDirectory(link)) return absl::OkStatus();
  std::filesystem::create_directory_symlink(target, link, error);
  return error ? ErrnoError(error.value(), "linking " + link) : absl::OkStatus();
}

absl::StatusOr<int> View(const SuiteFolderCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const Suite parent, ReadSuite(command.dir));
  SuiteViewOptions options = command.view;
  options.parent = command.name.empty() ? BaseName(command.dir) : command.name;
  const int64_t first = command.all ? 0 : options.shard;
  const int64_t last = command.all ? SuiteShards(parent, options.size) - 1 : options.shard;
  Json views = Json::array();
  std::string text;
  for (options.shard = first; options.shard <= last; ++options.shard) {
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, BuildSuiteView(parent, options));
    const std::string folder = JoinPath(command.out, fmt::format("shard-{:04}", options.shard));
    ASSAY_RETURN_IF_ERROR(WriteView(bytes, JoinPath(command.dir, "tokens"), folder));
    ASSAY_ASSIGN_OR_RETURN(const Suite view, ParseSuiteManifest(bytes, folder));
    views.push_back({{"folder", folder},
                     {"shard", options.shard},
                     {"contexts", view.contexts.size()},
                     {"manifest_sha256", view.manifest_sha256},
                     {"suite_token_sha256", view.suite_token_sha256}});
    text += fmt::format("{}: {} contexts, manifest {}, tokens {}\n", folder, view.contexts.size(),
                        view.manifest_sha256, view.suite_token_sha256);
  }
  context.PrintJson(Json{{"views", views}});
  context.Print(text);
  return kExitSuccess;
}

}  // namespace

void AddSuiteFolderCommands(CLI::App& suite, CliContext& context) {
  auto command = std::make_shared<SuiteFolderCommand>();
  CLI::App* verify = AddCommand(
      suite, context, "verify",
      "Check a suite folder or a shard view: one line for each gate, with pass, FAIL or n/a and\n"
      "why, and one verdict. Exit code 5 when it is refused",
      "  assay suite verify panel/suite\n"
      "  assay suite verify suite/shard-0003 --parent suite --json\n");
  verify->add_option("DIR", command->dir, "Suite folder")->required();
  verify->add_option("--parent", command->parent,
                     "Of a shard view: the suite that it was cut from (default: the folder above)");
  OnRun(verify, context, [command, &context] { return Verify(*command, context); });
  CLI::App* view = AddCommand(
      suite, context, "view",
      "Cut a suite into shard views, byte for byte as the publisher of the v5 suite does. Token\n"
      "files are not copied: a view has a link to those of the suite",
      "  assay suite view suite --shard 3 --out suite\n"
      "  assay suite view suite --all --size 512 --parent-name /work/kld5/suite --out views\n");
  view->add_option("DIR", command->dir, "Suite folder")->required();
  view->add_option("--out", command->out, "Folder to write shard-NNNN into")->required();
  CLI::Option* shard =
      view->add_option("--shard", command->view.shard, "Number of the shard, from 0")
          ->check(CLI::NonNegativeNumber);
  view->add_flag("--all", command->all, "Every shard")->excludes(shard);
  view->add_option("--size", command->view.size, "Contexts of a shard")
      ->check(CLI::Range(int64_t{1}, kSuiteContextsMax))
      ->capture_default_str();
  view->add_option(
      "--parent-name", command->name,
      "What the view calls its suite (shard.parent_suite; default: the folder's name)");
  OnRun(view, context, [command, &context] { return View(*command, context); });
}

}  // namespace assay
