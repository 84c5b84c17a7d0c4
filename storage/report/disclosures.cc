// What a reader must know about a comparison, found from the inputs themselves.

#include <cmath>

#include "storage/report/json_compare.h"
#include "storage/report/report_parts.h"

namespace assay {
namespace {

uint64_t InfiniteCount(const std::vector<double>& values) {
  uint64_t count = 0;
  for (const double v : values) count += std::isinf(v);
  return count;
}

void OperandDisclosures(const OperandInfo& operand, const std::string& name,
                        std::vector<Disclosure>* out) {
  if (operand.capture.legacy) {
    out->push_back({"LEGACY_CAPTURE", "the " + name +
                                          " capture has an old manifest form that binds fewer of "
                                          "its inputs"});
  }
  if (operand.model.is_null()) {
    out->push_back({"MODEL_NOT_VERIFIED",
                    "the " + name +
                        " model is known only by what its capture manifest declares; its files "
                        "were not read"});
  }
  if (operand.sizes.what_if) {
    out->push_back({"WHAT_IF_WEIGHTS", "the " + name +
                                           " weights are a what-if transform applied while "
                                           "loading; sizes are nominal, no such file exists"});
  }
}

void PairDisclosures(const ReportInputs& inputs, std::vector<Disclosure>* out) {
  const CaptureInfo& a = inputs.reference.capture;
  const CaptureInfo& b = inputs.candidate.capture;
  if (!SameJson(a.engine, b.engine)) {
    out->push_back({"ENGINES_DIFFER",
                    "reference and candidate were captured by different engines or kernels; part "
                    "of the divergence may be theirs"});
  }
  if (!SameJson(a.stack, b.stack)) {
    out->push_back({"STACKS_DIFFER",
                    "reference and candidate were captured on different software or hardware "
                    "stacks"});
  }
  if (a.cut_point != b.cut_point) {
    out->push_back({"CUT_POINTS_DIFFER",
                    "reference and candidate were captured at different "
                    "points of the model"});
  }
}

// Ids beyond a vocabulary are refused; a suite that states another size is only said.
void SuiteVocabulary(const ReportInputs& inputs, std::vector<Disclosure>* out) {
  const int64_t stated = inputs.suite.vocab_size;
  if (stated == 0 || inputs.heads.empty()) return;
  const auto counted = inputs.numeric.valid_vocab.value_or(
      static_cast<int64_t>(inputs.heads.begin()->second.reference_head.vocab));
  if (counted == stated) return;
  out->push_back({"SUITE_VOCABULARY_DIFFERS",
                  "the suite states a vocabulary of " + std::to_string(stated) + " entries, " +
                      std::to_string(counted) +
                      " columns were counted; columns without a token take part in every sum"});
}

void HeadDisclosures(const std::string& name, const HeadResult& head,
                     std::vector<Disclosure>* out) {
  if (head.reference_head.rounding != "none" || head.candidate_head.rounding != "none") {
    out->push_back({"HEAD_ROUNDED", "head " + name +
                                        ": stored head weights were rounded to bf16 (to nearest, "
                                        "ties to even) before use"});
  }
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    const uint64_t infinite = InfiniteCount(head.arrays.f64[i]);
    if (infinite == 0) continue;
    out->push_back({"INFINITE_POSITIONS", "head " + name + ": " + std::string(kF64Outputs[i]) +
                                              " is infinite at " + std::to_string(infinite) +
                                              " of " + std::to_string(head.arrays.positions) +
                                              " positions; its mean is not a number"});
  }
}

}  // namespace

Json DisclosuresJson(const ReportInputs& inputs) {
  std::vector<Disclosure> all;
  OperandDisclosures(inputs.reference, "reference", &all);
  OperandDisclosures(inputs.candidate, "candidate", &all);
  PairDisclosures(inputs, &all);
  for (const auto& [name, head] : inputs.heads) HeadDisclosures(name, head, &all);
  if (inputs.contexts.size() != inputs.suite.suite_contexts) {
    all.push_back(
        {"PARTIAL_COVERAGE",
         std::to_string(inputs.contexts.size()) + " of " +
             std::to_string(inputs.suite.suite_contexts) +
             " contexts of the suite were scored (filter " + inputs.suite.filter +
             (inputs.suite.limit > 0 ? ", limited to " + std::to_string(inputs.suite.limit) : "") +
             ")"});
  }
  SuiteVocabulary(inputs, &all);
  if (inputs.suite.score_from > 0) {
    all.push_back({"SCORED_WINDOW",
                   "the first " + std::to_string(inputs.suite.score_from) +
                       " positions of every context were not scored, so every number covers only "
                       "the later ones"});
  }
  if (inputs.numeric.operand_rounding != "none") {
    all.push_back({"HIDDEN_ROUNDED",
                   "hidden states that were not stored as bf16 were rounded to "
                   "bf16 (to nearest, ties to even)"});
  }
  if (inputs.repeats.empty()) {
    all.push_back({"NOISE_FLOOR_NOT_MEASURED",
                   "no capture was repeated, so the noise of the "
                   "engines is unknown"});
  }
  all.insert(all.end(), inputs.disclosures.begin(), inputs.disclosures.end());
  Json json = Json::array();
  for (const Disclosure& d : all) json.push_back({{"code", d.code}, {"text", d.text}});
  return json;
}

}  // namespace assay
