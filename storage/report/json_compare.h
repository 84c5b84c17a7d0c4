// Comparing JSON documents by meaning: key order does not count, 1 and 1.0 are the same number.

#ifndef ASSAY_STORAGE_REPORT_JSON_COMPARE_H_
#define ASSAY_STORAGE_REPORT_JSON_COMPARE_H_

#include <string>

#include "storage/base/json.h"

namespace assay {

// "" when `a` and `b` mean the same; else where they first differ and how, such as
// "statistics.jsd_bits.max: 0.5 against 0.25". `path` starts the text. Numbers compare exactly.
std::string FirstDifference(const Json& a, const Json& b, const std::string& path = "");

inline bool SameJson(const Json& a, const Json& b) { return FirstDifference(a, b).empty(); }

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_JSON_COMPARE_H_
