#include "storage/published/convert_dataset.h"

#include <map>
#include <set>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/dataset/verify.h"
#include "storage/format/capture.h"
#include "storage/format/suite.h"
#include "storage/format/token_list.h"

namespace assay {
namespace {

constexpr uint64_t kTokenFileMax = uint64_t{64} << 20;

const Json& At(const Json& document, std::initializer_list<const char*> path) {
  return DatasetMember(document, path);
}

absl::Status Refused(const std::string& dir, const std::string& why) {
  return PreconditionError("CONVERSION_REFUSED",
                           dir + ": " + why + ", which a capture has no place for");
}

std::string Padded(int64_t index) {
  const std::string digits = std::to_string(index);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

absl::Status CheckForm(const std::string& dir, const DatasetDocuments& documents) {
  const Json& manifest = documents.manifest;
  if (At(manifest, {"capture", "form"}) != "hidden") return Refused(dir, "it holds logits");
  const Json& dtype = At(manifest, {"capture", "dtype"});
  if (dtype != "BF16" && dtype != "F32")
    return Refused(dir, "its states are " + DatasetText(dtype));
  if (At(manifest, {"panel", "scoring_window", "score_from"}) != 0 ||
      IsTrue(At(manifest, {"panel", "scoring_window", "windowed"})))
    return Refused(dir, "it scores a window of each context");
  return absl::OkStatus();
}

// The panel as a suite, its token files included.
absl::StatusOr<Suite> SuiteOf(const std::string& dir, const DatasetDocuments& documents,
                              std::map<std::string, std::string>* files) {
  const Json& panel = documents.panel;
  const auto length = DatasetInt(At(panel, {"context_length"}));
  if (!length || *length < 2) return Refused(dir, "the panel states no length of its contexts");
  Json rows = Json::array();
  std::map<std::string, int64_t> strata;
  std::set<std::string> clusters;
  std::string digests;
  for (const Json& record : At(panel, {"records"})) {
    if (DatasetInt(At(record, {"num_tokens"})) != length)
      return Refused(dir, "its contexts have several lengths");
    if (DatasetInt(At(record, {"prediction_positions"})) != *length - 1)
      return Refused(dir, "masks leave positions out");
    const int64_t index = DatasetInt(At(record, {"index"})).value_or(-1);
    const std::string path = JoinPath(dir, DatasetText(At(record, {"token_file"})));
    ASSAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTokenFileMax));
    ASSAY_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, ParseTokenList(text, path));
    const std::string bytes = TokenFileBytes(tokens);
    const std::string file = "tokens/context-" + Padded(index) + ".json";
    (*files)["suite/" + file] = bytes;
    digests += Sha256Hex(bytes);
    const std::string stratum =
        DatasetString(At(record, {"allocation_stratum"})).value_or("unknown");
    const std::string cluster =
        DatasetString(At(record, {"source_cluster_id"}))
            .value_or(
                DatasetString(At(record, {"document_id"})).value_or("context-" + Padded(index)));
    ++strata[stratum];
    clusters.insert(cluster);
    rows.push_back({{"index", index},
                    {"stratum", stratum},
                    {"source_cluster", cluster},
                    {"file", file},
                    {"tokens", *length},
                    {"token_sha256", Sha256Hex(bytes)},
                    {"partition", DatasetString(At(record, {"partition"})).value_or("analysis")},
                    {"sentinel", IsTrue(At(record, {"sentinel"}))}});
  }
  Json manifest = {{"schema", "qwen38-distribution-fidelity/3"},
                   {"model", DatasetText(At(documents.manifest, {"weights", "repository"}))},
                   {"context_length", *length},
                   {"scored_positions_per_context", *length - 1},
                   {"contexts", rows.size()},
                   {"total_scored_positions", static_cast<int64_t>(rows.size()) * (*length - 1)},
                   {"hidden_size", At(documents.manifest, {"capture", "hidden_width"})},
                   {"vocab_size", At(documents.manifest, {"capture", "vocab_size"})}};
  manifest["strata"] = Json::object();
  for (const auto& [name, count] : strata) manifest["strata"][name] = count;
  manifest["source_clusters"] = clusters.size();
  manifest["converted_from"] = {
      {"form", "dataset"},
      {"dataset_sha256", At(documents.manifest, {"dataset_sha256"})},
      {"suite_token_hash_sha256", At(panel, {"suite_token_hash_sha256"})}};
  manifest["context_index"] = std::move(rows);
  manifest["suite_token_sha256"] = Sha256Hex(digests);
  const std::string bytes = PythonPrettyJson(manifest);
  (*files)["suite/suite-manifest.json"] = bytes;
  return ParseSuiteManifest(bytes, dir + ": its panel as a suite");
}

Json IdentityOf(const DatasetDocuments& documents) {
  const Json& weights = At(documents.manifest, {"weights"});
  Json out = Json::object();
  for (const char* key : {"model_revision", "config_sha256", "index_sha256"})
    out[key] = At(weights, {key});
  out["model_revision_source"] = "none";
  Json shards = Json::object();
  for (const Json& file : At(documents.runtime, {"weights", "checkpoint_files"})) {
    const auto name = DatasetString(At(file, {"name"})),
               digest = DatasetString(At(file, {"sha256"}));
    if (name && digest) shards[*name] = *digest;
  }
  if (!shards.empty()) out["shard_sha256"] = std::move(shards);
  out["quantization"] = At(weights, {"codec"});
  return out;
}

}  // namespace

absl::StatusOr<DatasetAsCapture> CaptureOfDataset(const std::string& dir) {
  DatasetOptions options;
  options.verify_tensors = false;  // read by the gates before
  const DatasetVerdict verdict = VerifyDataset(dir, options);
  if (!verdict.ok())
    return Refused(dir, "it is not complete: " + verdict.findings.errors.front().message);
  const DatasetDocuments& documents = verdict.documents;
  ASSAY_RETURN_IF_ERROR(CheckForm(dir, documents));
  DatasetAsCapture out;
  ASSAY_ASSIGN_OR_RETURN(const Suite suite, SuiteOf(dir, documents, &out.files));
  std::vector<CaptureRecord> records;
  for (const Json& record : At(documents.capture, {"records"})) {
    CaptureRecord captured;
    captured.index = DatasetInt(At(record, {"index"})).value_or(-1);
    captured.sha256 = DatasetText(At(record, {"sha256"}));
    const Json& shape = At(record, {"shape"});
    if (DatasetText(At(record, {"file"})) != HiddenFileName(captured.index) || !shape.is_array() ||
        shape.size() != 2 || !shape[0].is_number_unsigned() || !shape[1].is_number_unsigned())
      return Refused(dir, "a record has another file name or shape");
    captured.rows = shape[0].get<uint64_t>();
    captured.width = shape[1].get<uint64_t>();
    records.push_back(std::move(captured));
  }
  CaptureWriterInfo info;
  info.model_name = DatasetText(At(documents.manifest, {"weights", "repository"}));
  info.candidate_identity = IdentityOf(documents);
  info.filter = "all";
  info.cut_point = DatasetText(At(documents.manifest, {"capture", "semantic_point"}));
  info.runtime = {{"stack_fingerprint", At(documents.runtime, {"stack_fingerprint"})},
                  {"lane", At(documents.runtime, {"lane"})}};
  Json manifest = BuildCaptureManifest(suite, info, records, /*complete=*/true);
  manifest["converted_from"] = {
      {"form", "dataset"},
      {"rule", nullptr},
      {"dataset_sha256", At(documents.manifest, {"dataset_sha256"})},
      {"capture_content_digest", At(documents.capture, {"capture_content_digest"})}};
  out.files["capture/capture-manifest.json"] = PythonPrettyJson(manifest);
  return out;
}

}  // namespace assay
