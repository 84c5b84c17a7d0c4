// Heads cut out of checkpoints, and the receipts that say what they are.
//
// "assay-head/1" beside a head's file names it by the digests of fidelity-dataset 0.5, and where it
// came from: the tensor and file of the checkpoint, whether it is tied, how it was stored. Receipts
// of other publishers (malaiwah.fidelity-head-identity.v1, and documents that only repeat a file's
// digest) are checked as far as they go.

#ifndef ASSAY_STORAGE_PUBLISHED_HEAD_RECEIPT_H_
#define ASSAY_STORAGE_PUBLISHED_HEAD_RECEIPT_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/safetensors.h"
#include "storage/published/examine.h"

namespace assay {

inline constexpr std::string_view kHeadReceiptSchema = "assay-head/1";
inline constexpr std::string_view kPublishedHeadTensor = "lm_head.weight";

// The digests of one [vocab, hidden] tensor in a safetensors file (fidelity-dataset 0.5).
struct HeadDigests {
  std::string tensor, dtype;
  uint64_t vocab = 0, hidden = 0, file_bytes = 0;
  std::string file_sha256;            // the whole file: of this container only
  std::string payload_sha256;         // everything behind the header
  std::string tensor_content_sha256;  // the tensor as stored: the head's published identity
  std::string bf16_sha256;            // rounded to bf16: the identity that reports name
  bool finite = true;
};

// Reads the whole file. HEAD_INVALID, SAFETENSORS_INVALID and those of reading.
absl::StatusOr<HeadDigests> DigestHead(const std::string& path, std::string_view tensor);

// Where a head came from.
struct HeadSource {
  std::string file;    // name within the model
  std::string tensor;  // "" when it is no tensor of its own in a safetensors file
  std::string sha256;  // of that file
  std::string stored;  // type in the checkpoint: "BF16", "F32", "Q6_K", ...
  bool tied = false;   // it is the embedding
};

// Copies tensor `from_tensor` of `from` into `to`: one tensor called `name`, its bytes as they are,
// the header in the published layout (no metadata, blanks up to a multiple of 8).
absl::Status WriteHeadFile(const std::string& from, const std::string& from_tensor,
                           const std::string& to, const std::string& name);

// The receipt of the head in `file` (its base name).
Json HeadReceiptJson(const std::string& file, const HeadDigests& digests, const HeadSource& source);

// The gates of a head: file, values, receipt (bytes of a receipt of any known form, if there is
// one) and, with `other` not null, whether both heads are the same values.
PublishedExamination ExamineHead(const std::string& path, std::string_view tensor,
                                 std::optional<std::string_view> receipt, const HeadDigests* other);

}  // namespace assay

#endif  // ASSAY_STORAGE_PUBLISHED_HEAD_RECEIPT_H_
