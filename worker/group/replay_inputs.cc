#include "worker/group/replay_inputs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_manifest.h"
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

// The value given for `label`, else the one given for all candidates.
std::optional<std::string> ValueFor(const std::vector<LabelledInput>& inputs,
                                    const std::string& label) {
  std::optional<std::string> value;
  for (const LabelledInput& input : inputs) {
    if (input.label == label) return input.value;
    if (input.label.empty()) value = input.value;
  }
  return value;
}

absl::Status PrepareOwnHead(const HeadRequest& request, Group& group, const std::string& work,
                            const ReplayInputs& inputs, ReplayCandidate* candidate) {
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

// Numbers of a ModelFacts document that a manifest carries; what is not there stays unknown.
ModelSizes SizesOf(const Json& facts) {
  ModelSizes sizes;
  const auto count = [](const Json& object, const char* key) -> std::optional<uint64_t> {
    const auto it = object.find(key);
    if (it == object.end() || !it->is_number_unsigned()) return std::nullopt;
    return it->get<uint64_t>();
  };
  sizes.file_bytes = count(facts, "file_bytes");
  const auto part = [&](const char* name, std::optional<uint64_t>* weights,
                        std::optional<double>* bits) {
    const auto it = facts.find(name);
    if (it == facts.end() || !it->is_object()) return;
    *weights = count(*it, "params");
    const auto value = it->find("bits_per_weight");
    if (value != it->end() && value->is_number()) *bits = value->get<double>();
  };
  part("body", &sizes.body_weights, &sizes.body_bits_per_weight);
  part("head", &sizes.head_weights, &sizes.head_bits_per_weight);
  part("embedding", &sizes.embedding_weights, &sizes.embedding_bits_per_weight);
  const auto what_if = facts.find("what_if");
  sizes.what_if = what_if != facts.end() && what_if->is_boolean() && what_if->get<bool>();
  return sizes;
}

std::string TextOf(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// The member `key` when `object` has it as an object, else null.
const Json* ObjectIn(const Json* object, const char* key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(key);
  return it != object->end() && it->is_object() ? &*it : nullptr;
}

void DescribeModel(const Json& kept, OperandInfo* out) {
  const Json* manifest = ObjectIn(&kept, "manifest");
  if (manifest == nullptr) return;
  absl::StatusOr<ModelManifest> model = ParseModelManifest(*manifest, "assay_model");
  if (!model.ok() || model->Identity() != TextOf(kept, "identity")) return;
  out->model = model->ToJson();
  out->model_identity = model->Identity();
  if (const Json* facts = ObjectIn(&kept, "facts")) {
    out->architecture = TextOf(*facts, "architecture");
    out->family = TextOf(*facts, "family");
    out->sizes = SizesOf(*facts);
  }
}

}  // namespace

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

absl::StatusOr<ReplayInputs> ReadReplayInputs(const OfflineReplayRequest& request) {
  ReplayInputs inputs;
  ASSAY_RETURN_IF_ERROR(SettleLabels(request, &inputs));
  ASSAY_ASSIGN_OR_RETURN(inputs.suite, ReadSuite(request.suite_dir));
  inputs.filter = request.filter;
  if (inputs.filter.empty()) {
    ASSAY_ASSIGN_OR_RETURN(inputs.filter, ReferenceFilter(request.reference));
  }
  ASSAY_ASSIGN_OR_RETURN(inputs.selected, SelectContexts(inputs.suite, inputs.filter));
  inputs.score_from = request.score_from;
  if (inputs.score_from < 0 || inputs.score_from >= inputs.suite.context_length - 1) {
    return InvalidError("FILTER_EMPTY", "scoring from position " +
                                            std::to_string(inputs.score_from) +
                                            " leaves nothing of contexts with " +
                                            std::to_string(inputs.suite.context_length - 1) +
                                            " scored positions; start earlier");
  }
  ASSAY_ASSIGN_OR_RETURN(inputs.reference, OpenCapture(request.reference, inputs.suite,
                                                       inputs.filter, /*verify_digests=*/true));
  for (ReplayCandidate& candidate : inputs.candidates) {
    absl::StatusOr<CaptureDir> capture =
        OpenCapture(candidate.dir, inputs.suite, inputs.filter, /*verify_digests=*/true);
    candidate.status = capture.status();
    if (capture.ok()) candidate.capture = std::move(*capture);
  }
  return inputs;
}

absl::Status PrepareHeads(const OfflineReplayRequest& request, Group& group,
                          const std::string& work, ReplayInputs* inputs) {
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

OperandInfo DescribeOperand(const CaptureDir& capture) {
  OperandInfo out;
  const CaptureManifest& manifest = capture.manifest;
  out.capture.content_sha256 = manifest.ContentSha256();
  out.capture.schema = manifest.schema;
  out.capture.cut_point = manifest.cut_point;
  out.capture.legacy = manifest.legacy;
  const Json* identity = ObjectIn(&manifest.json, "candidate_identity");
  if (const Json* kept = ObjectIn(identity, "assay_model")) DescribeModel(*kept, &out);
  if (out.model.is_null() && identity != nullptr) out.declared_identity = *identity;
  const Json* stack = ObjectIn(&manifest.json, "engine_identity");
  const Json* runtime = ObjectIn(ObjectIn(&manifest.json, "capture_contract"), "runtime");
  if (const Json* kernels = ObjectIn(stack, "kernels")) {
    out.capture.engine = *kernels;
    out.capture.stack = *stack;
  } else if (runtime != nullptr) {
    // Of a foreign engine: how it ran, without what only describes the model.
    out.capture.engine = *runtime;
    out.capture.engine.erase("quantization");
    out.capture.engine.erase("quantization_config");
  }
  return out;
}

}  // namespace assay
