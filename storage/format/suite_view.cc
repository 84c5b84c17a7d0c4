#include "storage/format/suite_view.h"

#include <algorithm>
#include <map>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

// Counts of names, keys sorted.
Json CountsJson(const std::map<std::string, int64_t>& counts) {
  Json out = Json::object();
  for (const auto& [name, count] : counts) out[name] = count;
  return out;
}

struct Rows {
  size_t begin = 0, end = 0;  // of parent.contexts
  Json list = Json::array(), indices = Json::array();
  std::map<std::string, int64_t> strata, partitions;
  std::set<std::string> clusters;
  std::string suite_token_sha256;
};

Rows CollectRows(const Suite& parent, size_t begin, size_t end) {
  Rows rows;
  rows.begin = begin;
  rows.end = end;
  Sha256 digest;
  const Json& list = parent.manifest.at("context_index");
  for (size_t i = begin; i < end; ++i) {
    const SuiteContext& context = parent.contexts[i];
    rows.list.push_back(list.at(i));
    rows.indices.push_back(context.index);
    ++rows.strata[context.stratum];
    ++rows.partitions[context.partition];
    rows.clusters.insert(context.source_cluster);
    digest.Update(context.token_sha256);
  }
  rows.suite_token_sha256 = digest.FinishHex();
  return rows;
}

}  // namespace

int64_t SuiteShards(const Suite& parent, int64_t size) {
  return (static_cast<int64_t>(parent.contexts.size()) + size - 1) / size;
}

absl::StatusOr<std::string> BuildSuiteView(const Suite& parent, const SuiteViewOptions& options) {
  if (parent.manifest.contains("shard")) {
    return InvalidError("SUITE_INVALID",
                        "the suite is a shard view itself; give the suite that it was cut from");
  }
  if (options.size < 1 || options.shard < 0 || options.shard >= SuiteShards(parent, options.size)) {
    return NotFoundError(
        "SHARD_MISSING",
        "shard " + std::to_string(options.shard) + " of " + std::to_string(options.size) +
            " contexts: the suite of " + std::to_string(parent.contexts.size()) +
            " contexts has shards 0 to " +
            std::to_string(SuiteShards(parent, std::max<int64_t>(options.size, 1)) - 1));
  }
  const size_t begin = static_cast<size_t>(options.shard * options.size);
  const size_t end = std::min(parent.contexts.size(), begin + static_cast<size_t>(options.size));
  Rows rows = CollectRows(parent, begin, end);
  const auto count = static_cast<int64_t>(end - begin);

  Json view = parent.manifest;  // members keep their place
  view["context_index"] = std::move(rows.list);
  view["contexts"] = count;
  view["total_scored_positions"] = count * (parent.context_length - 1);
  view["strata"] = CountsJson(rows.strata);
  view["partitions"] = CountsJson(rows.partitions);
  view["source_clusters"] = rows.clusters.size();
  view["suite_token_sha256"] = rows.suite_token_sha256;
  Json shard = Json::object();
  shard["index"] = options.shard;
  shard["size"] = options.size;
  shard["contexts"] = count;
  shard["partial"] = count != options.size;
  shard["context_indices"] = std::move(rows.indices);
  shard["parent_suite"] = options.parent;
  shard["parent_suite_token_sha256"] = parent.suite_token_sha256;
  shard["parent_contexts"] = parent.contexts.size();
  shard["parent_manifest_sha256"] = parent.manifest_sha256;
  view["shard"] = std::move(shard);
  return PythonPrettyJson(view);
}

absl::Status CheckSuiteView(const Suite& view, const Suite& parent) {
  const JsonFields fields(view.manifest, "the view's manifest");
  ASSAY_ASSIGN_OR_RETURN(const Json* shard, fields.Object("shard"));
  const JsonFields in(*shard, "the view's shard block");
  SuiteViewOptions options;
  ASSAY_ASSIGN_OR_RETURN(options.shard, in.Int("index", 0, kSuiteContextsMax));
  ASSAY_ASSIGN_OR_RETURN(options.size, in.Int("size", 1, kSuiteContextsMax));
  ASSAY_ASSIGN_OR_RETURN(options.parent, in.String("parent_suite"));
  ASSAY_ASSIGN_OR_RETURN(const std::string stated, in.Sha256("parent_manifest_sha256"));
  if (stated != parent.manifest_sha256) {
    return InvalidError("SUITE_MISMATCH", "the view was cut from the suite with manifest " +
                                              stated.substr(0, 16) + ", the one given is " +
                                              parent.manifest_sha256.substr(0, 16));
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, BuildSuiteView(parent, options));
  if (Sha256Hex(bytes) == view.manifest_sha256) return absl::OkStatus();
  return InvalidError("SUITE_MISMATCH", "the view's manifest is not, byte for byte, shard " +
                                            std::to_string(options.shard) + " of " +
                                            std::to_string(options.size) +
                                            " contexts of the suite given; fetch it again");
}

}  // namespace assay
