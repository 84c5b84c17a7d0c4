// Heads for replays without a server: from a safetensors file or from a model.

#ifndef ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_
#define ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_

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
};

// `spec` is FILE[:TENSOR] (a safetensors file; BF16 is used as it is, F32 and F16 are rounded once
// to bf16, nearest even) or MODEL (a GGUF file or a Hugging Face folder; `group` extracts its
// head). Files that have to be made go to `work`. HEAD_MISSING, HEAD_INVALID and the readers'
// errors, all naming the file.
absl::StatusOr<OfflineHead> PrepareHead(const std::string& spec, Group& group,
                                        const std::string& work);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_OFFLINE_HEADS_H_
