// Makes suites and models known to a coordinator.

#ifndef ASSAY_CLIENT_LIB_INPUTS_H_
#define ASSAY_CLIENT_LIB_INPUTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/lib/client.h"
#include "storage/format/capture.h"
#include "storage/format/digest_cache.h"
#include "storage/format/model_manifest.h"
#include "storage/format/suite.h"

namespace assay {

// A model, or a capture in its place, as a user names it.
struct LocalModel {
  std::string text;         // as given
  std::string path;         // without the transform; "" for models/NAME and captures/NAME
  std::string remote_name;  // NAME of models/NAME or captures/NAME; "" for a local one
  bool is_capture = false;  // a capture directory, or captures/NAME
  CaptureDir capture;       // of a directory, once OpenCapture has verified it
  std::string transform;    // canonical
  ModelManifest manifest;   // of a local one
  std::string root;         // folder in which a worker finds a local one
};

// PATH[@TRANSFORM], models/NAME[@TRANSFORM] or captures/NAME, the latter two when nothing on disk
// has that name. A folder with a capture manifest is a capture. MODEL_SPEC_INVALID,
// TRANSFORM_INVALID.
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

// Uploads what the coordinator lacks of a capture that OpenCapture has verified for `filter`, and
// registers it. The name "captures/ID".
absl::StatusOr<std::string> RegisterCapture(Client* client, const std::string& suite_name,
                                            const Suite& suite, const std::string& filter,
                                            const CaptureDir& capture,
                                            const UploadProgress& progress);

// Uploads one file unless the coordinator has it; its SHA-256.
absl::StatusOr<std::string> UploadBlob(Client* client, const std::string& path,
                                       std::string_view what, const UploadProgress& progress);

// Sum of a manifest's file sizes.
uint64_t ModelBytes(const ModelManifest& manifest);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_INPUTS_H_
