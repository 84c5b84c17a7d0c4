// What two distributions of one position say of each other when one or both come from a llama.cpp
// logits file.
//
// Two kinds of number, never mixed: the tool's own (float32 steps, base not renormalised, columns
// at or below -16 nats skipped, no clamp), and sound readings in float64 that say what the coding
// leaves out.

#ifndef ASSAY_STORAGE_LLAMACPP_ROWS_H_
#define ASSAY_STORAGE_LLAMACPP_ROWS_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "storage/llamacpp/logits_file.h"

namespace assay {

// One position as `llama-perplexity --kl-divergence` forms it. float32 as in the tool, but for the
// sum.
struct LlamacppToolRow {
  double kl = 0;       // nats; may be negative
  float nll = 0;       // of the observed token under the candidate, nats
  float nll_base = 0;  // from the base's codes
  float delta_p = 0;   // exp(-nll) - exp(-nll_base)
  bool same_top = false;
};

// `logits`: the candidate's, float32 [V]. `target` is the observed token. The base is of kFloor16
// or kFloor24: the tool reads no other.
LlamacppToolRow ToolRow(const LlamacppRow& base, std::span<const float> logits, int32_t target);

// Sound readings of two coded rows of one coding and vocabulary, float64.
struct LogitsPairRow {
  double kl_renorm =
      0;  // both renormalised over all columns, then KL(base || candidate), nats; >= 0
  double kl_reverse_renorm = 0;  // KL(candidate || base) of the same, nats; >= 0
  double jsd_renorm_bits = 0;    // Jensen-Shannon divergence of the same, bits; >= 0
  // Columns above the floor in both files as they are, the others as one bucket of mass max(0, 1 -
  // kept), nats.
  double kl_lumped = 0;
  double kl_skip16 = 0;  // the tool's rule in float64, with the candidate as coded, nats
  double nll_base = 0, nll_cand = 0;  // of the observed token as coded, nats
  // Most likely token, lowest id among equal codes.
  int32_t top1_base = 0, top1_cand = 0;
  double mass_base = 0,
         mass_cand = 0;  // sum of the decoded probabilities: 1 + what the floor added
};

// INFINITE_POSITION (kV2) where the candidate gives exactly zero to a token that the base allows.
absl::StatusOr<LogitsPairRow> CompareLogits(const LlamacppRow& base, const LlamacppRow& cand,
                                            LlamacppCoding coding, int32_t target);

}  // namespace assay

#endif  // ASSAY_STORAGE_LLAMACPP_ROWS_H_
