// Published documents computed again from the documents that they name: comparisons from their
// reports, aggregates from their shard reports and suite, comparisons of aggregates from those.

#ifndef ASSAY_STORAGE_PUBLISHED_RECOMPUTE_H_
#define ASSAY_STORAGE_PUBLISHED_RECOMPUTE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/suite.h"
#include "storage/published/examine.h"
#include "storage/report/published_cumulative.h"

namespace assay {

// Files that documents may name, found by content. Not thread-safe.
class PublishedInputs {
 public:
  // A file, or every .json file directly in a folder. Files are hashed now and parsed when asked
  // for. FILE_MISSING and those of reading.
  absl::Status Add(const std::string& path);

  // `path` is how the document names it. INPUT_MISSING when no file has the digest.
  absl::StatusOr<PublishedInput> Find(const std::string& path, const std::string& sha256) const;
  // For documents that state no digest of a report: the one whose context_macro_mean_kld is `mean`.
  // Of several that has the base name of `path` is taken, and INPUT_MISSING when there is none.
  absl::StatusOr<PublishedInput> FindReport(const std::string& path, double mean) const;

 private:
  std::map<std::string, std::string> by_digest_;  // SHA-256 -> file
  // context_macro_mean_kld -> digests of the reports that state it; read when first asked for.
  mutable std::multimap<double, std::string> by_mean_;
  mutable bool means_known_ = false;
};

// The document of `bytes`, computed from what it names. A replay report is computed from its own
// rows; kinds of which nothing else can be written again are PUBLISHED_UNKNOWN. Fixed sentences,
// times, names of files and options are the document's; everything else follows from the inputs.
// `suite`: that of an aggregate of shard views, else null; SUITE_MISSING when it is needed.
// INPUT_MISSING and the refusals of the computations.
absl::StatusOr<Json> RecomputePublished(std::string_view bytes, const std::string& where,
                                        const PublishedInputs& inputs, const Suite* suite);

// Replaces the checks "needs the reports" of `out` by what recomputing gave: "recomputed" passes
// when the document written again has the bytes of the file, else says where it differs.
void AddRecomputed(std::string_view bytes, const absl::StatusOr<Json>& recomputed,
                   PublishedExamination* out);

}  // namespace assay

#endif  // ASSAY_STORAGE_PUBLISHED_RECOMPUTE_H_
