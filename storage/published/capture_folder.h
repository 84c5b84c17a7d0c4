// Captures in folders, in every published form: what a folder holds, and whether all of it holds.

#ifndef ASSAY_STORAGE_PUBLISHED_CAPTURE_FOLDER_H_
#define ASSAY_STORAGE_PUBLISHED_CAPTURE_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/format/capture.h"
#include "storage/format/suite.h"
#include "storage/published/examine.h"

namespace assay {

enum class CaptureForm {
  kCurrent,  // qwen38-fidelity-capture/2, of the publisher or of assay capture
  kLegacy,   // of the v3 suite: neither schema nor complete (qwen-suites 2.7)
  kGlm,      // glm53flash-fidelity-capture/2 (fidelity-dataset 9)
  kDataset,  // a fidelity dataset, hidden states or logits (fidelity-dataset 1)
};

std::string_view CaptureFormName(CaptureForm form);  // "current", "legacy", "glm", "dataset"

// The rule under which a capture without schema and `complete` is read; reports disclose it by this
// name.
inline constexpr std::string_view kLegacyCaptureRule =
    "legacy-capture: written once, when the capture had ended, so it has no \"complete\"; accepted "
    "when "
    "its counts agree and every file has a digest";

// A folder with a capture manifest (not of form kDataset).
struct CaptureFolder {
  std::string dir;
  std::string manifest_path, manifest_bytes;
  CaptureForm form = CaptureForm::kCurrent;
  CaptureManifest manifest;
  std::vector<std::string> missing;    // recorded hidden files that are not there
  std::vector<std::string> unlisted;   // hidden files that no record names
  std::vector<std::string> uncovered;  // other names in the folder
  uint64_t bytes = 0;                  // of the recorded files that are there
};

bool IsDatasetFolder(const std::string& dir);  // it holds fidelity-dataset.json

// Reads the manifest and looks at what is beside it; opens no tensor. The errors of
// ReadCaptureManifest.
absl::StatusOr<CaptureFolder> ReadCaptureFolder(const std::string& dir);

// {"folder","what","form","rule","schema","complete",...} for people and programs: identity, sizes,
// strata (with `suite`), what is missing and what is not stated. Reads at most one tensor's header.
// `suite` may be null.
Json DescribeCaptureFolder(const CaptureFolder& folder, const Suite* suite);
// The same of a fidelity dataset; its documents are read, not verified. Errors of the readers.
absl::StatusOr<Json> DescribeDatasetFolder(const std::string& dir);

struct CaptureCheckOptions {
  const Suite* suite = nullptr;  // of the capture; null: what needs it is not applicable
  std::string filter;          // contexts of the suite that must be there; "" = the manifest's own
  int threads = 1;             // that read files; changes no result
  bool allow_partial = false;  // of datasets: a shard or a subset is no error
};

// Every gate, whatever earlier ones say: form, completeness, records, contract, suite, files,
// links, digests, tensors, finite values, cut point, identity. Never fails to answer: what cannot
// be read is a failed gate. Every hidden file is read once.
PublishedExamination ExamineCaptureFolder(const std::string& dir,
                                          const CaptureCheckOptions& options);

}  // namespace assay

#endif  // ASSAY_STORAGE_PUBLISHED_CAPTURE_FOLDER_H_
