// Options that every command with a replay takes: heads, and what is computed of them.

#ifndef ASSAY_CLIENT_CLI_REPLAY_OPTIONS_H_
#define ASSAY_CLIENT_CLI_REPLAY_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "storage/base/macros.h"
#include "storage/format/logit_scale.h"
#include "storage/report/candidate_files.h"
#include "worker/group/offline_replay.h"

namespace assay {

// Heads of captures.
struct HeadOptions {
  std::string head, bias;
  std::vector<std::string> candidate_heads, candidate_biases;  // [LABEL=]VALUE
};

// What is computed. Absent or 0: as the model has it.
struct MetricOptions {
  std::optional<double> logit_scale, softcap;
  std::optional<int64_t> valid_vocab, vocab_chunk;
  int64_t score_from = 0, limit = 0;
  bool allow_infinite = false;
};

// --head, --candidate-head, --head-bias, --candidate-head-bias.
inline CLI::Option* AddHeadOptions(CLI::App* command, HeadOptions* options) {
  CLI::Option* head = command->add_option(
      "--head", options->head,
      "Head of a reference that is a capture: FILE[:TENSOR] (safetensors) or a model (GGUF file, "
      "Hugging Face folder: sharded, tied or prefixed); serves captured candidates too where no "
      "candidate head is given");
  command
      ->add_option("--candidate-head", options->candidate_heads,
                   "[LABEL=]FILE[:TENSOR]|MODEL, a captured candidate's own head; without LABEL "
                   "for all")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option(
      "--head-bias", options->bias,
      "FILE[:TENSOR], added to the logits of --head, or none; by default the tensor "
      "lm_head.bias beside lm_head.weight in a head FILE, if there is one");
  command
      ->add_option("--candidate-head-bias", options->candidate_biases,
                   "[LABEL=]FILE[:TENSOR]|none, the same for a candidate's own head")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return head;
}

// --logit-scale, --softcap, --valid-vocab, --score-from, --limit, --vocab-chunk, --allow-infinite.
inline void AddMetricOptions(CLI::App* command, MetricOptions* options) {
  command
      ->add_option("--logit-scale", options->logit_scale,
                   "Factor of every head's product: logit = softcap(SCALE * product + bias)")
      ->check(CLI::Range(kLogitScaleMin, kLogitScaleMax));
  command->add_option("--softcap", options->softcap, "Final logit softcap: CAP * tanh(logit / CAP)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--valid-vocab", options->valid_vocab,
                   "Columns that exist, counted from 0; the head's other rows are padding")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command
      ->add_option("--score-from", options->score_from,
                   "Leave out the first N positions of every context, so that those scored have "
                   "more than N tokens before them")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--limit", options->limit,
                   "Score only N contexts, spread evenly over the strata: a quick look, marked "
                   "partial and never comparable with the whole suite (0: all)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option(
          "--vocab-chunk", options->vocab_chunk,
          "With --policy torch-bf16: KL and JSD by the float32 steps of published reports, "
          "over chunks of so many columns (theirs: 24832). They can be negative then")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 31));
  command->add_flag("--allow-infinite", options->allow_infinite,
                    "Accept positions where the candidate excludes a token that the reference "
                    "allows (KL is infinite there)");
}

inline absl::StatusOr<std::vector<LabelledInput>> SplitLabels(
    const std::vector<std::string>& texts) {
  std::vector<LabelledInput> inputs;
  for (const std::string& text : texts) {
    ASSAY_ASSIGN_OR_RETURN(const LabelledText split, SplitLabel(text));
    inputs.push_back({split.label, split.value});
  }
  return inputs;
}

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_REPLAY_OPTIONS_H_
