// Canonical JSON and self-seals of fidelity datasets (specs: fidelity-dataset 0.2, 0.3).

#ifndef ASSAY_STORAGE_DATASET_CANONICAL_H_
#define ASSAY_STORAGE_DATASET_CANONICAL_H_

#include <optional>
#include <string>
#include <string_view>

#include "storage/base/json.h"

namespace assay {

// One line, "," and ":", keys sorted by code point, non-ASCII as UTF-8, floats as Python's repr (so
// 0 and 0.0 differ). `value` holds finite numbers only, as everything that ParseJson returns.
std::string DatasetCanonicalJson(const Json& value);

// The layout of such documents on disk: indent 2, keys sorted, non-ASCII as UTF-8, one final
// newline.
std::string DatasetPrettyJson(const Json& value);

// SHA-256, lower-case hex, of the canonical form of the object `document` with its member `field`
// set to "".
std::string DatasetSeal(const Json& document, std::string_view field);

// capture_content_digest of capture records: SHA-256 of "<index>:<tensor_content_sha256>" lines in
// the order of the indices. Nothing when two have one index, or one lacks either member.
std::optional<std::string> DatasetContentDigest(const Json& records);

// suite_token_hash_sha256 of panel records: SHA-256 of their token_ids_json_sha256, one to a line,
// in the order of the indices; of two with one index the first counts.
std::string DatasetSuiteHash(const Json& records);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_CANONICAL_H_
