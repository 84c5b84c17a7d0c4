#include "worker/rank/unit.h"

#include <limits>

#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/head.h"
#include "worker/capture/weights/activations.h"
#include "worker/capture/weights/checkpoint.h"
#include "worker/capture/weights/head_extract.h"
#include "worker/rank/unit_fields.h"

namespace assay {

absl::StatusOr<const Json*> UnitArray(const JsonFields& fields, std::string_view key, size_t min,
                                      size_t max) {
  ASSAY_ASSIGN_OR_RETURN(const Json* array, fields.Array(key));
  if (array->size() < min || array->size() > max) {
    return fields.Invalid(key, "has " + std::to_string(array->size()) + " elements; " +
                                   std::to_string(min) + " to " + std::to_string(max) +
                                   " are accepted");
  }
  return array;
}

absl::StatusOr<std::vector<int32_t>> UnitTokens(const JsonFields& fields, std::string_view key,
                                                int32_t min) {
  ASSAY_ASSIGN_OR_RETURN(const Json* array, fields.Array(key));
  std::vector<int32_t> out;
  out.reserve(array->size());
  for (const Json& value : *array) {
    const int64_t token = value.is_number_integer() ? value.get<int64_t>() : min - int64_t{1};
    if (token < min || token > std::numeric_limits<int32_t>::max()) {
      return fields.Invalid(key, "element " + std::to_string(out.size()) + " is no token id");
    }
    out.push_back(static_cast<int32_t>(token));
  }
  return out;
}

absl::StatusOr<UnitModel> ReadUnitModel(const JsonFields& fields) {
  ASSAY_ASSIGN_OR_RETURN(const Json* object, fields.Object("model"));
  const JsonFields model(*object, fields.where() + ": model");
  UnitModel out;
  ASSAY_ASSIGN_OR_RETURN(out.path, model.String("path"));
  if (model.Has("transform")) {
    ASSAY_ASSIGN_OR_RETURN(out.transform, model.String("transform"));
  }
  return out;
}

absl::StatusOr<UnitOutput> ExecutePrepare(const Json& unit, const UnitContext& context) {
  UnitOutput out;
  out.result = Json::object();
  // Files only: one rank does it, nobody waits.
  if (context.collective->rank() != 0) return out;
  const JsonFields fields(unit, "unit");
  ASSAY_ASSIGN_OR_RETURN(const UnitModel model, ReadUnitModel(fields));
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                         Checkpoint::Open(model.path, model.transform));
  const std::string path = JoinPath(context.out_dir, kHeadFile);
  ASSAY_ASSIGN_OR_RETURN(const HeadInfo head, ExtractHead(*checkpoint, path));
  ASSAY_ASSIGN_OR_RETURN(const uint64_t bytes, FileSize(path));
  const char* source =
      checkpoint->Has("lm_head.weight") ? "lm_head.weight" : "model.embed_tokens.weight";
  out.result["facts"] = checkpoint->facts().ToJson();
  ASSAY_ASSIGN_OR_RETURN(const std::string activations, ActivationSchemeOfModel(model.path));
  if (!activations.empty()) out.result["facts"]["activations"] = activations;
  out.result["head"] = {
      {"file", kHeadFile},      {"sha256", head.file_sha256},
      {"bytes", bytes},         {"content_sha256", head.content_sha256},
      {"tensor", head.tensor},  {"vocab", head.vocab},
      {"hidden", head.hidden},  {"storage_format", std::string(checkpoint->StorageFormat(source))},
      {"max_abs", head.max_abs}};
  return out;
}

namespace {

absl::StatusOr<UnitOutput> Dispatch(const Json& unit, const UnitContext& context) {
  const JsonFields fields(unit, "unit");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string kind, fields.String("kind"));
  if (kind == "prepare") return ExecutePrepare(unit, context);
  if (kind == "capture") return ExecuteCapture(unit, context);
  if (kind == "replay") return ExecuteReplay(unit, context);
  return InvalidError("UNIT_KIND_UNKNOWN",
                      "unit: unknown kind \"" + kind +
                          "\"; this build knows prepare, capture, replay. The programs are of "
                          "different builds");
}

}  // namespace

absl::StatusOr<UnitOutput> ExecuteUnit(const Json& unit, const UnitContext& context) {
  absl::StatusOr<UnitOutput> output = Dispatch(unit, context);
  if (output.ok()) return output;
  // A member of the unit itself is the parent's mistake; the same tokens from files keep theirs.
  const std::string reason = ReasonOf(output.status());
  const bool of_unit = MessageOf(output.status()).rfind("unit", 0) == 0;
  if (of_unit && (reason == "FIELD_MISSING" || reason == "FIELD_INVALID")) {
    return InvalidError("UNIT_INVALID", MessageOf(output.status()));
  }
  return output;
}

}  // namespace assay
