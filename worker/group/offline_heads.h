// Heads for replays without a server: from a safetensors file or from a model.

#ifndef ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_
#define ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_

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
  Json model_facts;       // ModelFacts of a MODEL; null for a file
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

// The head is FILE[:TENSOR] (a safetensors file; BF16 is used as it is, F32 and F16 are rounded
// once to bf16, nearest even) or MODEL (a GGUF file or a Hugging Face folder; `group` extracts its
// head). Files that have to be made go to `work`. HEAD_MISSING, HEAD_INVALID and the readers'
// errors, all naming the file.
absl::StatusOr<OfflineHead> PrepareHead(const HeadRequest& request, Group& group,
                                        const std::string& work);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_
