// Units of kind "replay": opens the files of the unit for worker/replay and writes its arrays.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/mapped_pages.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "storage/format/safetensors.h"
#include "worker/rank/protocol.h"
#include "worker/rank/unit.h"
#include "worker/rank/unit_fields.h"

namespace assay {
namespace {

using FilePtr = std::shared_ptr<const SafetensorsFile>;

// A plan and the open files its spans point into.
struct OpenPlan {
  ReplayPlan plan;
  std::vector<FilePtr> heads;
  std::vector<std::string> rounded_operands;  // ids whose rows are not stored as bf16
  uint64_t score_from = 0;                    // rows left out at the start of every context
};

// "logit_scale" and "bias". A bias that the head's file holds is never passed over in silence: a
// unit without a member "bias" is refused then, null says that it shall not be used.
absl::Status ReadAffine(const JsonFields& entry, bool says_bias, const SafetensorsFile& file,
                        const std::string& weight, ReplayHead* head) {
  if (entry.Has("logit_scale")) {
    ASSAY_ASSIGN_OR_RETURN(head->scale, entry.Number("logit_scale"));
  }
  if (!entry.Has("bias")) {
    const std::string beside = BiasBeside(file, weight);
    if (beside.empty() || says_bias) return absl::OkStatus();
    return InvalidError("HEAD_INVALID", file.path() + " holds " + beside +
                                            ", and the unit says nothing of a bias; name it in "
                                            "\"bias\", or null to leave it out");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* object, entry.Object("bias"));
  const JsonFields bias(*object, entry.where() + ": bias");
  ASSAY_ASSIGN_OR_RETURN(const std::string path, bias.String("file"));
  ASSAY_ASSIGN_OR_RETURN(const std::string tensor, bias.String("tensor"));
  ASSAY_ASSIGN_OR_RETURN(const FilePtr source, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(HeadBias values, ReadHeadBias(*source, tensor, head->vocab));
  head->bias = std::move(values.values);
  return absl::OkStatus();
}

absl::StatusOr<ReplayHead> OpenHead(const Json& json, const std::string& where, OpenPlan* open) {
  const JsonFields entry(json, where);
  ASSAY_RETURN_IF_ERROR(entry.CheckObject());
  ReplayHead head;
  ASSAY_ASSIGN_OR_RETURN(head.id, entry.String("id"));
  ASSAY_ASSIGN_OR_RETURN(const std::string path, entry.String("file"));
  std::string tensor_name;
  if (entry.Has("tensor")) {
    ASSAY_ASSIGN_OR_RETURN(tensor_name, entry.String("tensor"));
  }
  if (entry.Has("content_sha256")) {
    ASSAY_ASSIGN_OR_RETURN(head.cache_key, entry.Sha256("content_sha256"));
  }
  ASSAY_ASSIGN_OR_RETURN(FilePtr file, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, FindHeadTensor(*file, tensor_name));
  if (tensor.dtype != DType::kBF16) {
    return InvalidError("HEAD_INVALID", path + ": tensor " + tensor.name + " is " +
                                            std::string(DTypeName(tensor.dtype)) +
                                            "; a replay unit needs it rounded to BF16 before");
  }
  head.bytes = tensor.bytes;
  head.vocab = tensor.shape[0];
  head.hidden = tensor.shape[1];
  ASSAY_RETURN_IF_ERROR(ReadAffine(entry, json.contains("bias"), *file, tensor.name, &head));
  head.release = ReleaseMappedPages;  // the file is mapped, and packed it is held a second time
  open->heads.push_back(std::move(file));
  return head;
}

// Rows of a hidden file: hidden_states, BF16 or F32 [rows, width].
absl::StatusOr<RowBlock> OpenHidden(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(FilePtr file, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file->Find(kHiddenTensorName));
  if (tensor.shape.size() != 2 || (tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF32)) {
    return InvalidError("SHAPE_MISMATCH", path + ": tensor " + tensor.name +
                                              " is not a BF16 or F32 [rows, width] matrix");
  }
  return RowBlock{tensor.bytes, tensor.dtype == DType::kF32 ? RowType::kF32 : RowType::kBf16,
                  tensor.shape[0], tensor.shape[1], std::move(file)};
}

// Rows of stored logits, "FILE#TENSOR": F32 [rows, vocabulary].
absl::StatusOr<RowBlock> OpenLogits(const std::string& spec) {
  const size_t hash = spec.rfind('#');
  if (hash == std::string::npos) {
    return InvalidError("UNIT_INVALID", "unit: \"" + spec + "\" is not of the form FILE#TENSOR");
  }
  const std::string path = spec.substr(0, hash);
  ASSAY_ASSIGN_OR_RETURN(FilePtr file, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file->Find(spec.substr(hash + 1)));
  if (tensor.shape.size() != 2 || tensor.dtype != DType::kF32) {
    return InvalidError("SHAPE_MISMATCH", path + ": tensor " + tensor.name +
                                              " is not an F32 [rows, vocabulary] matrix");
  }
  return RowBlock{tensor.bytes, RowType::kF32, tensor.shape[0], tensor.shape[1], std::move(file)};
}

absl::StatusOr<RowBlock> WithoutFirst(absl::StatusOr<RowBlock> block, uint64_t rows) {
  if (!block.ok() || rows == 0) return block;
  if (rows >= block->rows) {
    return InvalidError("SHAPE_MISMATCH", "score_from " + std::to_string(rows) +
                                              " leaves none of an operand's " +
                                              std::to_string(block->rows) + " rows");
  }
  block->bytes = block->bytes.subspan(block->bytes.size() / block->rows * rows);
  block->rows -= rows;
  return block;
}

absl::StatusOr<ReplayOperand> ReadOperand(const JsonFields& entry, size_t contexts,
                                          OpenPlan* open) {
  ReplayOperand operand;
  ASSAY_ASSIGN_OR_RETURN(operand.id, entry.String("id"));
  const bool logits = entry.Has("logits");
  const char* key = logits ? "logits" : "hidden";
  ASSAY_ASSIGN_OR_RETURN(const Json* array, UnitArray(entry, key, contexts, contexts));
  std::vector<std::string> paths;
  for (const Json& path : *array) {
    if (!path.is_string()) return entry.Invalid(key, "must hold one path per context");
    paths.push_back(path.get<std::string>());
  }
  operand.kind = logits ? OperandKind::kLogits : OperandKind::kHidden;
  // Any file with F32 rows makes a rounded operand, whichever contexts the unit holds.
  for (size_t i = 0; i < paths.size() && !logits; ++i) {
    ASSAY_ASSIGN_OR_RETURN(const RowBlock block, OpenHidden(paths[i]));
    if (block.type == RowType::kBf16) continue;
    open->rounded_operands.push_back(operand.id);
    break;
  }
  operand.rows = [paths = std::move(paths), logits, first = open->score_from](size_t i) {
    return WithoutFirst(logits ? OpenLogits(paths.at(i)) : OpenHidden(paths.at(i)), first);
  };
  return operand;
}

absl::StatusOr<ReplaySide> ReadSide(const JsonFields& entry, std::string_view key) {
  ASSAY_ASSIGN_OR_RETURN(const Json* object, entry.Object(key));
  const JsonFields side(*object, entry.where() + ": " + std::string(key));
  ReplaySide out;
  ASSAY_ASSIGN_OR_RETURN(out.operand, side.String("operand"));
  if (side.Has("head")) {
    ASSAY_ASSIGN_OR_RETURN(out.head, side.String("head"));
  }
  return out;
}

absl::Status ReadOptions(const JsonFields& fields, ReplayPlan* plan) {
  ASSAY_ASSIGN_OR_RETURN(const std::string policy, fields.String("policy"));
  ASSAY_ASSIGN_OR_RETURN(plan->policy, ParseReplayPolicy(policy));
  if (fields.Has("backend")) {
    ASSAY_ASSIGN_OR_RETURN(const std::string backend, fields.String("backend"));
    ASSAY_ASSIGN_OR_RETURN(plan->backend, ParseReplayBackend(backend));
  }
  if (fields.Has("row_tile")) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t tile, fields.Int("row_tile", 0, 1 << 20));
    plan->row_tile = static_cast<uint64_t>(tile);
  }
  if (fields.Has("valid_vocab")) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t valid, fields.Int("valid_vocab", 1, int64_t{1} << 31));
    plan->valid_vocab = static_cast<uint64_t>(valid);
  }
  if (fields.Has("softcap")) {
    ASSAY_ASSIGN_OR_RETURN(plan->softcap, fields.Number("softcap"));
  }
  if (fields.Has("vocab_chunk")) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t chunk, fields.Int("vocab_chunk", 1, int64_t{1} << 31));
    plan->vocab_chunk = static_cast<uint64_t>(chunk);
  }
  if (fields.Has("allow_infinite")) {
    ASSAY_ASSIGN_OR_RETURN(plan->allow_infinite, fields.Bool("allow_infinite"));
  }
  return absl::OkStatus();
}

absl::Status ReadContexts(const JsonFields& fields, ReplayPlan* plan) {
  ASSAY_ASSIGN_OR_RETURN(const Json* contexts, UnitArray(fields, "contexts", 1, kUnitContextsMax));
  std::set<int64_t> seen;
  for (size_t i = 0; i < contexts->size(); ++i) {
    const JsonFields entry((*contexts)[i], "unit: contexts[" + std::to_string(i) + "]");
    ASSAY_RETURN_IF_ERROR(entry.CheckObject());
    ReplayContext context;
    ASSAY_ASSIGN_OR_RETURN(context.index, entry.Int("index", 0, 999'999));
    ASSAY_ASSIGN_OR_RETURN(context.observed, UnitTokens(entry, "observed", -1));
    if (!seen.insert(context.index).second) return entry.Invalid("index", "occurs twice");
    plan->contexts.push_back(std::move(context));
  }
  return absl::OkStatus();
}

absl::Status ReadComparisons(const JsonFields& fields, ReplayPlan* plan) {
  ASSAY_ASSIGN_OR_RETURN(const Json* comparisons,
                         UnitArray(fields, "comparisons", 1, kUnitComparisonsMax));
  for (size_t i = 0; i < comparisons->size(); ++i) {
    const JsonFields entry((*comparisons)[i], "unit: comparisons[" + std::to_string(i) + "]");
    ASSAY_RETURN_IF_ERROR(entry.CheckObject());
    ReplayComparison comparison;
    ASSAY_ASSIGN_OR_RETURN(comparison.id, entry.String("id"));
    if (comparison.id.empty() || comparison.id.find('|') != std::string::npos) {
      return entry.Invalid("id", "must not be empty and not hold '|'");
    }
    ASSAY_ASSIGN_OR_RETURN(comparison.ref, ReadSide(entry, "ref"));
    ASSAY_ASSIGN_OR_RETURN(comparison.cand, ReadSide(entry, "cand"));
    plan->comparisons.push_back(std::move(comparison));
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenPlan> OpenUnit(const Json& unit) {
  const JsonFields fields(unit, "unit");
  OpenPlan open;
  ASSAY_RETURN_IF_ERROR(ReadOptions(fields, &open.plan));
  if (fields.Has("score_from")) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t from, fields.Int("score_from", 0, 1 << 20));
    open.score_from = static_cast<uint64_t>(from);
  }
  ASSAY_RETURN_IF_ERROR(ReadContexts(fields, &open.plan));
  ASSAY_ASSIGN_OR_RETURN(const Json* heads, UnitArray(fields, "heads", 0, kUnitHeadsMax));
  for (size_t i = 0; i < heads->size(); ++i) {
    ASSAY_ASSIGN_OR_RETURN(ReplayHead head,
                           OpenHead((*heads)[i], "unit: heads[" + std::to_string(i) + "]", &open));
    open.plan.heads.push_back(std::move(head));
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* operands, UnitArray(fields, "operands", 1, kUnitOperandsMax));
  for (size_t i = 0; i < operands->size(); ++i) {
    const JsonFields entry((*operands)[i], "unit: operands[" + std::to_string(i) + "]");
    ASSAY_RETURN_IF_ERROR(entry.CheckObject());
    ASSAY_ASSIGN_OR_RETURN(ReplayOperand operand,
                           ReadOperand(entry, open.plan.contexts.size(), &open));
    open.plan.operands.push_back(std::move(operand));
  }
  ASSAY_RETURN_IF_ERROR(ReadComparisons(fields, &open.plan));
  return open;
}

template <typename T>
std::span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

std::string BuildPositions(const ReplayPlan& plan, const ReplayResult& result) {
  SafetensorsBuilder builder;
  for (size_t c = 0; c < plan.comparisons.size(); ++c) {
    for (size_t i = 0; i < plan.contexts.size(); ++i) {
      std::string digits = std::to_string(plan.contexts[i].index);
      digits.insert(0, 6 - std::min<size_t>(6, digits.size()), '0');
      const std::string prefix = plan.comparisons[c].id + "|" + digits + "|";
      const ReplayRows& rows = result.rows[c][i];
      for (size_t o = 0; o < rows.f64.size(); ++o) {
        builder.Add(prefix + std::string(kReplayF64Names[o]), DType::kF64, {rows.f64[o].size()},
                    BytesOf(rows.f64[o]));
      }
      for (size_t o = 0; o < rows.i32.size(); ++o) {
        builder.Add(prefix + std::string(kReplayI32Names[o]), DType::kI32, {rows.i32[o].size()},
                    BytesOf(rows.i32[o]));
      }
    }
  }
  return builder.Build();
}

Json MaximaJson(const std::vector<ReplayMaximum>& maxima) {
  Json out = Json::object();
  for (const ReplayMaximum& maximum : maxima) {
    out[maximum.id] = std::isfinite(maximum.value) ? Json(maximum.value) : Json(nullptr);
  }
  return out;
}

// Positions are those of the whole context.
absl::Status AddDetails(const absl::Status& refused, uint64_t score_from) {
  std::optional<ReplayRefusal> refusal = RefusalOf(refused);
  if (!refusal) return refused;
  absl::Status status = refused;
  if (score_from > 0 && refusal->position) {
    *refusal->position += static_cast<int64_t>(score_from);
    status = Annotate(status, "position " + std::to_string(*refusal->position) +
                                  " of the context, counted here from its position " +
                                  std::to_string(score_from));
  }
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  return WithDetails(status, {{"operand", refusal->operand},
                              {"context", number(refusal->context)},
                              {"position", number(refusal->position)},
                              {"column", number(refusal->column)}});
}

}  // namespace

absl::StatusOr<UnitOutput> ExecuteReplay(const Json& unit, const UnitContext& context) {
  ASSAY_ASSIGN_OR_RETURN(OpenPlan open, OpenUnit(unit));
  ReplayCounters counters;
  absl::StatusOr<ReplayResult> result =
      context.replay->Run(open.plan, *context.collective, context.progress, &counters);
  if (!result.ok()) return AddDetails(result.status(), open.score_from);
  UnitOutput out;
  out.multiply_adds = counters.multiply_adds;
  out.weight_bytes = counters.weight_bytes;
  out.result["file"] = kPositionsFile;
  if (context.collective->rank() == 0) {
    const std::string bytes = BuildPositions(open.plan, *result);
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(context.out_dir, kPositionsFile), bytes));
    out.result["sha256"] = Sha256Hex(bytes);
    out.result["bytes"] = bytes.size();
  }
  out.result["backend"] = std::string(ReplayBackendName(result->backend));
  out.result["maxima"] = {{"hidden", MaximaJson(result->max_hidden)},
                          {"head", MaximaJson(result->max_head)}};
  out.result["rounded_operands"] = open.rounded_operands;
  return out;
}

}  // namespace assay
