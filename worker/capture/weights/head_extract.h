// The head of a checkpoint as a file that a replay can use.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_HEAD_EXTRACT_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_HEAD_EXTRACT_H_

#include <string>

#include "absl/status/statusor.h"
#include "storage/format/head.h"
#include "worker/capture/weights/checkpoint.h"

namespace assay {

// Writes lm_head.weight (the embedding when tied), decoded to float32 and rounded once to bf16
// (nearest even), as tensor "lm_head.weight" [vocab, hidden] to `out_path`, durably. The bytes are
// a function of the weights alone.
absl::StatusOr<HeadInfo> ExtractHead(const Checkpoint& checkpoint, const std::string& out_path);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_HEAD_EXTRACT_H_
