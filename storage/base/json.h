// JSON: strict reading, and writing in the exact byte layouts that published and sealed documents
// use.
//
// Documents keep key order (nlohmann::ordered_json). Reading refuses what two readers could
// understand differently: duplicate keys, NaN and Infinity, invalid UTF-8, a byte-order mark,
// a NUL byte, trailing text, nesting beyond kJsonDepthMax.

#ifndef ASSAY_STORAGE_BASE_JSON_H_
#define ASSAY_STORAGE_BASE_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace assay {

using Json = nlohmann::ordered_json;

inline constexpr int kJsonDepthMax = 64;
inline constexpr uint64_t kJsonBytesMax = uint64_t{1} << 30;

// Parses `text`. `name` (a file or field) starts every error message. Reason JSON_INVALID.
absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view name);

// Reads and parses a file; FILE_TOO_LARGE beyond `max_bytes`.
absl::StatusOr<Json> ReadJsonFile(const std::string& path, uint64_t max_bytes = kJsonBytesMax);

// RFC 8785 (JCS): keys sorted by UTF-16 code units, ECMAScript numbers, no blanks.
// JSON_NOT_CANONICAL for a non-finite number or an integer beyond 2^53 that is not what a double is
// written as: JCS readers could not hold it.
absl::StatusOr<std::string> CanonicalJson(const Json& value);

// The layouts of CPython's json module with ensure_ascii (specs: qwen-suites 0.1).
std::string PythonPrettyJson(const Json& value,
                             int indent = 2);    // insertion order, no trailing newline
std::string PythonPlainJson(const Json& value);  // one line, ", " and ": ", insertion order
std::string PythonCanonJson(const Json& value);  // one line, "," and ":", keys sorted by code point

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_JSON_H_
