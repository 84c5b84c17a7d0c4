// A published suite in a folder, checked gate by gate.

#ifndef ASSAY_STORAGE_PUBLISHED_SUITE_FOLDER_H_
#define ASSAY_STORAGE_PUBLISHED_SUITE_FOLDER_H_

#include <string>

#include "storage/published/examine.h"

namespace assay {

// Gates: manifest (strict JSON, counts, indices, digests), layout, tokens (every file's digest,
// length and vocabulary), partitions (no cluster on two sides), view (of a shard: byte for byte
// that of `parent`; "" = the folder above, when that is a suite), disclosures (contamination,
// reuse: carried along, not judged). Never fails to answer.
PublishedExamination ExamineSuiteFolder(const std::string& dir, const std::string& parent);

}  // namespace assay

#endif  // ASSAY_STORAGE_PUBLISHED_SUITE_FOLDER_H_
