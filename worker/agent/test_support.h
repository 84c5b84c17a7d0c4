// Fakes for the agent's tests.

#ifndef ASSAY_WORKER_AGENT_TEST_SUPPORT_H_
#define ASSAY_WORKER_AGENT_TEST_SUPPORT_H_

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "worker/agent/blob_store_link.h"

namespace assay {

// A folder that is gone after the test.
class TempDir {
 public:
  TempDir() {
    std::string pattern = ::testing::TempDir() + "agentXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { RemoveTree(path_).IgnoreError(); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

// A blob store in memory that counts what it is asked.
class FakeBlobStore : public BlobStoreLink {
 public:
  std::string Put(const std::string& bytes) {
    const std::string sha256 = Sha256Hex(bytes);
    blobs[sha256] = bytes;
    return sha256;
  }
  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& sha256s) override {
    std::vector<std::string> missing;
    for (const std::string& sha256 : sha256s) {
      if (blobs.count(sha256) == 0) missing.push_back(sha256);
    }
    return missing;
  }
  absl::Status Fetch(const std::string& sha256, const std::string& path,
                     const std::function<bool()>& go_on) override {
    ++fetches;
    if (!go_on()) return Error(absl::StatusCode::kCancelled, "INTERRUPTED", "interrupted");
    if (blobs.count(sha256) == 0) return NotFoundError("BLOB_MISSING", "no blob " + sha256);
    return WriteFile(path, blobs.at(sha256));
  }
  absl::Status Push(const std::string& path, const std::string& sha256, uint64_t size,
                    const std::function<bool()>& go_on) override {
    ++pushes;
    if (!go_on()) return Error(absl::StatusCode::kCancelled, "INTERRUPTED", "interrupted");
    absl::StatusOr<std::string> bytes = ReadFile(path, size);
    if (!bytes.ok()) return bytes.status();
    if (Sha256Hex(*bytes) != sha256) return InvalidError("DIGEST_MISMATCH", path);
    blobs[sha256] = *bytes;
    return absl::OkStatus();
  }

  std::map<std::string, std::string> blobs;
  int fetches = 0, pushes = 0;
};

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_TEST_SUPPORT_H_
