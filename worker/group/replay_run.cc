#include "worker/group/replay_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/rank/protocol.h"

namespace assay {
namespace {

constexpr char kFallbackBackend[] = "cpu-f32";

// Distinct heads by content: own and shared heads that are equal are multiplied once.
class HeadTable {
 public:
  std::string Add(const OfflineHead& head) {
    for (size_t h = 0; h < heads_.size(); ++h) {
      if (heads_[h].Same(head)) return Id(h);
    }
    heads_.push_back(head);
    Json bias = nullptr;
    if (!head.bias_file.empty()) bias = {{"file", head.bias_file}, {"tensor", head.bias_tensor}};
    const std::optional<double>& scale = head.identity.logit_scale;
    json_.push_back({{"id", Id(heads_.size() - 1)},
                     {"file", head.file},
                     {"tensor", head.tensor},
                     {"content_sha256", head.identity.rounded_sha256},
                     {"logit_scale", scale ? Json(*scale) : Json(nullptr)},
                     {"bias", std::move(bias)}});
    return Id(heads_.size() - 1);
  }
  const Json& json() const { return json_; }

 private:
  static std::string Id(size_t head) { return "h" + std::to_string(head); }

  std::vector<OfflineHead> heads_;
  Json json_ = Json::array();
};

Json OperandJson(const std::string& id, const char* role, const CaptureDir& capture,
                 const std::vector<int64_t>& indices) {
  Json files = Json::array();
  for (const int64_t index : indices) files.push_back(capture.files.at(index));
  return {{"id", id}, {"role", role}, {"hidden", std::move(files)}};
}

Json ContextsJson(const ReplayInputs& inputs, const std::vector<size_t>& positions) {
  Json out = Json::array();
  for (const size_t position : positions) {
    const SuiteContext& context = inputs.suite.contexts[position];
    // Row r predicts token r + 1.
    const std::vector<int32_t> observed(context.tokens.begin() + 1 + inputs.score_from,
                                        context.tokens.end());
    out.push_back({{"index", context.index}, {"observed", observed}});
  }
  return out;
}

Json BuildUnit(const OfflineReplayRequest& request, const ReplayInputs& inputs,
               const std::vector<size_t>& positions, const std::string& backend) {
  std::vector<int64_t> indices;
  for (const size_t position : positions) indices.push_back(inputs.suite.contexts[position].index);
  HeadTable heads;
  const std::string reference_head = heads.Add(inputs.head);
  Json operands = Json::array(), comparisons = Json::array();
  operands.push_back(OperandJson(kReferenceOperand, "reference", inputs.reference, indices));
  const Json ref = {{"operand", kReferenceOperand}, {"head", reference_head}};
  for (size_t c = 0; c < inputs.candidates.size(); ++c) {
    const ReplayCandidate& candidate = inputs.candidates[c];
    if (!candidate.status.ok()) continue;
    const std::string id = CandidateOperand(c);
    operands.push_back(OperandJson(id, "candidate", candidate.capture, indices));
    const auto compare = [&](std::string_view mode, const std::string& head) {
      comparisons.push_back({{"id", ComparisonId(c, mode)},
                             {"ref", ref},
                             {"cand", {{"operand", id}, {"head", head}}}});
    };
    if (ReplayInputs::HasOwn(candidate)) compare(kHeadOwn, heads.Add(*candidate.own_head));
    if (inputs.HasShared(candidate)) compare(kHeadShared, reference_head);
  }
  return {{"kind", "replay"},
          {"policy", request.policy},
          {"backend", backend},
          {"row_tile", request.row_tile},
          {"valid_vocab", request.valid_vocab ? Json(*request.valid_vocab) : Json(nullptr)},
          {"softcap", request.softcap ? Json(*request.softcap) : Json(nullptr)},
          {"allow_infinite", request.allow_infinite},
          {"score_from", request.score_from},
          {"vocab_chunk", request.vocab_chunk ? Json(*request.vocab_chunk) : Json(nullptr)},
          {"heads", heads.json()},
          {"operands", std::move(operands)},
          {"contexts", ContextsJson(inputs, positions)},
          {"comparisons", std::move(comparisons)}};
}

// The candidate that a refusal is about, when it is one: by operand, or by a head only it uses.
std::optional<size_t> BlamedCandidate(const absl::Status& status, const Json& unit,
                                      const ReplayInputs& inputs) {
  const Json details = DetailsOf(status);
  if (!details.is_object() || !details.contains("operand")) return std::nullopt;
  const std::string operand =
      details.at("operand").is_string() ? details.at("operand").get<std::string>() : std::string();
  std::optional<size_t> found;
  for (size_t c = 0; c < inputs.candidates.size(); ++c) {
    if (operand == CandidateOperand(c)) return c;
    for (const Json& comparison : unit.at("comparisons")) {
      if (comparison.at("cand").at("head") != operand) continue;
      if (comparison.at("ref").at("head") == operand) return std::nullopt;
      if (comparison.at("cand").at("operand") == CandidateOperand(c) && !found) found = c;
    }
  }
  return found;
}

// A refusal in words that a person knows: the label and the file instead of ids.
absl::Status Explain(const absl::Status& status, const ReplayInputs& inputs,
                     std::optional<size_t> candidate) {
  const Json details = DetailsOf(status);
  if (!details.is_object()) return status;
  const bool is_reference = details.value("operand", Json()) == kReferenceOperand;
  if (!candidate && !is_reference) return status;
  const CaptureDir& capture = candidate ? inputs.candidates[*candidate].capture : inputs.reference;
  std::string who = candidate ? "candidate " + inputs.candidates[*candidate].label : "reference";
  const Json context = details.value("context", Json());
  if (!context.is_number_integer()) {  // not of a row: of the head
    const bool own = candidate && inputs.candidates[*candidate].own_head;
    who += ": head " + (own ? inputs.candidates[*candidate].own_head->spec : inputs.head.spec);
  } else if (const auto file = capture.files.find(context.get<int64_t>());
             file != capture.files.end()) {
    who += ": " + file->second;
  }
  return WithDetails(Annotate(status, who), details);
}

class UnitRunner {
 public:
  UnitRunner(const OfflineReplayRequest& request, Group& group, std::string work,
             const OfflineHooks& hooks, ReplayInputs* inputs)
      : request_(request),
        group_(group),
        work_(std::move(work)),
        hooks_(hooks),
        inputs_(inputs),
        backend_(request.backend) {}

  absl::StatusOr<ReplayRun> Run();

 private:
  absl::Status RunUnit(const std::vector<size_t>& positions, size_t number, ReplayRun* run);
  absl::Status RunAll(ReplayRun* run);
  absl::Status Accept(const UnitOutcome& outcome, const std::string& folder,
                      const std::vector<size_t>& positions, ReplayRun* run);
  bool AnyLeft() const {
    return std::any_of(inputs_->candidates.begin(), inputs_->candidates.end(),
                       [](const ReplayCandidate& c) { return c.status.ok(); });
  }

  const OfflineReplayRequest& request_;
  Group& group_;
  const std::string work_;
  const OfflineHooks& hooks_;
  ReplayInputs* inputs_;
  std::string backend_;
  bool again_ = false;  // units disagreed about the backend: once more with the safe one
  uint64_t rows_done_ = 0;
};

absl::Status UnitRunner::Accept(const UnitOutcome& outcome, const std::string& folder,
                                const std::vector<size_t>& positions, ReplayRun* run) {
  const JsonFields fields(outcome.result, "replay result");
  ASSAY_ASSIGN_OR_RETURN(const std::string name, fields.String("file"));
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, fields.Sha256("sha256"));
  ASSAY_ASSIGN_OR_RETURN(const std::string backend, fields.String("backend"));
  ASSAY_ASSIGN_OR_RETURN(const Json* rounded, fields.Array("rounded_operands"));
  for (const Json& id : *rounded) run->rounded.insert(id.get<std::string>());
  if (run->backend.empty()) run->backend = backend;
  again_ = again_ || run->backend != backend;
  const std::string path = JoinPath(folder, name);
  ASSAY_ASSIGN_OR_RETURN(const std::string found, Sha256File(path));
  if (found != digest) {
    return DataLossError("DIGEST_MISMATCH", path + ": the rank wrote " + digest + ", the file is " +
                                                found + "; check the disk and run again");
  }
  ASSAY_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  run->files.push_back(std::move(file));
  Json ranks = Json::array();
  for (const RankCounters& counters : outcome.counters) {
    ranks.push_back(
        {{"multiply_adds", counters.multiply_adds}, {"weight_bytes", counters.weight_bytes}});
  }
  Json indices = Json::array();
  for (const size_t p : positions) indices.push_back(inputs_->suite.contexts[p].index);
  run->units.push_back({{"contexts", std::move(indices)},
                        {"attempts", outcome.attempts},
                        {"ranks", std::move(ranks)}});
  return absl::OkStatus();
}

absl::Status UnitRunner::RunUnit(const std::vector<size_t>& positions, size_t number,
                                 ReplayRun* run) {
  const uint64_t rows = inputs_->rows_per_context();
  const uint64_t total = rows * inputs_->selected.size();
  const std::string folder = JoinPath(work_, "replay-" + std::to_string(number));
  while (true) {
    const Json unit = BuildUnit(request_, *inputs_, positions, backend_);
    absl::StatusOr<UnitOutcome> outcome = group_.Run(unit, folder, [&](uint64_t done, uint64_t) {
      if (hooks_.progress) {
        hooks_.progress("replay", "positions", std::min(rows_done_ + done, total), total);
      }
      return true;
    });
    if (outcome.ok()) {
      rows_done_ += rows * positions.size();
      return Accept(*outcome, folder, positions, run);
    }
    const std::optional<size_t> blamed = BlamedCandidate(outcome.status(), unit, *inputs_);
    const absl::Status status = Explain(outcome.status(), *inputs_, blamed);
    if (!blamed) return status;
    inputs_->candidates[*blamed].status = status;
    if (!AnyLeft()) return status;
    if (hooks_.note) hooks_.note("going on without a refused candidate: " + MessageOf(status));
  }
}

absl::Status UnitRunner::RunAll(ReplayRun* run) {
  const size_t step = std::max<size_t>(1, request_.unit_contexts);
  const std::vector<size_t>& all = inputs_->selected;
  rows_done_ = 0;
  for (size_t begin = 0; begin < all.size(); begin += step) {
    const std::vector<size_t> positions(
        all.begin() + static_cast<ptrdiff_t>(begin),
        all.begin() + static_cast<ptrdiff_t>(std::min(begin + step, all.size())));
    ASSAY_RETURN_IF_ERROR(RunUnit(positions, begin / step, run));
    if (again_) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<ReplayRun> UnitRunner::Run() {
  ReplayRun run;
  ASSAY_RETURN_IF_ERROR(RunAll(&run));
  if (again_) {
    // Some unit holds values beyond the bf16 kernels' safe range. One run has one backend.
    again_ = false;
    backend_ = kFallbackBackend;
    run = ReplayRun();
    ASSAY_RETURN_IF_ERROR(RunAll(&run));
  }
  return run;
}

}  // namespace

std::string CandidateOperand(size_t candidate) { return "cand" + std::to_string(candidate); }

std::string ComparisonId(size_t candidate, std::string_view head) {
  return CandidateOperand(candidate) + "/" + std::string(head);
}

absl::StatusOr<ReplayRun> RunReplayUnits(const OfflineReplayRequest& request, Group& group,
                                         const std::string& work, const OfflineHooks& hooks,
                                         ReplayInputs* inputs) {
  return UnitRunner(request, group, work, hooks, inputs).Run();
}

}  // namespace assay
