// Makes suites and models known to a coordinator.

#ifndef ASSAY_CLIENT_LIB_INPUTS_H_
#define ASSAY_CLIENT_LIB_INPUTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/lib/client.h"
#include "storage/format/digest_cache.h"
#include "storage/format/model_manifest.h"
#include "storage/format/suite.h"

namespace assay {

// A model as a user names it.
struct LocalModel {
  std::string text;         // as given
  std::string path;         // without the transform; "" for models/NAME
  std::string remote_name;  // NAME of models/NAME; "" for a local one
  std::string transform;    // canonical
  ModelManifest manifest;   // of a local one
  std::string root;         // folder in which a worker finds a local one
};

// PATH[@TRANSFORM] or models/NAME[@TRANSFORM]: the latter when nothing on disk has that name.
// MODEL_SPEC_INVALID, TRANSFORM_INVALID.
absl::StatusOr<LocalModel> ParseModelArgument(std::string_view text);

// Fills manifest and root of a local model: digests of all its files. MODEL_MISSING, ...
absl::Status DigestModel(DigestCache* digests, LocalModel* model);

// Bytes moved of all; false interrupts.
using UploadProgress = std::function<bool(std::string_view what, uint64_t done, uint64_t total)>;

// Uploads what the coordinator lacks of a suite folder (read and verified before as `suite`) and
// registers it. The name "suites/ID".
absl::StatusOr<std::string> RegisterSuite(Client* client, const std::string& dir,
                                          const Suite& suite, const UploadProgress& progress);

// Registers a model's manifest; with `upload` also the files that the store lacks. A remote one is
// looked up: by identity, by the start of one (at least 8 characters), or by the name of its file
// without ".gguf"; MODEL_UNKNOWN, MODEL_AMBIGUOUS. The name "models/ID".
absl::StatusOr<std::string> RegisterModel(Client* client, const LocalModel& model, bool upload,
                                          const UploadProgress& progress);

// Sum of a manifest's file sizes.
uint64_t ModelBytes(const ModelManifest& manifest);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_INPUTS_H_
