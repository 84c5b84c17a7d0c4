// assay dataset pack: a dataset in the published layout, made from a capture.

#include <memory>

#include "client/cli/artefact_commands.h"
#include "client/cli/interrupt.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/dataset/pack.h"
#include "storage/format/capture.h"
#include "worker/group/offline.h"
#include "worker/group/offline_heads.h"

namespace assay {
namespace {

constexpr uint64_t kDescriptionMax = uint64_t{64} << 20;

struct PackDatasetCommand {
  std::string capture, suite, head, description, out, id, form = "hidden";
  bool no_masks = false;
};

absl::StatusOr<int> RunPack(const PackDatasetCommand& command, CliContext& context) {
  DatasetPackRequest request;
  request.form = command.form == "logit" ? DatasetForm::kLogit : DatasetForm::kHidden;
  request.masks = !command.no_masks;
  if (!command.description.empty()) {
    ASSAY_ASSIGN_OR_RETURN(request.description, ReadJsonFile(command.description, kDescriptionMax));
  }
  if (!command.id.empty() && request.description.is_object())
    request.description["dataset"]["id"] = command.id;
  ASSAY_ASSIGN_OR_RETURN(request.suite, ReadSuite(command.suite));
  ASSAY_ASSIGN_OR_RETURN(const CaptureManifest manifest, ReadCaptureManifest(command.capture));
  const std::string filter = manifest.filter.empty() ? "all" : manifest.filter;
  ASSAY_ASSIGN_OR_RETURN(const CaptureDir capture, OpenCapture(command.capture, request.suite,
                                                               filter, /*verify_digests=*/true));
  for (const SuiteContext& row : request.suite.contexts) {
    const auto file = capture.files.find(row.index);
    request.hidden.push_back(file == capture.files.end() ? "" : file->second);
  }
  ASSAY_ASSIGN_OR_RETURN(const auto work, WorkFolder::Lock(DirName(command.out)));
  std::unique_ptr<Group> group;
  const GroupSource source = [&]() -> absl::StatusOr<Group*> {
    OfflineHooks hooks;
    hooks.interrupted = [] { return Interrupted(); };
    ASSAY_ASSIGN_OR_RETURN(group, StartOfflineGroup({}, /*capture=*/false, work->path(), hooks));
    return group.get();
  };
  ASSAY_ASSIGN_OR_RETURN(const OfflineHead head,
                         PrepareHead({command.head, "none", std::nullopt}, source, work->path()));
  request.head_file = head.file;
  request.head_tensor = head.tensor;
  context.progress().Begin("write and verify the dataset", "");
  ASSAY_RETURN_IF_ERROR(PackDataset(request, command.out));
  context.progress().End();
  context.PrintJson(Json{{"dataset", command.out},
                         {"form", command.form},
                         {"records", capture.files.size()},
                         {"contexts", request.suite.contexts.size()}});
  context.Print(fmt::format(
      "{}: {} of {} contexts, {} form; verified with every gate\nWhat the description leaves out "
      "is null or \"unknown\" in it. Check it again with: assay dataset verify {}",
      command.out, capture.files.size(), request.suite.contexts.size(), command.form, command.out));
  return kExitSuccess;
}

}  // namespace

void AddDatasetPackCommand(CLI::App& dataset, CliContext& context) {
  auto command = std::make_shared<PackDatasetCommand>();
  CLI::App* pack = AddCommand(
      dataset, context, "pack",
      "Make a fidelity dataset in the published layout from a capture. Digests, counts, coverage\n"
      "and seals are computed; names, licence, scope, tokenizer and runtime come from a "
      "description\n"
      "(docs/formats/fidelity-dataset.md). Verified before it appears.",
      "  assay dataset pack captures/reference --suite suite --head hf-folder \\\n"
      "      --description about.json --out my-root\n"
      "  assay dataset pack captures/int4 --suite suite --head head.safetensors --form logit \\\n"
      "      --id fidelity--me.int4 --out my-int4\n");
  pack->add_option("CAPTURE", command->capture, "Capture folder")->required();
  pack->add_option("--suite", command->suite, "Its suite")->required();
  pack->add_option("--head", command->head, "Its head: FILE[:TENSOR] or a model")->required();
  pack->add_option("--out", command->out, "Folder to write; it must not exist")->required();
  pack->add_option("--description", command->description, "JSON file");
  pack->add_option("--id", command->id, "dataset.id, where the description has none");
  pack->add_option("--form", command->form,
                   "hidden: the states; logit: their product with the head, in float32")
      ->check(CLI::IsMember({"hidden", "logit"}))
      ->capture_default_str();
  pack->add_flag("--no-masks", command->no_masks, "Write no attention masks (all ones)");
  OnRun(pack, context, [command, &context] { return RunPack(*command, context); });
}

}  // namespace assay
