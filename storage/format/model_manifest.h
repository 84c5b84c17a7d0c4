// What a model is: its files by relative path, size and SHA-256, and a weight transform.

#ifndef ASSAY_STORAGE_FORMAT_MODEL_MANIFEST_H_
#define ASSAY_STORAGE_FORMAT_MODEL_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/digest_cache.h"

namespace assay {

inline constexpr size_t kModelFilesMax = 4096;

struct ModelFile {
  std::string path;  // relative and safe (IsSafeRelativePath)
  uint64_t size = 0;
  std::string sha256;
};

struct ModelManifest {
  std::vector<ModelFile> files;  // sorted by path, unique, at least one
  std::string transform;         // "" or canonical, e.g. "rtn:bits=4,group=32"

  // SHA-256 of CanonicalJson(ToJson()): the model's identity.
  std::string Identity() const;
  // {"files": [{"path", "sha256", "size"}], "transform"}; transform only when not empty.
  Json ToJson() const;
};

// Checks paths, order, digests, sizes (<= 2^53) and the transform's spelling.
// MODEL_MANIFEST_INVALID, FIELD_*.
absl::StatusOr<ModelManifest> ParseModelManifest(const Json& json, std::string_view where);

// Lists and digests a model on disk. A GGUF file gives one entry, its base name. A Hugging Face
// folder gives config.json, the weight files that belong to the model (those of
// model.safetensors.index.json when there is one, else every *.safetensors) and, when present, the
// index, generation_config.json, tokenizer.json, tokenizer_config.json; links are followed as far
// as CheckModelLinks lets them lead. `cache` may be null. MODEL_MISSING, MODEL_UNRECOGNISED,
// PATH_UNSAFE.
absl::StatusOr<ModelManifest> MakeModelManifest(const std::string& model_path,
                                                std::string_view transform, DigestCache* cache);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_MODEL_MANIFEST_H_
