#include "storage/dataset/finding.h"

namespace assay {

const Json& DatasetMember(const Json& document, std::initializer_list<const char*> path) {
  static const Json kNull;
  const Json* at = &document;
  for (const char* key : path) {
    if (!at->is_object()) return kNull;
    const auto member = at->find(key);
    if (member == at->end()) return kNull;
    at = &*member;
  }
  return *at;
}

std::optional<std::string> DatasetString(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::optional<int64_t> DatasetInt(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

bool IsTrue(const Json& value) { return value.is_boolean() && value.get<bool>(); }

std::string DatasetText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace assay
