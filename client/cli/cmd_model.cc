// assay model: register a model's manifest, or list what is registered.

#include <memory>

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

namespace assay {
namespace {

struct ModelCommand {
  SessionOptions session;
  std::string model;
  bool upload = false;
};

absl::StatusOr<int> AddModel(const ModelCommand& command, CliContext& context) {
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
  return kExitSuccess;
}

absl::StatusOr<int> ListModels(const ModelCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay model list"));
  ASSAY_ASSIGN_OR_RETURN(const Json models, session->client().List("models"));
  std::vector<std::vector<std::string>> rows;
  for (const Json& model : models) {
    const Json& manifest = model["manifest"];
    const bool readable =
        manifest.is_object() && manifest.contains("files") && !manifest["files"].empty();
    rows.push_back({model.value("name", ""),
                    readable ? manifest["files"][0].value("path", "") : "?",
                    readable ? manifest.value("transform", "") : "",
                    model.value("files_in_store", false) ? "yes" : "no"});
  }
  context.PrintJson(Json{{"models", models}});
  context.Print(TextTable({"MODEL", "FIRST FILE", "TRANSFORM", "IN STORE"}, rows));
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
      "  assay model add /models/base.gguf --server coordinator:7070\n"
      "  assay model add /models/base-folder --server coordinator:7070 --upload\n");
  add->add_option("MODEL", command->model, "GGUF file or Hugging Face folder [@TRANSFORM]")
      ->required();
  add->add_flag("--upload", command->upload, "Upload the files as well");
  AddSessionOptions(add, &command->session);
  OnRun(add, context, [command, &context] { return AddModel(*command, context); });
  CLI::App* list = AddCommand(*model, context, "list", "List registered models",
                              "  assay model list --server coordinator:7070\n");
  AddSessionOptions(list, &command->session);
  OnRun(list, context, [command, &context] { return ListModels(*command, context); });
}

}  // namespace assay
