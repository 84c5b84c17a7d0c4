#include "client/html/numbers.h"

namespace assay {

std::string ShownCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, "\xe2\x80\x89");
  }
  return digits;
}

const Json& Field(const Json& document, std::initializer_list<const char*> path) {
  static const Json kNull;
  const Json* at = &document;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return kNull;
    at = &at->at(key);
  }
  return *at;
}

}  // namespace assay
