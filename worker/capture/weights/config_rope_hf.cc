#include "worker/capture/weights/config_rope_hf.h"

#include <optional>
#include <string>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/config_check.h"

namespace assay {
namespace {

using OptionalNumber = absl::StatusOr<std::optional<double>>;

OptionalNumber NumberIf(const JsonFields& fields, std::string_view key) {
  if (!fields.Has(key)) return std::optional<double>();
  ASSAY_ASSIGN_OR_RETURN(const double value, fields.Number(key));
  return std::optional<double>(value);
}

absl::Status Contradiction(const JsonFields& fields, std::string_view key, std::string_view other) {
  return fields.Invalid(
      key, "contradicts " + std::string(other) + "; leave what the model was trained with");
}

// A key that may stand in rope_parameters, beside it, or in both with one value.
OptionalNumber Shared(const JsonFields& outer, const JsonFields& inner, std::string_view key) {
  ASSAY_ASSIGN_OR_RETURN(const std::optional<double> beside, NumberIf(outer, key));
  ASSAY_ASSIGN_OR_RETURN(const std::optional<double> inside, NumberIf(inner, key));
  if (beside && inside && *beside != *inside)
    return Contradiction(inner, key, "the same key beside it");
  return inside ? inside : beside;
}

absl::Status CheckRotary(const JsonFields& fields, std::optional<double> rotary) {
  if (!rotary || *rotary == 1) return absl::OkStatus();
  return UnsupportedFeature(fields.where(), "partial_rotary_factor is not 1");
}

// "default" when no type is named. `type` is the older word.
absl::StatusOr<std::string> TypeOf(const JsonFields& fields) {
  const bool older = fields.Has("type"), newer = fields.Has("rope_type");
  if (!older && !newer) return std::string("default");
  ASSAY_ASSIGN_OR_RETURN(std::string type, fields.String(newer ? "rope_type" : "type"));
  if (older && newer) {
    ASSAY_ASSIGN_OR_RETURN(const std::string other, fields.String("type"));
    if (other != type) return Contradiction(fields, "rope_type", "type");
  }
  return type;
}

absl::Status ReadLlama3(const JsonFields& fields, RopeScaling& rope) {
  rope.type = RopeType::kLlama3;
  ASSAY_ASSIGN_OR_RETURN(rope.factor, fields.Number("factor"));
  ASSAY_ASSIGN_OR_RETURN(rope.low_freq_factor, fields.Number("low_freq_factor"));
  ASSAY_ASSIGN_OR_RETURN(rope.high_freq_factor, fields.Number("high_freq_factor"));
  ASSAY_ASSIGN_OR_RETURN(rope.original_max_positions,
                         fields.Number("original_max_position_embeddings"));
  return absl::OkStatus();
}

absl::Status ReadYarn(const JsonFields& outer, const JsonFields& fields, ModelConfig& out) {
  RopeScaling& rope = out.rope;
  rope.type = RopeType::kYarn;
  ASSAY_ASSIGN_OR_RETURN(const auto original,
                         Shared(outer, fields, "original_max_position_embeddings"));
  rope.original_max_positions = original.value_or(double(out.max_positions));
  if (rope.original_max_positions <= 0)
    return fields.Invalid("original_max_position_embeddings", "must be positive");
  ASSAY_ASSIGN_OR_RETURN(const auto factor, NumberIf(fields, "factor"));
  rope.factor = factor.value_or(double(out.max_positions) / rope.original_max_positions);
  ASSAY_ASSIGN_OR_RETURN(const auto fast, NumberIf(fields, "beta_fast"));
  ASSAY_ASSIGN_OR_RETURN(const auto slow, NumberIf(fields, "beta_slow"));
  // As transformers reads them: 0 means the default, like an absent key.
  if (fast.value_or(0) != 0) rope.beta_fast = *fast;
  if (slow.value_or(0) != 0) rope.beta_slow = *slow;
  if (fields.Has("truncate")) {
    ASSAY_ASSIGN_OR_RETURN(rope.truncate, fields.Bool("truncate"));
  }
  ASSAY_ASSIGN_OR_RETURN(const auto attention, NumberIf(fields, "attention_factor"));
  ASSAY_ASSIGN_OR_RETURN(const auto mscale, NumberIf(fields, "mscale"));
  ASSAY_ASSIGN_OR_RETURN(const auto all_dim, NumberIf(fields, "mscale_all_dim"));
  if (attention) {
    rope.attention_factor = *attention;
  } else if (mscale.value_or(0) != 0 && all_dim.value_or(0) != 0) {
    rope.attention_factor =
        YarnAttentionScale(rope.factor, *mscale) / YarnAttentionScale(rope.factor, *all_dim);
  } else {
    rope.attention_factor = YarnAttentionScale(rope.factor);
  }
  return absl::OkStatus();
}

// `scaling` is v5's rope_parameters or v4's rope_scaling.
absl::Status ReadScaling(const JsonFields& outer, const Json& scaling, const std::string& where,
                         ModelConfig& out) {
  const JsonFields fields(scaling, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  for (const auto& [key, value] : scaling.items()) {
    if (value.is_object())
      return UnsupportedFeature(
          where, "RoPE differs between kinds of layers (\"" + key.substr(0, 80) + "\")");
  }
  ASSAY_ASSIGN_OR_RETURN(const auto rotary, Shared(outer, fields, "partial_rotary_factor"));
  ASSAY_RETURN_IF_ERROR(CheckRotary(fields, rotary));
  ASSAY_ASSIGN_OR_RETURN(const auto theta, Shared(outer, fields, "rope_theta"));
  out.rope_theta = theta.value_or(out.rope_theta);
  out.rope = {};
  ASSAY_ASSIGN_OR_RETURN(const std::string type, TypeOf(fields));
  if (type == "default") return absl::OkStatus();
  if (type == "llama3") return ReadLlama3(fields, out.rope);
  if (type == "yarn") return ReadYarn(outer, fields, out);
  if (type != "linear") {
    return UnsupportedFeature(where, "rope type \"" + type.substr(0, 80) +
                                         "\" is not supported (default, linear, llama3 and yarn "
                                         "are)");
  }
  out.rope.type = RopeType::kLinear;
  ASSAY_ASSIGN_OR_RETURN(out.rope.factor, fields.Number("factor"));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadHfRope(const JsonFields& fields, const Json& config, ModelConfig& out) {
  ASSAY_ASSIGN_OR_RETURN(const auto theta, NumberIf(fields, "rope_theta"));
  out.rope_theta = theta.value_or(10000);
  ASSAY_ASSIGN_OR_RETURN(const auto rotary, NumberIf(fields, "partial_rotary_factor"));
  ASSAY_RETURN_IF_ERROR(CheckRotary(fields, rotary));
  ModelConfig first;  // what the key read before gave
  bool read = false;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!fields.Has(key)) continue;
    ASSAY_RETURN_IF_ERROR(ReadScaling(fields, config[key], fields.where() + ": " + key, out));
    if (read && (out.rope != first.rope || out.rope_theta != first.rope_theta))
      return Contradiction(fields, "rope_scaling", "rope_parameters");
    first = out;
    read = true;
  }
  return absl::OkStatus();
}

}  // namespace assay
