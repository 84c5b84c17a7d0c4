// What an agent reads: unit documents of the coordinator and results of its ranks.

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "tests/fuzz/fuzz.h"
#include "worker/agent/unit_files.h"

namespace assay {
namespace {

// A store that has nothing.
class EmptyStore : public BlobStoreLink {
 public:
  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& sha256s) override {
    return sha256s;
  }
  absl::Status Fetch(const std::string& sha256, const std::string& path,
                     const std::function<bool()>& go_on) override {
    return NotFoundError("BLOB_MISSING", "no blob " + sha256);
  }
  absl::Status Push(const std::string& path, const std::string& sha256, uint64_t size,
                    const std::function<bool()>& go_on) override {
    return absl::OkStatus();
  }
};

}  // namespace

ASSAY_FUZZ_TARGET(unit) {
  static EmptyStore store;
  static const auto cache = BlobCache::Open(JoinPath(fuzz::ScratchDir(), "cache"), 1 << 20);
  static const auto digests = DigestCache::Open("");
  fuzz::Require(cache.ok() && digests.ok(), "caches open");
  static ModelResolver models({}, JoinPath(fuzz::ScratchDir(), "links"), digests->get(),
                              cache->get(), &store);
  (void)ResolveUnit(std::string(input), {&models, cache->get(), &store}, [] { return true; });

  const auto result = ParseJson(input, "input");
  if (!result.ok()) return;
  for (const char* kind : {"prepare", "capture", "replay", "other"}) {
    std::vector<OutputFile> files;
    (void)ExportResult(kind, *result, fuzz::ScratchDir(), &files);
  }
}

}  // namespace assay
