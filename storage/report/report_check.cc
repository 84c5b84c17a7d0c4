// What a report's inputs must satisfy before anything is computed from them.

#include <cmath>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/report_parts.h"

namespace assay {
namespace {

absl::Status Invalid(const std::string& what) {
  return InvalidError("REPORT_INPUTS_INVALID", "report inputs: " + what);
}

absl::Status CheckDigest(const std::string& digest, const std::string& field) {
  if (IsSha256Hex(digest)) return absl::OkStatus();
  return Invalid(field + " must be a SHA-256 in hex, not \"" + digest.substr(0, 80) + "\"");
}

absl::Status CheckSuite(const SuiteInfo& suite) {
  ASSAY_RETURN_IF_ERROR(CheckDigest(suite.suite_token_sha256, "suite.suite_token_sha256"));
  ASSAY_RETURN_IF_ERROR(CheckDigest(suite.manifest_sha256, "suite.manifest_sha256"));
  if (suite.context_length < 2) return Invalid("suite.context_length must be at least 2");
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckContexts(const ReportInputs& inputs) {
  if (inputs.contexts.empty()) return Invalid("there is no scored context");
  if (inputs.contexts.size() > inputs.suite.suite_contexts) {
    return Invalid("more contexts are scored than the suite has");
  }
  std::set<int64_t> seen;
  uint64_t positions = 0;
  for (const ReportContext& context : inputs.contexts) {
    const std::string name = "context " + std::to_string(context.index);
    if (!seen.insert(context.index).second) return Invalid(name + " is listed twice");
    if (context.positions == 0) return Invalid(name + " has no scored position");
    if (context.positions > kReportPositionsMax - positions) {
      return Invalid("more than " + std::to_string(kReportPositionsMax) + " scored positions");
    }
    positions += context.positions;
  }
  return positions;
}

absl::Status CheckOperand(const OperandInfo& operand, const std::string& name) {
  ASSAY_RETURN_IF_ERROR(
      CheckDigest(operand.capture.content_sha256, name + ".capture.content_sha256"));
  if (operand.capture.cut_point.empty()) return Invalid(name + ".capture.cut_point is empty");
  if (operand.model.is_null()) {
    if (!operand.model_identity.empty()) return Invalid(name + ".model is missing");
    return absl::OkStatus();
  }
  return CheckDigest(operand.model_identity, name + ".model_identity");
}

absl::Status CheckHeadIdentity(const HeadIdentity& head, const std::string& name) {
  ASSAY_RETURN_IF_ERROR(CheckDigest(head.rounded_sha256, name + ".rounded_sha256"));
  if (!head.original_sha256.empty()) {
    ASSAY_RETURN_IF_ERROR(CheckDigest(head.original_sha256, name + ".original_sha256"));
  }
  if (!head.bias_sha256.empty()) {
    ASSAY_RETURN_IF_ERROR(CheckDigest(head.bias_sha256, name + ".bias_sha256"));
  }
  if (head.logit_scale && !(*head.logit_scale > 0 && std::isfinite(*head.logit_scale))) {
    return Invalid(name + ".logit_scale must be positive and finite");
  }
  if (head.vocab == 0 || head.hidden == 0) return Invalid(name + " has no shape");
  if (head.rounding != "none" && head.rounding != "bf16-rne") {
    return Invalid(name + ".rounding must be \"none\" or \"bf16-rne\"");
  }
  return absl::OkStatus();
}

absl::Status CheckInfinite(const PositionArrays& arrays, const std::string& head) {
  const auto& kl = arrays[F64Output::kKlRefCand];
  for (size_t i = 0; i < kl.size(); ++i) {
    if (std::isinf(kl[i])) {
      return InvalidError("INFINITE_POSITION",
                          "head " + head + ": kl_ref_cand is infinite at scored position " +
                              std::to_string(i) +
                              "; the candidate gives no probability to a token that the reference "
                              "allows. Allow infinite positions in the policy to score it anyway");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHead(const ReportInputs& inputs, const std::string& name, const HeadResult& head,
                       uint64_t positions) {
  if (name != kHeadOwn && name != kHeadShared) {
    return Invalid("head \"" + name + "\" must be \"own\" or \"shared\"");
  }
  ASSAY_RETURN_IF_ERROR(CheckHeadIdentity(head.reference_head, name + ".reference_head"));
  ASSAY_RETURN_IF_ERROR(CheckHeadIdentity(head.candidate_head, name + ".candidate_head"));
  if (head.reference_head.vocab != head.candidate_head.vocab) {
    return Invalid(name + ": the two heads have different vocabularies");
  }
  if (name == kHeadShared &&
      (head.reference_head.rounded_sha256 != head.candidate_head.rounded_sha256 ||
       head.reference_head.logit_scale != head.candidate_head.logit_scale ||
       head.reference_head.bias_sha256 != head.candidate_head.bias_sha256)) {
    return Invalid("the shared head must be the same for both operands");
  }
  if (head.arrays.positions != positions) {
    return Invalid(name + ": " + std::to_string(head.arrays.positions) +
                   " positions, the contexts have " + std::to_string(positions));
  }
  ASSAY_RETURN_IF_ERROR(
      CheckPositionArrays(head.arrays, "head " + name, inputs.numeric.vocab_chunk.has_value()));
  return inputs.numeric.allow_infinite ? absl::OkStatus() : CheckInfinite(head.arrays, name);
}

absl::Status CheckRepeats(const std::vector<RepeatedCapture>& repeats) {
  for (const RepeatedCapture& repeat : repeats) {
    if (repeat.operand != "reference" && repeat.operand != "candidate") {
      return Invalid("repeats: operand must be \"reference\" or \"candidate\"");
    }
    uint64_t differing = 0;
    for (const auto& context : repeat.contexts) {
      ASSAY_RETURN_IF_ERROR(CheckDigest(context.first_sha256, "repeats.first_sha256"));
      ASSAY_RETURN_IF_ERROR(CheckDigest(context.repeat_sha256, "repeats.repeat_sha256"));
      differing += context.first_sha256 != context.repeat_sha256;
    }
    if (differing * repeat.positions_per_context != repeat.kl_of_differing.size()) {
      return Invalid("repeats: kl_of_differing must hold every position of the " +
                     std::to_string(differing) + " contexts that differ");
    }
    for (const double value : repeat.kl_of_differing) {
      if (!(value >= 0)) return Invalid("repeats: a KL value is negative or NaN");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReportInputs(const ReportInputs& inputs) {
  ASSAY_RETURN_IF_ERROR(CheckSuite(inputs.suite));
  ASSAY_ASSIGN_OR_RETURN(const uint64_t positions, CheckContexts(inputs));
  ASSAY_RETURN_IF_ERROR(CheckOperand(inputs.reference, "reference"));
  ASSAY_RETURN_IF_ERROR(CheckOperand(inputs.candidate, "candidate"));
  if (inputs.numeric.policy.empty()) return Invalid("numeric.policy is empty");
  if (inputs.numeric.backend.empty()) return Invalid("numeric.backend is empty");
  if (inputs.heads.empty()) return Invalid("there is no head");
  for (const auto& [name, head] : inputs.heads) {
    ASSAY_RETURN_IF_ERROR(CheckHead(inputs, name, head, positions));
  }
  return CheckRepeats(inputs.repeats);
}

}  // namespace assay
