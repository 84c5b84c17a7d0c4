// Typed access to JSON members with errors that name the document and the field.

#ifndef ASSAY_STORAGE_BASE_JSON_FIELDS_H_
#define ASSAY_STORAGE_BASE_JSON_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// Reads members of one JSON object. `where` names it ("suite-manifest.json: context_index[3]").
// Both must outlive the reader. Every error has reason FIELD_MISSING or FIELD_INVALID and reads
// "<where>: field \"<key>\" ...".
class JsonFields {
 public:
  JsonFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  // FIELD_INVALID when the value is no object; call first.
  absl::Status CheckObject() const;
  bool Has(std::string_view key) const;  // present and not null

  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<int64_t> Int(std::string_view key, int64_t min,
                              int64_t max) const;             // a bool or a float is refused
  absl::StatusOr<double> Number(std::string_view key) const;  // finite
  absl::StatusOr<bool> Bool(std::string_view key) const;
  absl::StatusOr<std::string> Sha256(std::string_view key) const;  // 64 lower-case hex characters
  absl::StatusOr<const Json*> Array(std::string_view key) const;   // points into the document
  absl::StatusOr<const Json*> Object(std::string_view key) const;

  absl::Status Invalid(std::string_view key, std::string_view why) const;
  const std::string& where() const { return where_; }

 private:
  absl::StatusOr<const Json*> Get(std::string_view key) const;
  const Json& object_;
  std::string where_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_JSON_FIELDS_H_
