// The documents of a dataset that is being written. Internal to pack.

#ifndef ASSAY_STORAGE_DATASET_PACK_DOCUMENTS_H_
#define ASSAY_STORAGE_DATASET_PACK_DOCUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/json.h"
#include "storage/dataset/pack.h"

namespace assay {

// One captured context as it was written.
struct PackedRecord {
  size_t position = 0;  // in the panel
  std::string file;     // below capture/
  std::string dtype;
  uint64_t rows = 0, width = 0, bytes = 0;
  std::string sha256, content_sha256;
};

struct PackedHead {
  std::string tensor, dtype, file_sha256, content_sha256;
  uint64_t vocab = 0, hidden = 0;
};

// What the documents say, filled in the order in which they are written.
struct PackedDocuments {
  std::vector<PackedRecord> records;
  std::vector<std::string> masks;  // digest of each context's mask; empty: no masks
  PackedHead head;
  Json panel, runtime, head_json, capture, validation;                         // sealed documents
  std::string panel_sha256, runtime_sha256, capture_sha256, checksums_sha256;  // of their files
};

Json PanelDocument(const DatasetPackRequest& request, const PackedDocuments& parts);
Json RuntimeDocument(const DatasetPackRequest& request);
Json HeadDocument(const DatasetPackRequest& request, const PackedDocuments& parts);
Json CaptureDocument(const DatasetPackRequest& request, const PackedDocuments& parts);
Json ValidationDocument(const DatasetPackRequest& request);
Json ManifestDocument(const DatasetPackRequest& request, const PackedDocuments& parts);

// Sets `field` to the document's seal.
Json Sealed(Json document, const char* field);

// `base` with the members of `given`, objects merged, everything else replaced.
Json Merged(Json base, const Json& given);

// The compact text of a token list, "[1,2,3]".
std::string CompactTokens(const std::vector<int32_t>& tokens);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_PACK_DOCUMENTS_H_
