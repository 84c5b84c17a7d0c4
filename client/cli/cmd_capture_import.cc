// assay capture import: a capture made of files that another engine has written.

#include "client/cli/cmd_capture_import.h"

#include <charconv>
#include <memory>

#include "client/cli/interrupt.h"
#include "client/cli/score_job.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_names.h"
#include "storage/vllm/import.h"

namespace assay {
namespace {

struct ImportOptions {
  VllmImportRequest request;
  std::string cut, axes, layer_ids, store = "bf16";
  std::vector<std::string> stack;
};

// "N,N,...", each up to kLayerIdMax.
absl::StatusOr<std::vector<int64_t>> ReadLayerIds(const std::string& text) {
  constexpr int64_t kLayerIdMax = 1 << 20;
  std::vector<int64_t> ids;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end) {
    int64_t id = -1;
    const auto [rest, error] = std::from_chars(at, end, id);
    const bool last = rest == end;
    if (error != std::errc() || id < 0 || id > kLayerIdMax || (!last && *rest != ',') ||
        (!last && rest + 1 == end)) {
      return InvalidError(
          "BAD_USAGE",
          fmt::format("--layer-ids {}: give numbers with commas, as in 2,18,36", text));
    }
    ids.push_back(id);
    at = last ? end : rest + 1;
  }
  return ids;
}

absl::Status ReadOptions(ImportOptions* options) {
  VllmImportRequest& request = options->request;
  ASSAY_ASSIGN_OR_RETURN(request.layer_ids, ReadLayerIds(options->layer_ids));
  ASSAY_ASSIGN_OR_RETURN(request.final_norm, ModelPathOf(request.final_norm));
  request.before_norm = options->cut == "before_final_norm";
  if (!options->axes.empty()) {
    request.axes =
        options->axes == "tokens-first" ? VllmAxes::kTokensFirst : VllmAxes::kLayersFirst;
  }
  request.store = options->store == "bf16"  ? HiddenStore::kBf16
                  : options->store == "f32" ? HiddenStore::kF32
                                            : HiddenStore::kKeep;
  for (const std::string& pair : options->stack) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidError("BAD_USAGE", fmt::format("--stack {}: write KEY=VALUE", pair));
    }
    request.stack[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunImport(ImportOptions& options, CliContext& context) {
  ASSAY_RETURN_IF_ERROR(ReadOptions(&options));
  const VllmImportRequest& request = options.request;
  ASSAY_ASSIGN_OR_RETURN(const auto digests, DigestCache::Open(DigestCachePath()));
  context.progress().Begin("import", "");
  VllmImportHooks hooks;
  hooks.progress = [&](uint64_t done, uint64_t total) {
    context.progress().Update("import", "contexts", done, total);
  };
  hooks.interrupted = [] { return Interrupted(); };
  ASSAY_ASSIGN_OR_RETURN(const VllmImportResult result, ImportVllm(request, digests.get(), hooks));
  context.progress().End();
  for (const std::string& path : result.unused) {
    context.progress().Note(fmt::format("{} belongs to no context of the suite", path));
  }
  context.PrintJson(Json{{"capture", request.out},
                         {"content_sha256", result.content_sha256},
                         {"imported", result.imported},
                         {"kept", result.kept},
                         {"unused", result.unused},
                         {"manifest", result.manifest}});
  context.Print(fmt::format("{}: {} contexts imported, {} kept from before\ncontent {}",
                            request.out, result.imported, result.kept, result.content_sha256));
  return kExitSuccess;
}

void AddVllmOptions(CLI::App* command, ImportOptions* options) {
  VllmImportRequest& request = options->request;
  command
      ->add_option("DIR", request.folder,
                   "Folder of the extracted files (vLLM's shared_storage_path)")
      ->required();
  command
      ->add_option("--cut", options->cut,
                   "Where the states were taken; vLLM's last layer lies before the final norm")
      ->required()
      ->check(CLI::IsMember({"before_final_norm", "after_final_norm"}));
  command->add_option("--final-norm", request.final_norm,
                      "Hugging Face folder whose final norm is applied (with before_final_norm)");
  command->add_option(
      "--layer-ids", options->layer_ids,
      "N,N,...: eagle_aux_hidden_state_layer_ids, when a file holds several layers");
  command->add_option("--axes", options->axes, "Only where the shape does not say it")
      ->check(CLI::IsMember({"tokens-first", "layers-first"}));
  command->add_option("--suite", request.suite_dir, "Suite folder")->required();
  command->add_option("--out", request.out, "Capture directory to write")->required();
  command->add_option("--filter", request.filter, "Contexts: all, sentinel, or a partition")
      ->capture_default_str();
  command->add_option("--model", request.model,
                      "Name of the model in the manifest (default: that of --final-norm)");
  command
      ->add_option("--engine-version", request.engine_version, "Version of vLLM, for the manifest")
      ->capture_default_str();
  command
      ->add_option("--stack", options->stack,
                   "KEY=VALUE: where it ran (gpu, flags, image), for the manifest; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--store", options->store,
                   "What is stored: bf16 (rounded to nearest even), keep or f32")
      ->check(CLI::IsMember({"bf16", "keep", "f32"}))
      ->capture_default_str();
}

}  // namespace

void AddCaptureImportCommands(CLI::App& capture, CliContext& context) {
  CLI::App* import = AddGroup(capture, "import", "Make a capture of files of another engine",
                              "  assay capture import vllm-hidden-states extracted "
                              "--cut before_final_norm \\\n"
                              "      --final-norm model --suite suite --out capture\n");
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = AddCommand(
      *import, context, "vllm-hidden-states",
      "Make a capture of the files of vLLM's hidden-state extractor (method "
      "extract_hidden_states).\n"
      "Files are matched to contexts by their token ids. The cut is never guessed. An import that\n"
      "was broken off is continued by the same command.",
      "  assay capture import vllm-hidden-states extracted --cut before_final_norm \\\n"
      "      --final-norm model --engine-version 0.20.2 --suite suite --out capture\n");
  AddVllmOptions(command, options.get());
  OnRun(command, context, [options, &context] { return RunImport(*options, context); });
}

}  // namespace assay
