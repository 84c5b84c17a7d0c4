// Published capture directories: capture-manifest.json and one hidden_NNNN.safetensors per context
// (specs: qwen-suites 2; schema qwen38-fidelity-capture/2, the legacy form of 2.7, and
// glm53flash-fidelity-capture/2 of fidelity-dataset 9, whose shards are called
// capture-manifest-shard.json).

#ifndef ASSAY_STORAGE_FORMAT_CAPTURE_H_
#define ASSAY_STORAGE_FORMAT_CAPTURE_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/safetensors.h"
#include "storage/format/suite.h"

namespace assay {

inline constexpr std::string_view kCaptureManifestName = "capture-manifest.json";
// Read where there is none of the first name: GLM-5.3-Flash published a truthful manifest of its
// shard beside one that says complete of all ten.
inline constexpr std::string_view kCaptureShardManifestName = "capture-manifest-shard.json";
inline constexpr std::string_view kCaptureSchema = "qwen38-fidelity-capture/2";
inline constexpr std::string_view kHiddenTensorName = "hidden_states";
inline constexpr std::string_view kDefaultCutPoint = "after_final_rmsnorm_before_lm_head";
inline constexpr uint64_t kCaptureManifestBytesMax = uint64_t{256} << 20;

struct CaptureRecord {
  int64_t index = 0;   // the suite context's index
  std::string sha256;  // of the hidden file
  uint64_t rows = 0;   // scored positions: context_length - 1
  uint64_t width = 0;  // hidden size
};

struct CaptureManifest {
  std::string schema;           // "" when legacy
  std::string manifest_sha256;  // of the file's bytes; "" when it was not read from a file
  std::string suite_token_sha256;
  std::string filter;                  // "" when legacy
  std::string cut_point;               // kDefaultCutPoint when the manifest names none
  int64_t context_length = 0;          // 0 when legacy
  bool complete = false;               // a legacy manifest was written once, at the end: true
  bool legacy = false;                 // read under the rule of 2.7
  std::vector<CaptureRecord> records;  // sorted by index, unique
  Json json;

  // SHA-256 of CANON({suite_token_sha256, cut_point, records: [{index, sha256, shape}]}): what was
  // captured, whoever wrote it.
  std::string ContentSha256() const;
};

// `where` names the file in errors. CAPTURE_INVALID, FIELD_*; CAPTURE_INCOMPLETE only in
// OpenCapture.
absl::StatusOr<CaptureManifest> ParseCaptureManifest(const Json& json, std::string_view where);

struct CaptureDir {
  std::string dir;
  CaptureManifest manifest;
  std::map<int64_t, std::string> files;  // selected index -> path of its hidden file
};

// The path of a capture directory's manifest; kCaptureManifestName in it when there is none.
std::string CaptureManifestPath(const std::string& dir);

// The manifest of a capture directory; FILE_MISSING when it is none.
absl::StatusOr<CaptureManifest> ReadCaptureManifest(const std::string& dir);

// Opens a capture for the contexts that `filter` selects from `suite`, checked in the order of
// qwen-suites 2.5: manifest present, complete, of this suite, records sound, every selected index
// recorded, its file present and (with verify_digests) of the recorded digest, and its tensor of
// the right name, dtype and shape. CAPTURE_INCOMPLETE, SUITE_MISMATCH, CAPTURE_INVALID,
// CONTEXT_MISSING, FILE_MISSING, DIGEST_MISMATCH, SHAPE_MISMATCH: each names the file and what to
// do.
absl::StatusOr<CaptureDir> OpenCapture(const std::string& dir, const Suite& suite,
                                       std::string_view filter, bool verify_digests);

struct CaptureWriterInfo {
  std::string model_name;   // goes to "model" and model_path; no local folder
  Json candidate_identity;  // members override the defaults of 2.3 (shard_sha256, ...)
  Json runtime;             // members are added to capture_contract.runtime
  std::string filter;       // "all", "sentinel" or a partition
  std::string cut_point;    // "" = kDefaultCutPoint
  Json stack;               // engine_identity, inserted after candidate_identity; null: left out
  double elapsed_sec = 0;   // for people; not part of ContentSha256
};

// The manifest of a capture in progress (complete = false) or finished; key order of 2.2. Write
// PythonPrettyJson of it.
Json BuildCaptureManifest(const Suite& suite, const CaptureWriterInfo& info,
                          const std::vector<CaptureRecord>& records, bool complete);

// Bytes of hidden_NNNN.safetensors: `bf16_rows` is [rows, width] row major. SHAPE_MISMATCH when the
// counts differ.
absl::StatusOr<std::string> BuildHiddenFile(std::span<const uint16_t> bf16_rows, uint64_t rows,
                                            uint64_t width);

// SHAPE_MISMATCH unless the file has hidden_states, BF16 or F32, [rows, width].
absl::Status CheckHiddenFile(const SafetensorsFile& file, uint64_t rows, uint64_t width);

std::string HiddenFileName(int64_t index);  // "hidden_0007.safetensors"

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_CAPTURE_H_
