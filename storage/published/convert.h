// Captures of any published form as Assay's own, and back: lossless or refused.
//
// A conversion is a folder: capture/ and, of datasets, suite/ and head/, which every command takes;
// published/ with what the converted form has no place for, byte for byte; conversion.json
// ("assay-conversion/1"), which says for every published file where its bytes lie now. So the way
// back gives the same bytes, and is checked against the digests taken on the way here.

#ifndef ASSAY_STORAGE_PUBLISHED_CONVERT_H_
#define ASSAY_STORAGE_PUBLISHED_CONVERT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "storage/format/suite.h"
#include "storage/published/capture_folder.h"

namespace assay {

inline constexpr std::string_view kConversionSchema = "assay-conversion/1";
inline constexpr std::string_view kConversionFile = "conversion.json";

struct Conversion {
  CaptureForm form = CaptureForm::kCurrent;
  size_t files = 0;  // published files
  uint64_t bytes = 0;
};

// Converts the capture in `dir` into the new folder `out`. It is verified first, and what came out
// is opened as a capture. `suite` is the capture's; only a legacy one needs it, a dataset brings
// its own. OUT_OCCUPIED; CONVERSION_REFUSED when a gate fails, or something would be lost: logits,
// masks, contexts of several lengths, a part of a panel, links.
absl::StatusOr<Conversion> ConvertCapture(const std::string& dir, const Suite* suite,
                                          const std::string& out, int threads);

// The published files of the conversion in `dir`, written into the new folder `out`.
// CONVERSION_INVALID, DIGEST_MISMATCH, PATH_UNSAFE, OUT_OCCUPIED.
absl::StatusOr<Conversion> ConvertBack(const std::string& dir, const std::string& out);

}  // namespace assay

#endif  // ASSAY_STORAGE_PUBLISHED_CONVERT_H_
