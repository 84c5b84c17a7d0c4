// assay model: register a model's manifest, or list what is registered.

#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/score_job.h"
#include "client/cli/session.h"
#include "client/cli/tables.h"
#include "client/lib/inputs.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/digest_cache.h"
#include "storage/format/model_names.h"

namespace assay {
namespace {

struct ModelCommand {
  SessionOptions session;
  std::string model, name;
  bool upload = false;
};

// models/NAME stands for the path on this node; a transform is given where the name is used.
absl::Status RememberName(const std::string& name, const LocalModel& model) {
  if (name.empty()) return absl::OkStatus();
  if (!model.transform.empty()) {
    return InvalidError("BAD_USAGE", fmt::format("--name names files; give the transform where "
                                                 "the name is used, as in models/{}@{}",
                                                 name, model.transform));
  }
  std::error_code error;
  const std::string path = std::filesystem::absolute(model.path, error).lexically_normal().string();
  return RememberModelName(name, {path, model.manifest.Identity()});
}

absl::StatusOr<int> AddModel(const ModelCommand& command, CliContext& context) {
  if (!command.name.empty()) ASSAY_RETURN_IF_ERROR(CheckModelName(command.name));
  ASSAY_ASSIGN_OR_RETURN(LocalModel model, ParseModelArgument(command.model));
  if (!model.remote_name.empty()) {
    return InvalidError("MODEL_NOT_LOCAL",
                        fmt::format("{} names a model that is registered already; give a file or "
                                    "folder",
                                    command.model));
  }
  ASSAY_ASSIGN_OR_RETURN(const auto digests, DigestCache::Open(DigestCachePath()));
  context.progress().Begin("check model", "");
  ASSAY_RETURN_IF_ERROR(DigestModel(digests.get(), &model));
  context.progress().End();
  ASSAY_RETURN_IF_ERROR(RememberName(command.name, model));
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay model add"));
  ASSAY_ASSIGN_OR_RETURN(const std::string name,
                         RegisterModel(&session->client(), model, command.upload,
                                       [&](std::string_view what, uint64_t done, uint64_t total) {
                                         context.progress().Update(what, "bytes", done, total);
                                         return !Interrupted();
                                       }));
  context.PrintJson(Json{{"name", name}, {"manifest", model.manifest.ToJson()}});
  context.Print(fmt::format("{}\n{} files, {}", name, model.manifest.files.size(),
                            HumanBytes(ModelBytes(model.manifest))));
  if (!command.name.empty()) {
    context.Print(fmt::format("models/{} stands for it on this node", command.name));
  }
  return kExitSuccess;
}

// The names that this node has for a model's files, whatever the transform; "-" for none.
std::string NameOf(ModelManifest manifest, const std::map<std::string, NamedModelPath>& names) {
  manifest.transform = "";
  const std::string identity = manifest.Identity();
  std::string text;
  for (const auto& [name, model] : names) {
    if (model.identity == identity) text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "-" : text;
}

// "model.gguf", "model-00001-of-00004.safetensors and 3 more".
std::string FilesText(const ModelManifest& manifest) {
  std::string first;
  size_t weights = 0;
  for (const ModelFile& file : manifest.files) {
    if (file.path.ends_with(".json")) continue;
    if (weights++ == 0) first = file.path;
  }
  return weights > 1 ? fmt::format("{} and {} more", first, weights - 1) : first;
}

absl::StatusOr<int> ListModels(const ModelCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay model list"));
  ASSAY_ASSIGN_OR_RETURN(const Json models, session->client().List("models"));
  ASSAY_ASSIGN_OR_RETURN(const auto names, ReadModelNames());
  std::vector<std::vector<std::string>> rows;
  for (const Json& model : models) {
    const auto manifest = ParseModelManifest(model["manifest"], model.value("name", ""));
    const std::string in_store = model.value("files_in_store", false) ? "yes" : "no";
    if (!manifest.ok()) {
      rows.push_back({model.value("name", ""), "-", "?", "?", "", in_store});
      continue;
    }
    rows.push_back({model.value("name", ""), NameOf(*manifest, names), FilesText(*manifest),
                    HumanBytes(ModelBytes(*manifest)), manifest->transform, in_store});
  }
  context.PrintJson(Json{{"models", models}});
  context.Print(
      TextTable({"MODEL", "NAME HERE", "WEIGHTS", "SIZE", "TRANSFORM", "IN STORE"}, rows));
  return kExitSuccess;
}

}  // namespace

void AddModelCommand(CLI::App& app, CliContext& context) {
  CLI::App* model = AddGroup(app, "model", "Register and list models",
                             "  assay model add base.gguf --server coordinator:7070\n"
                             "  assay model list --server coordinator:7070\n");
  auto command = std::make_shared<ModelCommand>();
  CLI::App* add = AddCommand(
      *model, context, "add",
      "Digest a model's files and register the manifest, on any host that has them. Workers find\n"
      "the files under their --model-root; with --upload the coordinator keeps them too.\n"
      "A GGUF file base.gguf can then be called models/base.",
      "  assay model add /models/base.gguf --name base\n"
      "  assay model add /models/base.gguf --server coordinator:7070\n"
      "  assay model add /models/base-folder --server coordinator:7070 --upload\n");
  add->add_option("MODEL", command->model, "GGUF file or Hugging Face folder [@TRANSFORM]")
      ->required();
  add->add_option("--name", command->name,
                  "On this node models/NAME stands for the path from now on, wherever a model or a "
                  "head is named (kept in ~/.config/assay/models.json)");
  add->add_flag("--upload", command->upload, "Upload the files as well");
  AddSessionOptions(add, &command->session);
  OnRun(add, context, [command, &context] { return AddModel(*command, context); });
  CLI::App* list = AddCommand(*model, context, "list", "List registered models",
                              "  assay model list --server coordinator:7070\n");
  AddSessionOptions(list, &command->session);
  OnRun(list, context, [command, &context] { return ListModels(*command, context); });
}

}  // namespace assay
