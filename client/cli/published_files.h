// Published documents and suites as people name them on the command line.

#ifndef ASSAY_CLIENT_CLI_PUBLISHED_FILES_H_
#define ASSAY_CLIENT_CLI_PUBLISHED_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "storage/base/json.h"
#include "storage/format/suite.h"
#include "storage/report/published_cumulative.h"

namespace assay {

inline constexpr uint64_t kPublishedBytesMax = uint64_t{1} << 30;

// A file's document with the digest of its bytes. FILE_*, JSON_INVALID.
absl::StatusOr<PublishedInput> ReadPublishedInput(const std::string& path);

// True for a file on this machine whose JSON has a schema of the published suites or datasets. A
// file of Assay's own, or none, is false.
bool IsPublishedFile(const std::string& path);

// Prints what a published document says: its kind, what was measured and over what, and its
// headline; with --json the document itself.
absl::StatusOr<int> ShowPublished(const std::string& path, CliContext& context);

// The manifest of a suite's folder, or a manifest itself; token files are not looked at.
absl::StatusOr<Suite> ReadSuiteManifestAt(const std::string& path);

// "0-3,7" -> {0, 1, 2, 3, 7}; "" -> {}. BAD_USAGE.
absl::StatusOr<std::vector<int64_t>> ParseShardList(const std::string& text);

// What a suite manifest says of contamination, and near-duplicate audits say of its documents, for
// whoever reads a result over it: [{"about","text"}]. Nothing is judged.
Json SuiteDisclosures(const Json& manifest, const std::vector<Json>& audits);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_PUBLISHED_FILES_H_
