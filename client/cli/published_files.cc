#include "client/cli/published_files.h"

#include <algorithm>

#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/format/published_schema.h"

namespace assay {
namespace {

constexpr int64_t kShardsMax = 1 << 20;

const Json& At(const Json& document, std::initializer_list<const char*> path) {
  return DatasetMember(document, path);
}

void Disclose(const char* about, const std::string& text, Json* out) {
  out->push_back({{"about", about}, {"text", text}});
}

std::string Count(const Json& value) {
  return value.is_number() ? value.dump() : "an unstated number of";
}

}  // namespace

absl::StatusOr<PublishedInput> ReadPublishedInput(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kPublishedBytesMax));
  ASSAY_ASSIGN_OR_RETURN(Json document, ParseJson(bytes, path));
  return PublishedInput{path, Sha256Hex(bytes), std::move(document)};
}

bool IsPublishedFile(const std::string& path) {
  if (!FileExists(path) || IsDirectory(path)) return false;
  const auto document = ReadJsonFile(path, kPublishedBytesMax);
  if (!document.ok() || !document->is_object()) return false;
  const std::string schema = DatasetString(At(*document, {"schema"})).value_or("");
  return !ParsePublishedSchema(schema).family.empty() || schema.rfind("malaiwah.", 0) == 0 ||
         (schema.empty() && document->contains("captures"));
}

absl::StatusOr<Suite> ReadSuiteManifestAt(const std::string& path) {
  const std::string file = IsDirectory(path) ? JoinPath(path, "suite-manifest.json") : path;
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kSuiteManifestBytesMax));
  return ParseSuiteManifest(bytes, file);
}

absl::StatusOr<std::vector<int64_t>> ParseShardList(const std::string& text) {
  const auto bad = [&] {
    return InvalidError("BAD_USAGE",
                        "--shards \"" + text + "\": write numbers and ranges, such as 0-3,7");
  };
  std::vector<int64_t> out;
  size_t at = 0;
  const auto number = [&](int64_t* value) {
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    if (end == at || end - at > 9) return false;
    *value = std::stoll(text.substr(at, end - at));
    at = end;
    return *value < kShardsMax;
  };
  while (at < text.size()) {
    int64_t low = 0, high = 0;
    if (!number(&low)) return bad();
    high = low;
    if (at < text.size() && text[at] == '-') {
      ++at;
      if (!number(&high) || high < low) return bad();
    }
    for (int64_t shard = low; shard <= high; ++shard) out.push_back(shard);
    if (at == text.size()) break;
    if (text[at] != ',' || ++at == text.size()) return bad();
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Json SuiteDisclosures(const Json& manifest, const std::vector<Json>& audits) {
  Json out = Json::array();
  const Json& scan = At(manifest, {"contamination_scan"});
  if (scan.is_object()) {
    const Json& words = At(scan, {"shingle_words"});
    Disclose(
        "contamination_scan",
        fmt::format("{} contexts contain text of the calibration set ({} hits of {})",
                    Count(At(scan, {"contexts_with_any_hit"})), Count(At(scan, {"total_hits"})),
                    words.is_null() ? Count(At(scan, {"shingle_chars"})) +
                                          " characters, two grids "
                                          "that meet only by chance: nearly blind"
                                    : words.dump() + " words"),
        &out);
  } else {
    Disclose("contamination_scan", "the suite states no scan against calibration texts", &out);
  }
  const Json& documents = At(manifest, {"document_scan"});
  if (documents.is_object()) {
    Disclose("document_scan",
             fmt::format("{} of {} documents were left out before contexts were drawn",
                         Count(At(documents, {"documents_excluded_any_reason"})),
                         Count(At(documents, {"documents_scanned"}))),
             &out);
  }
  const Json& prior = At(manifest, {"prior_suite_exclusion"});
  if (prior.is_object()) {
    Disclose("prior_suite_exclusion",
             fmt::format("{} token digests of earlier suites were excluded",
                         Count(At(prior, {"excluded_token_hashes_total"}))),
             &out);
  }
  const Json& reuse = At(manifest, {"source_reuse_disclosure"});
  if (reuse.is_object()) {
    Disclose(
        "source_reuse_disclosure",
        fmt::format("{} contexts come from documents of an earlier suite",
                    Count(At(reuse, {"contexts_emitted_from_matching_prior_source_documents"}))),
        &out);
  }
  for (const Json& audit : audits) {
    const Json& summary = At(audit, {"summary"});
    Disclose(
        "near_duplicates",
        fmt::format(
            "{} of {} documents share {} words or more with the calibration set; the longest "
            "run is {} words; in the worst window {} of the {}-word sequences are shared",
            Count(At(summary, {"documents_with_exact_hit"})), Count(At(summary, {"documents"})),
            Count(At(audit, {"method", "exact_ngram_words"})),
            Count(At(summary, {"longest_exact_run_words"})),
            Count(At(summary, {"near_window_containment_max"})),
            Count(At(audit, {"method", "near_ngram_words"}))),
        &out);
  }
  return out;
}

}  // namespace assay
