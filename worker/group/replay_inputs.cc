#include "worker/group/replay_inputs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"

namespace assay {
namespace {

absl::Status SettleLabels(const OfflineReplayRequest& request, ReplayInputs* inputs) {
  std::set<std::string> seen;
  for (const LabelledInput& input : request.candidates) {
    ReplayCandidate candidate;
    candidate.dir = input.value;
    candidate.label = input.label.empty() ? BaseName(input.value) : input.label;
    ASSAY_RETURN_IF_ERROR(CheckLabel(candidate.label));
    if (!seen.insert(candidate.label).second) {
      return InvalidError("LABEL_DUPLICATE", "two candidates are called \"" + candidate.label +
                                                 "\"; give them labels, LABEL=CAPTURE");
    }
    inputs->candidates.push_back(std::move(candidate));
  }
  for (const auto& [flag, given] : {std::pair("--candidate-head", &request.candidate_heads),
                                    {"--candidate-head-bias", &request.candidate_head_biases}}) {
    for (const LabelledInput& input : *given) {
      if (input.label.empty() || seen.count(input.label) > 0) continue;
      return InvalidError("LABEL_UNKNOWN", std::string(flag) + " names \"" + input.label +
                                               "\", but no candidate is called so");
    }
  }
  return absl::OkStatus();
}

// The contexts that the reference was captured for, unless the user says otherwise.
absl::StatusOr<std::string> ReferenceFilter(const std::string& dir) {
  ASSAY_ASSIGN_OR_RETURN(const CaptureManifest manifest, ReadCaptureManifest(dir));
  return manifest.filter.empty() ? "all" : manifest.filter;
}

uint64_t Width(const CaptureDir& capture) { return capture.manifest.records.front().width; }

absl::Status CheckWidth(const CaptureDir& capture, const OfflineHead& head) {
  if (Width(capture) == head.identity.hidden) return absl::OkStatus();
  return InvalidError("SHAPE_MISMATCH",
                      head.spec + ": the head takes " + std::to_string(head.identity.hidden) +
                          " hidden values, the rows of " + capture.dir + " have " +
                          std::to_string(Width(capture)) + "; give the head of that model");
}

absl::Status CheckVocabulary(const Suite& suite, const OfflineHead& head,
                             std::optional<int64_t> valid_vocab) {
  const auto vocab = static_cast<int64_t>(head.identity.vocab);
  if (valid_vocab && *valid_vocab > vocab) {
    return InvalidError("SHAPE_MISMATCH", head.spec + ": the head has " + std::to_string(vocab) +
                                              " rows, fewer than the " +
                                              std::to_string(*valid_vocab) + " of --valid-vocab");
  }
  ASSAY_RETURN_IF_ERROR(CheckTokensBelow(suite, valid_vocab.value_or(vocab)));
  if (suite.vocab_size == 0 || static_cast<uint64_t>(suite.vocab_size) <= head.identity.vocab) {
    return absl::OkStatus();
  }
  return InvalidError("SHAPE_MISMATCH",
                      head.spec + ": the head has " + std::to_string(head.identity.vocab) +
                          " rows, the suite's vocabulary is " + std::to_string(suite.vocab_size) +
                          "; suite and head belong to different models");
}

absl::Status PrepareOwnHead(const HeadRequest& request, const GroupSource& group,
                            const std::string& work, const ReplayInputs& inputs,
                            ReplayCandidate* candidate) {
  ASSAY_ASSIGN_OR_RETURN(OfflineHead head, PrepareHead(request, group, work));
  if (head.identity.vocab != inputs.head.identity.vocab) {
    return InvalidError("SHAPE_MISMATCH",
                        request.spec + ": the head has " + std::to_string(head.identity.vocab) +
                            " rows, the reference's " + std::to_string(inputs.head.identity.vocab) +
                            "; distributions over different vocabularies cannot be compared");
  }
  ASSAY_RETURN_IF_ERROR(CheckWidth(candidate->capture, head));
  candidate->own_head = std::move(head);
  return absl::OkStatus();
}

// A head takes rows of one point only, whoever captured them.
absl::Status CheckCutPoint(const CaptureDir& capture) {
  if (capture.manifest.cut_point == kDefaultCutPoint) return absl::OkStatus();
  return InvalidError("CUT_POINT_DIFFERS",
                      capture.dir + " was taken at \"" + capture.manifest.cut_point +
                          "\"; a head is applied to rows taken at \"" +
                          std::string(kDefaultCutPoint) +
                          "\" only: capture it there, or, for states from before the final norm, "
                          "apply the model's norm first (assay capture import ... --final-norm "
                          "MODEL does for files of vLLM)");
}

// Everything but the digests of hidden files, which CaptureCheck reads later. A file that does not
// even have the right form is read at once: that it was changed says more than what its header
// looks like now.
absl::StatusOr<CaptureDir> OpenUnread(const std::string& dir, const Suite& suite,
                                      const std::string& filter) {
  absl::StatusOr<CaptureDir> capture = OpenCapture(dir, suite, filter, /*verify_digests=*/false);
  if (!capture.ok()) capture = OpenCapture(dir, suite, filter, /*verify_digests=*/true);
  if (capture.ok()) ASSAY_RETURN_IF_ERROR(CheckCutPoint(*capture));
  return capture;
}

}  // namespace

std::optional<std::string> ValueFor(const std::vector<LabelledInput>& inputs,
                                    const std::string& label) {
  std::optional<std::string> value;
  for (const LabelledInput& input : inputs) {
    if (input.label == label) return input.value;
    if (input.label.empty()) value = input.value;
  }
  return value;
}

bool ReplayInputs::HasShared(const ReplayCandidate& candidate) const {
  return !candidate.own_head || !candidate.own_head->Same(head);
}

std::vector<ContextRows> ReplayInputs::rows() const {
  std::vector<ContextRows> out;
  for (const size_t position : selected) {
    out.push_back({suite.contexts[position].index, rows_per_context()});
  }
  return out;
}

Suite ReplayInputs::ComparedSuite() const {
  Suite out = suite;
  out.contexts.clear();
  for (const size_t position : selected) out.contexts.push_back(suite.contexts[position]);
  return out;
}

absl::StatusOr<ReplayInputs> ReadReplayInputs(const OfflineReplayRequest& request) {
  ReplayInputs inputs;
  ASSAY_RETURN_IF_ERROR(SettleLabels(request, &inputs));
  ASSAY_ASSIGN_OR_RETURN(inputs.suite, ReadSuite(request.suite_dir));
  inputs.filter = request.filter;
  if (inputs.filter.empty()) {
    ASSAY_ASSIGN_OR_RETURN(inputs.filter, ReferenceFilter(request.reference));
  }
  ASSAY_ASSIGN_OR_RETURN(inputs.selected, SelectContexts(inputs.suite, inputs.filter));
  if (request.limit > 0 && static_cast<uint64_t>(request.limit) < inputs.selected.size()) {
    inputs.limit = request.limit;
    inputs.selected = LimitContexts(inputs.suite, inputs.selected, inputs.limit);
  }
  inputs.score_from = request.score_from;
  if (inputs.score_from < 0 || inputs.score_from >= inputs.suite.context_length - 1) {
    return InvalidError("FILTER_EMPTY", "scoring from position " +
                                            std::to_string(inputs.score_from) +
                                            " leaves nothing of contexts with " +
                                            std::to_string(inputs.suite.context_length - 1) +
                                            " scored positions; start earlier");
  }
  const Suite compared = inputs.ComparedSuite();
  ASSAY_ASSIGN_OR_RETURN(inputs.reference, OpenUnread(request.reference, compared, inputs.filter));
  for (ReplayCandidate& candidate : inputs.candidates) {
    absl::StatusOr<CaptureDir> capture = OpenUnread(candidate.dir, compared, inputs.filter);
    candidate.status = capture.status();
    if (capture.ok()) candidate.capture = std::move(*capture);
  }
  return inputs;
}

absl::Status PrepareHeads(const OfflineReplayRequest& request, Group& started,
                          const std::string& work, ReplayInputs* inputs) {
  const GroupSource group = [&started]() -> absl::StatusOr<Group*> { return &started; };
  ASSAY_ASSIGN_OR_RETURN(
      inputs->head,
      PrepareHead({request.head, request.head_bias, request.logit_scale}, group, work));
  ASSAY_RETURN_IF_ERROR(CheckWidth(inputs->reference, inputs->head));
  ASSAY_RETURN_IF_ERROR(CheckVocabulary(inputs->suite, inputs->head, request.valid_vocab));
  for (ReplayCandidate& candidate : inputs->candidates) {
    if (!candidate.status.ok()) continue;
    const std::optional<std::string> spec = ValueFor(request.candidate_heads, candidate.label);
    const std::optional<std::string> bias =
        ValueFor(request.candidate_head_biases, candidate.label);
    if (spec) {
      candidate.status = PrepareOwnHead({*spec, bias.value_or(""), request.logit_scale}, group,
                                        work, *inputs, &candidate);
    } else if (bias) {
      candidate.status = InvalidError(
          "LABEL_UNKNOWN", "--candidate-head-bias is given for candidate " + candidate.label +
                               ", which has no --candidate-head of its own");
    }
    if (candidate.status.ok() && inputs->HasShared(candidate)) {
      candidate.status = CheckWidth(candidate.capture, inputs->head);
    }
  }
  return absl::OkStatus();
}

}  // namespace assay
