// A capture made of the files of vLLM's hidden-state extraction (extracted_file.h).
//
// Files are matched to contexts by their token ids. The cut is never guessed: the files do not say
// it, so the person who made them does.

#ifndef ASSAY_STORAGE_VLLM_IMPORT_H_
#define ASSAY_STORAGE_VLLM_IMPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/format/digest_cache.h"
#include "storage/vllm/extracted_file.h"
#include "storage/vllm/out_folder.h"

namespace assay {

struct VllmImportRequest {
  std::string folder;              // vLLM's shared_storage_path
  bool before_norm = true;         // the cut; false: after the final norm, nothing is applied
  std::string final_norm;          // Hugging Face folder; needed before the norm, refused after it
  std::vector<int64_t> layer_ids;  // as given to vLLM; needed when a file holds several layers
  std::optional<VllmAxes> axes;
  std::string suite_dir, out;
  std::string filter = "all";
  std::string model;  // a name for people; "" = that of final_norm, else of the folder
  std::string engine_version = "not stated";
  std::map<std::string, std::string> stack;  // where it ran, for the manifest
  HiddenStore store = HiddenStore::kBf16;
};

struct VllmImportResult {
  Json manifest;
  std::string content_sha256;
  uint64_t imported = 0, kept = 0;  // contexts
  std::vector<std::string> unused;  // files whose tokens begin no context
};

struct VllmImportHooks {
  std::function<void(uint64_t done, uint64_t total)> progress;  // contexts, kept ones included
  std::function<bool()> interrupted;
};

// `cache` remembers digests of the model's files; may be null. The same request continues what was
// broken off. FINAL_NORM_NEEDED, LAYER_NEEDED, TOKENS_SHIFTED, HIDDEN_NOT_WRITTEN,
// CAPTURE_INCOMPLETE (names contexts that no file serves; what was imported stays), CANCELLED, and
// the errors of files, norm, suite and capture folder.
absl::StatusOr<VllmImportResult> ImportVllm(const VllmImportRequest& request, DigestCache* cache,
                                            const VllmImportHooks& hooks);

}  // namespace assay

#endif  // ASSAY_STORAGE_VLLM_IMPORT_H_
