// What a report says about a model's size, beside its fidelity.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_FACTS_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_FACTS_H_

#include <cstdint>
#include <string>

#include "storage/base/json.h"

namespace assay {

// Weights of one part of a model: how many, and how many bits they take in the file (scales
// included), or nominally under a transform.
struct PartSize {
  uint64_t params = 0;
  uint64_t bits = 0;
  double bits_per_weight() const { return params == 0 ? 0.0 : double(bits) / double(params); }
};

struct ModelFacts {
  std::string architecture;
  std::string family;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t vocab = 0;
  uint64_t file_bytes = 0;  // of the files on disk; a transform does not change it
  PartSize body;            // blocks and norms: everything but embedding and head
  PartSize head;            // lm_head; when tied, the embedding's numbers again
  PartSize embedding;
  bool tied = false;
  std::string transform;  // canonical, "" for none
  bool what_if = false;   // a transform is applied: body.bits are nominal (codes and 32-bit scales)

  // {"architecture", "family", "layers", "hidden", "vocab", "file_bytes", "body": {"params",
  // "bits", "bits_per_weight"}, "head": ..., "embedding": ..., "tied", "transform", "what_if"}
  Json ToJson() const;
};

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_FACTS_H_
