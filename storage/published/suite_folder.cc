#include "storage/published/suite_folder.h"

#include <map>
#include <set>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/format/suite_view.h"

namespace assay {
namespace {

constexpr std::string_view kManifestName = "suite-manifest.json";

// Whether documents are wholly on one side: the v3 suite was split by context, and leaks.
void CheckPartitions(const Suite& suite, PublishedExamination* out) {
  std::map<std::string, std::set<std::string>> sides;  // cluster -> partitions
  std::set<std::string> partitions;
  for (const SuiteContext& context : suite.contexts) {
    sides[context.source_cluster].insert(context.partition);
    partitions.insert(context.partition);
  }
  if (partitions.size() < 2) return AddNotApplicable(out, "partitions", "there is one only");
  size_t on_both = 0;
  for (const auto& [cluster, found] : sides) on_both += found.size() > 1 ? 1 : 0;
  if (on_both == 0) {
    return AddCheck(out, "partitions", true, "no source document is in two of them");
  }
  // The publisher's own early suites are so: a disclosure, not damage.
  AddNotChecked(out, "partitions",
                std::to_string(on_both) + " of " + std::to_string(sides.size()) +
                    " source documents are in two of them, so these are not independent");
}

void ListDisclosures(const Suite& suite, PublishedExamination* out) {
  for (const char* block :
       {"contamination_scan", "prior_suite_exclusion", "source_reuse_disclosure", "corpus_note"}) {
    const Json& json = DatasetMember(suite.manifest, {block});
    if (json.is_null()) continue;
    AddNotChecked(out, block, "stated, needs the texts to check: " + json.dump().substr(0, 160));
  }
}

void CheckView(const std::string& dir, const std::string& given, const Suite& suite,
               PublishedExamination* out) {
  if (!suite.manifest.contains("shard"))
    return AddNotApplicable(out, "view", "it is a whole suite, no shard of one");
  const std::string parent_dir = given.empty() ? JoinPath(dir, "..") : given;
  const std::string path = JoinPath(parent_dir, kManifestName);
  if (!FileExists(path)) {
    return AddNotChecked(out, "view", "give the suite that it was cut from with --parent");
  }
  const auto bytes = ReadFile(path, kSuiteManifestBytesMax);
  if (!bytes.ok()) return AddCheck(out, "view", false, MessageOf(bytes.status()));
  const auto parent = ParseSuiteManifest(*bytes, path);
  const absl::Status status = parent.ok() ? CheckSuiteView(suite, *parent) : parent.status();
  AddCheck(out, "view", status.ok(),
           status.ok() ? "byte for byte the shard of its suite" : MessageOf(status));
}

}  // namespace

PublishedExamination ExamineSuiteFolder(const std::string& dir, const std::string& parent) {
  PublishedExamination out;
  out.what = "suite of token contexts";
  const std::string path = JoinPath(dir, kManifestName);
  const auto bytes = ReadFile(path, kSuiteManifestBytesMax);
  if (!bytes.ok()) {
    AddCheck(&out, "manifest", false, MessageOf(bytes.status()));
    return out;
  }
  const auto suite = ParseSuiteManifest(*bytes, path);
  if (!suite.ok()) {
    AddCheck(&out, "manifest", false, MessageOf(suite.status()));
    return out;
  }
  out.schema = suite->schema;
  AddCheck(&out, "manifest", true,
           std::to_string(suite->contexts.size()) +
               " contexts; counts, indices and "
               "suite_token_sha256 follow from its rows; SHA-256 " +
               suite->manifest_sha256);
  if (PythonPrettyJson(suite->manifest) == *bytes) {
    AddCheck(&out, "layout", true, "the publisher's, byte for byte");
  } else {
    AddNotApplicable(&out, "layout", "another one than the publisher's");
  }
  const auto whole = ReadSuite(dir);
  AddCheck(&out, "tokens", whole.ok(),
           whole.ok() ? suite->vocab_size > 0
                            ? "every file has its digest and length, every id is below " +
                                  std::to_string(suite->vocab_size)
                            : "every file has its digest and length; no vocabulary is stated"
                      : MessageOf(whole.status()));
  CheckPartitions(*suite, &out);
  CheckView(dir, parent, *suite, &out);
  ListDisclosures(*suite, &out);
  return out;
}

}  // namespace assay
