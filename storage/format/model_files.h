// Which files of a path make up a model: one rule, used by manifests and by loading.

#ifndef ASSAY_STORAGE_FORMAT_MODEL_FILES_H_
#define ASSAY_STORAGE_FORMAT_MODEL_FILES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace assay {

struct ModelFiles {
  bool gguf = false;
  std::string root;                  // folder that the names below are relative to
  std::vector<std::string> weights;  // the GGUF file, or safetensors files; sorted, safe paths
  // config.json, the index when it is used, tokenizer and generation files that are there.
  std::vector<std::string> others;
  // Tensor name -> weight file, from the index; empty when there is none.
  std::map<std::string, std::string, std::less<>> weight_map;
};

// A file that starts with "GGUF", or a folder with config.json and safetensors weights as
// transformers picks them: model.safetensors, else the files of model.safetensors.index.json; else
// the only *.safetensors file. MODEL_MISSING, MODEL_UNRECOGNISED (says what is looked for),
// MODEL_INDEX_INVALID, PATH_UNSAFE, FILE_MISSING (a shard that the index names).
absl::StatusOr<ModelFiles> ResolveModelFiles(const std::string& model_path);

// PATH_UNSAFE naming link and target unless every file of a folder lies, with links followed, in
// the folder or, when that is a snapshot of a Hugging Face cache (REPO/snapshots/REVISION), in
// REPO/blobs. For folders that a person names: a folder of links may hold anything. A GGUF file is
// named itself, so it may be a link.
absl::Status CheckModelLinks(const ModelFiles& files);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_MODEL_FILES_H_
