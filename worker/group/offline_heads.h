// Heads for replays without a server: from a safetensors file or from a model.

#ifndef ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_
#define ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/report/report.h"
#include "worker/group/group.h"

namespace assay {

// A head that a replay unit can name.
struct OfflineHead {
  std::string spec;  // as given, for messages
  std::string file;  // safetensors file with the bf16 tensor
  std::string tensor;
  HeadIdentity identity;  // rounded_sha256 is the content digest of the bf16 values
  bool of_model = false;  // found in a MODEL rather than named as a FILE
  // Where it lies as it was stored; "" when only a rank could read it (GGUF, packed weights).
  std::string stored_file, stored_tensor;
  // Where the bias that identity.bias_sha256 names lies; "" = none.
  std::string bias_file, bias_tensor;
  bool bias_found = false;  // nobody asked for it: it lies beside the weight in the head's file

  // Whether both give the same logits.
  bool Same(const OfflineHead& other) const {
    return identity.rounded_sha256 == other.identity.rounded_sha256 &&
           identity.logit_scale == other.identity.logit_scale &&
           identity.bias_sha256 == other.identity.bias_sha256;
  }
};

// What people say of a head.
struct HeadRequest {
  std::string spec;  // FILE[:TENSOR] or MODEL
  // FILE[:TENSOR]; "none"; "" = the tensor beside the weight in a FILE, if there is one
  // ("lm_head.bias" beside "lm_head.weight").
  std::string bias;
  std::optional<double> logit_scale;
};

// A group that extracts heads which only the decoders of a rank can read. Called at most once per
// PrepareHead; what it returns outlives the call.
using GroupSource = std::function<absl::StatusOr<Group*>()>;

// The head is FILE[:TENSOR] (a safetensors file; BF16 is used as it is, F32 and F16 are rounded
// once to bf16, nearest even) or MODEL. Of a Hugging Face folder, whatever its architecture, the
// head is the one tensor called lm_head.weight, also under a prefix and in any shard; the embedding
// where the configuration ties the two or there is no such tensor. FOLDER:TENSOR names another one.
// A quantized head, and that of a GGUF file, is extracted by the group. Files that have to be made
// go to `work`. HEAD_MISSING, HEAD_INVALID and the readers' errors, all naming the file.
absl::StatusOr<OfflineHead> PrepareHead(const HeadRequest& request, const GroupSource& group,
                                        const std::string& work);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_
