#include "storage/base/json_fields.h"

#include <cmath>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

absl::Status JsonFields::CheckObject() const {
  if (object_.is_object()) return absl::OkStatus();
  return InvalidError("FIELD_INVALID", where_ + ": must be a JSON object");
}

absl::StatusOr<const Json*> JsonFields::Get(std::string_view key) const {
  ASSAY_RETURN_IF_ERROR(CheckObject());
  const auto it = object_.find(std::string(key));
  if (it == object_.end()) {
    return InvalidError("FIELD_MISSING",
                        where_ + ": field \"" + std::string(key) + "\" is missing");
  }
  return &*it;
}

bool JsonFields::Has(std::string_view key) const {
  if (!object_.is_object()) return false;
  const auto it = object_.find(std::string(key));
  return it != object_.end() && !it->is_null();
}

absl::Status JsonFields::Invalid(std::string_view key, std::string_view why) const {
  return InvalidError("FIELD_INVALID",
                      where_ + ": field \"" + std::string(key) + "\" " + std::string(why));
}

absl::StatusOr<std::string> JsonFields::String(std::string_view key) const {
  ASSAY_ASSIGN_OR_RETURN(const Json* value, Get(key));
  if (!value->is_string()) return Invalid(key, "must be a string");
  return value->get<std::string>();
}

absl::StatusOr<int64_t> JsonFields::Int(std::string_view key, int64_t min, int64_t max) const {
  ASSAY_ASSIGN_OR_RETURN(const Json* value, Get(key));
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  if (!fits || value->get<int64_t>() < min || value->get<int64_t>() > max) {
    return Invalid(key,
                   "must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value->get<int64_t>();
}

absl::StatusOr<double> JsonFields::Number(std::string_view key) const {
  ASSAY_ASSIGN_OR_RETURN(const Json* value, Get(key));
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    return Invalid(key, "must be a finite number");
  return value->get<double>();
}

absl::StatusOr<bool> JsonFields::Bool(std::string_view key) const {
  ASSAY_ASSIGN_OR_RETURN(const Json* value, Get(key));
  if (!value->is_boolean()) return Invalid(key, "must be true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonFields::Sha256(std::string_view key) const {
  ASSAY_ASSIGN_OR_RETURN(std::string text, String(key));
  if (!IsSha256Hex(text)) return Invalid(key, "must be 64 lower-case hexadecimal characters");
  return text;
}

absl::StatusOr<const Json*> JsonFields::Array(std::string_view key) const {
  ASSAY_ASSIGN_OR_RETURN(const Json* value, Get(key));
  if (!value->is_array()) return Invalid(key, "must be a list");
  return value;
}

absl::StatusOr<const Json*> JsonFields::Object(std::string_view key) const {
  ASSAY_ASSIGN_OR_RETURN(const Json* value, Get(key));
  if (!value->is_object()) return Invalid(key, "must be an object");
  return value;
}

}  // namespace assay
