// Suites in memory, read from blobs and verified.

#ifndef ASSAY_SERVER_ENGINE_SUITE_CACHE_H_
#define ASSAY_SERVER_ENGINE_SUITE_CACHE_H_

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "storage/blob/blob_store.h"
#include "storage/format/suite.h"

namespace assay {

// Thread-safe. Keeps the last few suites.
class SuiteCache {
 public:
  // `work_dir`: where a suite is laid out as a folder for the reader; made when needed.
  SuiteCache(const BlobStore* blobs, std::string work_dir)
      : blobs_(blobs), work_dir_(std::move(work_dir)) {}

  // The suite whose manifest is blob `manifest_sha256`. BLOB_MISSING naming manifest or token file;
  // the errors of ReadSuite.
  absl::StatusOr<std::shared_ptr<const Suite>> Get(const std::string& manifest_sha256);

 private:
  absl::StatusOr<Suite> Load(const std::string& manifest_sha256) const;

  const BlobStore* blobs_;
  std::string work_dir_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const Suite>>> recent_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_SUITE_CACHE_H_
