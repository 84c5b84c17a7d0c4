// Canonical JSON and self-seals of fidelity datasets (specs: fidelity-dataset 0.2, 0.3).

#ifndef ASSAY_STORAGE_DATASET_CANONICAL_H_
#define ASSAY_STORAGE_DATASET_CANONICAL_H_

#include <string>
#include <string_view>

#include "storage/base/json.h"

namespace assay {

// One line, "," and ":", keys sorted by code point, non-ASCII as UTF-8, floats as Python's repr (so
// 0 and 0.0 differ). `value` holds finite numbers only, as everything that ParseJson returns.
std::string DatasetCanonicalJson(const Json& value);

// SHA-256, lower-case hex, of the canonical form of the object `document` with its member `field`
// set to "".
std::string DatasetSeal(const Json& document, std::string_view field);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_CANONICAL_H_
