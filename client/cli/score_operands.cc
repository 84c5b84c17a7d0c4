#include "client/cli/score_operands.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "client/cli/interrupt.h"
#include "fmt/format.h"
#include "storage/base/atomic_file.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/head.h"
#include "storage/format/safetensors.h"
#include "worker/group/offline.h"

namespace assay {
namespace {

constexpr char kHeadTensor[] = "lm_head.weight";
constexpr char kBiasTensor[] = "lm_head.bias";
constexpr uint64_t kHeaderRoom = uint64_t{64} << 10;

// The head alone, where its file holds more than it (a shard of a checkpoint): that is not
// uploaded.
absl::Status CutOut(OfflineHead* head, const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(const uint64_t size, FileSize(head->file));
  const uint64_t bytes = head->identity.vocab * head->identity.hidden * sizeof(uint16_t);
  if (size <= bytes + kHeaderRoom) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(head->file));
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file->Find(head->tensor));
  const std::string path =
      JoinPath(work, "cut-" + head->identity.rounded_sha256.substr(0, 16) + ".safetensors");
  ASSAY_ASSIGN_OR_RETURN(const auto out, AtomicFile::Create(path));
  ASSAY_RETURN_IF_ERROR(
      out->Append(SafetensorsHeader({{kHeadTensor, DType::kBF16, tensor.shape}})));
  ASSAY_RETURN_IF_ERROR(out->Append(tensor.bytes));
  ASSAY_RETURN_IF_ERROR(out->Commit());
  head->file = path;
  head->tensor = kHeadTensor;
  return absl::OkStatus();
}

absl::StatusOr<std::string> BiasFile(const OfflineHead& head, const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(head.bias_file));
  ASSAY_ASSIGN_OR_RETURN(const HeadBias bias,
                         ReadHeadBias(*file, head.bias_tensor, head.identity.vocab));
  SafetensorsBuilder builder;
  builder.Add(kBiasTensor, DType::kF32, {bias.values.size()},
              {reinterpret_cast<const uint8_t*>(bias.values.data()), bias.values.size() * 4});
  const std::string path =
      JoinPath(work, "bias-" + bias.content_sha256.substr(0, 16) + ".safetensors");
  ASSAY_RETURN_IF_ERROR(WriteFile(path, builder.Build()));
  return path;
}

absl::Status AddHead(const OperandTarget& target, OfflineHead head, RunOperand* operand) {
  ASSAY_RETURN_IF_ERROR(CutOut(&head, target.work));
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256,
                         UploadBlob(target.client, head.file, "upload head", target.progress));
  ASSAY_ASSIGN_OR_RETURN(const Json created, target.client->CreateHead(sha256, head.tensor));
  operand->head = created.value("name", "");
  const Json origin = {{"original_dtype", head.identity.original_dtype},
                       {"original_sha256", head.identity.original_sha256},
                       {"tied", head.identity.tied}};
  ASSAY_ASSIGN_OR_RETURN(operand->head_origin_json, CanonicalJson(origin));
  if (head.bias_file.empty()) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const std::string path, BiasFile(head, target.work));
  ASSAY_ASSIGN_OR_RETURN(operand->bias_file,
                         UploadBlob(target.client, path, "upload head", target.progress));
  operand->bias_tensor = kBiasTensor;
  return absl::OkStatus();
}

absl::Status CheckWidth(const LocalModel& capture, const OfflineHead& head) {
  if (capture.capture.files.empty()) return absl::OkStatus();  // captures/NAME: the server checks
  const uint64_t width = capture.capture.manifest.records.front().width;
  if (width == head.identity.hidden) return absl::OkStatus();
  return InvalidError("SHAPE_MISMATCH",
                      fmt::format("{}: the head takes {} hidden values, the rows of {} have {}; "
                                  "give the head of that model",
                                  head.spec, head.identity.hidden, capture.path, width));
}

absl::StatusOr<std::optional<OfflineHead>> HeadOfCandidate(const HeadOptions& options,
                                                           const LabelledModel& candidate,
                                                           const GroupSource& group,
                                                           const std::string& work) {
  ASSAY_ASSIGN_OR_RETURN(const auto specs, SplitLabels(options.candidate_heads));
  ASSAY_ASSIGN_OR_RETURN(const auto biases, SplitLabels(options.candidate_biases));
  const auto spec = ValueFor(specs, candidate.label);
  const auto bias = ValueFor(biases, candidate.label);
  if (!spec) {
    if (!bias) return std::optional<OfflineHead>();
    return InvalidError("LABEL_UNKNOWN",
                        fmt::format("--candidate-head-bias is given for candidate {}, which has no "
                                    "--candidate-head of its own",
                                    candidate.label));
  }
  ASSAY_ASSIGN_OR_RETURN(OfflineHead head,
                         PrepareHead({*spec, bias.value_or(""), std::nullopt}, group, work));
  ASSAY_RETURN_IF_ERROR(CheckWidth(candidate.model, head));
  return std::optional<OfflineHead>(std::move(head));
}

// `suite` with the contexts alone for which `kept` holds.
template <typename Kept>
Suite PartOf(const Suite& suite, const Kept& kept) {
  Suite out = suite;
  std::erase_if(out.contexts, [&](const SuiteContext& context) { return !kept(context.index); });
  return out;
}

// A capture of fewer contexts than `filter` selects, such as that of assay capture --limit: opened
// for all that it has of them, when those that are compared are among them.
absl::StatusOr<CaptureDir> OpenPartOfSuite(const Suite& suite, const std::string& filter,
                                           int64_t limit, const std::string& dir) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<size_t> selected, SelectContexts(suite, filter));
  std::set<int64_t> compared, captured;
  for (const size_t at : LimitContexts(suite, selected, limit)) {
    compared.insert(suite.contexts[at].index);
  }
  const auto is_compared = [&](int64_t index) { return compared.count(index) != 0; };
  ASSAY_RETURN_IF_ERROR(
      OpenCapture(dir, PartOf(suite, is_compared), filter, /*verify_digests=*/false).status());
  ASSAY_ASSIGN_OR_RETURN(const CaptureManifest manifest, ReadCaptureManifest(dir));
  for (const CaptureRecord& record : manifest.records) captured.insert(record.index);
  const auto is_captured = [&](int64_t index) { return captured.count(index) != 0; };
  return OpenCapture(dir, PartOf(suite, is_captured), filter, /*verify_digests=*/true);
}

}  // namespace

absl::Status OpenScoreCapture(const Suite& suite, const std::string& filter, int64_t limit,
                              LocalModel* capture) {
  absl::StatusOr<CaptureDir> opened =
      OpenCapture(capture->path, suite, filter, /*verify_digests=*/true);
  if (limit > 0 && ReasonOf(opened.status()) == "CONTEXT_MISSING") {
    opened = OpenPartOfSuite(suite, filter, limit, capture->path);
  }
  ASSAY_ASSIGN_OR_RETURN(capture->capture, std::move(opened));
  const std::string& cut_point = capture->capture.manifest.cut_point;
  if (cut_point == kDefaultCutPoint) return absl::OkStatus();
  return InvalidError("CUT_POINT_DIFFERS",
                      fmt::format("{} was taken at \"{}\"; a head is applied to rows taken at "
                                  "\"{}\" only, capture it there",
                                  capture->path, cut_point, kDefaultCutPoint));
}

absl::Status CheckHeadOptions(const HeadOptions& options, const LocalModel& reference,
                              const std::vector<LabelledModel>& candidates) {
  if (reference.is_capture && options.head.empty() && reference.remote_name.empty()) {
    return InvalidError("BAD_USAGE", fmt::format("{} is a capture, which holds no head; give "
                                                 "--head FILE[:TENSOR] or --head MODEL",
                                                 reference.path));
  }
  if (!reference.is_capture && !(options.head.empty() && options.bias.empty())) {
    return InvalidError("BAD_USAGE",
                        fmt::format("--head and --head-bias are of a captured reference; {} is a "
                                    "model and has its own head",
                                    reference.text));
  }
  for (const auto& [flag, given] : {std::pair("--candidate-head", &options.candidate_heads),
                                    {"--candidate-head-bias", &options.candidate_biases}}) {
    ASSAY_ASSIGN_OR_RETURN(const auto inputs, SplitLabels(*given));
    for (const LabelledInput& input : inputs) {
      if (input.label.empty()) continue;
      const auto found =
          std::find_if(candidates.begin(), candidates.end(),
                       [&](const LabelledModel& c) { return c.label == input.label; });
      if (found == candidates.end()) {
        return InvalidError(
            "LABEL_UNKNOWN",
            fmt::format("{} names \"{}\", but no candidate is called so", flag, input.label));
      }
      if (!found->model.is_capture) {
        return InvalidError("BAD_USAGE", fmt::format("{} is of captured candidates; {} is a model "
                                                     "and has its own head",
                                                     flag, input.label));
      }
    }
  }
  return absl::OkStatus();
}

std::string HeadFolder(const std::string& base) {
  std::error_code error;
  const std::string temporary = std::filesystem::temp_directory_path(error).string();
  const std::string& below = base.empty() ? temporary : base;
  return JoinPath(below.empty() ? "/tmp" : below, fmt::format("assay-heads-{}", getpid()));
}

absl::StatusOr<ScoreHeads> PrepareScoreHeads(const HeadOptions& options,
                                             const LocalModel& reference,
                                             std::vector<LabelledModel>* candidates,
                                             const std::string& work) {
  ScoreHeads out;
  out.candidates.resize(candidates->size());
  std::unique_ptr<Group> started;
  const GroupSource group = [&]() -> absl::StatusOr<Group*> {
    if (started == nullptr) {
      OfflineHooks hooks;
      hooks.interrupted = [] { return Interrupted(); };
      ASSAY_ASSIGN_OR_RETURN(started, StartOfflineGroup({}, /*capture=*/false, work, hooks));
    }
    return started.get();
  };
  if (reference.is_capture && !options.head.empty()) {
    ASSAY_ASSIGN_OR_RETURN(out.reference,
                           PrepareHead({options.head, options.bias, std::nullopt}, group, work));
    ASSAY_RETURN_IF_ERROR(CheckWidth(reference, *out.reference));
  }
  for (size_t i = 0; i < candidates->size(); ++i) {
    LabelledModel& candidate = (*candidates)[i];
    if (!candidate.status.ok() || !candidate.model.is_capture) continue;
    auto head = HeadOfCandidate(options, candidate, group, work);
    candidate.status = head.status();
    if (head.ok()) out.candidates[i] = *std::move(head);
  }
  return out;
}

absl::StatusOr<RunOperand> RegisterOperand(const OperandTarget& target, const LocalModel& model,
                                           const std::optional<OfflineHead>& head) {
  RunOperand operand;
  if (!model.is_capture) {
    ASSAY_ASSIGN_OR_RETURN(
        operand.model, RegisterModel(target.client, model, target.upload_models, target.progress));
    return operand;
  }
  if (model.remote_name.empty()) {
    ASSAY_ASSIGN_OR_RETURN(operand.capture,
                           RegisterCapture(target.client, target.suite_name, *target.suite,
                                           target.filter, model.capture, target.progress));
  } else {
    operand.capture = "captures/" + model.remote_name;
  }
  if (head) ASSAY_RETURN_IF_ERROR(AddHead(target, *head, &operand));
  return operand;
}

}  // namespace assay
