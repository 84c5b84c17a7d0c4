#include "storage/published/capture_folder.h"

#include <algorithm>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

constexpr std::string_view kDatasetManifest = "fidelity-dataset.json";
constexpr uint64_t kDatasetDocumentMax = uint64_t{256} << 20;

bool IsHiddenName(const std::string& name) {
  return name.rfind("hidden_", 0) == 0 && name.ends_with(".safetensors");
}

const Json& At(const Json& document, std::initializer_list<const char*> path) {
  return DatasetMember(document, path);
}

// Members of `from` that are there, in the order of `keys`.
Json Pick(const Json& from, std::initializer_list<const char*> keys) {
  Json out = Json::object();
  for (const char* key : keys) {
    if (!At(from, {key}).is_null()) out[key] = At(from, {key});
  }
  return out;
}

Json StrataJson(const CaptureManifest& manifest, const Suite& suite) {
  std::set<int64_t> captured;
  for (const CaptureRecord& record : manifest.records) captured.insert(record.index);
  std::map<std::string, std::pair<int64_t, int64_t>> strata;  // captured, in the suite
  for (const SuiteContext& context : suite.contexts) {
    auto& [have, all] = strata[context.stratum];
    ++all;
    if (captured.count(context.index) != 0) ++have;
  }
  Json out = Json::array();
  for (const auto& [name, counts] : strata) {
    out.push_back({{"stratum", name}, {"captured", counts.first}, {"in_suite", counts.second}});
  }
  return out;
}

// What somebody who gets this capture cannot learn from it.
Json NotStated(const CaptureFolder& folder) {
  const Json& json = folder.manifest.json;
  Json out = Json::array();
  const auto missing = [&](bool is_missing, const char* what) {
    if (is_missing) out.push_back(what);
  };
  const Json& identity = At(json, {"candidate_identity"});
  missing(At(json, {"schema"}).is_null(), "schema");
  missing(At(json, {"filter"}).is_null(), "filter");
  missing(At(json, {"context_length"}).is_null(), "context length");
  missing(At(json, {"cut_point"}).is_null(), "point of the model (the form's own is assumed)");
  missing(identity.is_null(), "which model it is, but for a name");
  missing(!identity.is_null() && At(identity, {"model_revision"}).is_null() &&
              At(identity, {"shard_sha256"}).is_null(),
          "revision and digests of the model's files");
  missing(At(json, {"engine_identity"}).is_null() && At(json, {"capture_contract"}).is_null(),
          "engine and how it ran");
  return out;
}

}  // namespace

std::string_view CaptureFormName(CaptureForm form) {
  switch (form) {
    case CaptureForm::kCurrent:
      return "current";
    case CaptureForm::kLegacy:
      return "legacy";
    case CaptureForm::kGlm:
      return "glm";
    case CaptureForm::kDataset:
      return "dataset";
  }
  return "";
}

bool IsDatasetFolder(const std::string& dir) { return FileExists(JoinPath(dir, kDatasetManifest)); }

absl::StatusOr<CaptureFolder> ReadCaptureFolder(const std::string& dir) {
  CaptureFolder out;
  out.dir = dir;
  out.manifest_path = CaptureManifestPath(dir);
  ASSAY_ASSIGN_OR_RETURN(out.manifest, ReadCaptureManifest(dir));
  ASSAY_ASSIGN_OR_RETURN(out.manifest_bytes, ReadFile(out.manifest_path, kCaptureManifestBytesMax));
  if (out.manifest.legacy) {
    out.form = CaptureForm::kLegacy;
  } else if (out.manifest.schema.rfind("glm53flash-", 0) == 0) {
    out.form = CaptureForm::kGlm;
  }
  std::set<std::string> recorded;
  for (const CaptureRecord& record : out.manifest.records) {
    const std::string name = HiddenFileName(record.index);
    recorded.insert(name);
    const std::string path = JoinPath(dir, name);
    if (!FileExists(path)) {
      out.missing.push_back(name);
      continue;
    }
    ASSAY_ASSIGN_OR_RETURN(const uint64_t size, FileSize(path));
    out.bytes += size;
  }
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir));
  for (const std::string& name : names) {
    if (recorded.count(name) != 0 || name == BaseName(out.manifest_path)) continue;
    (IsHiddenName(name) ? out.unlisted : out.uncovered).push_back(name);
  }
  return out;
}

Json DescribeCaptureFolder(const CaptureFolder& folder, const Suite* suite) {
  const CaptureManifest& manifest = folder.manifest;
  Json out = Json::object();
  out["folder"] = folder.dir;
  out["what"] = "captured hidden states";
  out["form"] = CaptureFormName(folder.form);
  out["rule"] = manifest.legacy ? Json(kLegacyCaptureRule) : Json();
  out["schema"] = manifest.legacy ? Json() : Json(manifest.schema);
  out["manifest"] = BaseName(folder.manifest_path);
  out["manifest_sha256"] = Sha256Hex(folder.manifest_bytes);
  out["content_sha256"] = manifest.ContentSha256();
  out["suite_token_sha256"] = manifest.suite_token_sha256;
  out["complete"] = manifest.complete;
  out["cut_point"] = manifest.cut_point;
  const Json& json = manifest.json;
  out["filter"] = At(json, {"filter"});
  out["contexts"] = manifest.records.size();
  out["contexts_expected"] = At(json, {"expected_contexts"});
  out["bytes"] = folder.bytes;
  uint64_t positions = 0;
  for (const CaptureRecord& record : manifest.records) positions += record.rows;
  out["positions"] = positions;
  out["rows"] = manifest.records.empty() ? Json() : Json(manifest.records.front().rows);
  out["width"] = manifest.records.empty() ? Json() : Json(manifest.records.front().width);
  out["dtype"] = nullptr;
  for (const CaptureRecord& record : manifest.records) {
    const auto file = SafetensorsFile::Open(JoinPath(folder.dir, HiddenFileName(record.index)));
    if (!file.ok() || !(*file)->Has(kHiddenTensorName)) continue;
    out["dtype"] = DTypeName((*file)->Find(kHiddenTensorName)->dtype);
    break;
  }
  out["model"] = At(json, {"model"});
  out["identity"] = Pick(At(json, {"candidate_identity"}),
                         {"model_revision", "config_sha256", "index_sha256", "shard_sha256",
                          "quantization", "kv_cache_dtype_resolved", "assay_model"});
  out["engine"] = !At(json, {"engine_identity"}).is_null()
                      ? At(json, {"engine_identity"})
                      : At(json, {"capture_contract", "runtime"});
  if (suite != nullptr) {
    out["suite_is_its_own"] = suite->suite_token_sha256 == manifest.suite_token_sha256;
    out["strata"] = StrataJson(manifest, *suite);
  }
  out["missing_files"] = folder.missing;
  out["unlisted_files"] = folder.unlisted;
  out["not_stated"] = NotStated(folder);
  return out;
}

absl::StatusOr<Json> DescribeDatasetFolder(const std::string& dir) {
  ASSAY_ASSIGN_OR_RETURN(const Json json,
                         ReadJsonFile(JoinPath(dir, kDatasetManifest), kDatasetDocumentMax));
  Json out = Json::object();
  out["folder"] = dir;
  out["what"] = "fidelity dataset";
  out["form"] = CaptureFormName(CaptureForm::kDataset);
  out["schema"] = At(json, {"schema"});
  out["dataset_sha256"] = At(json, {"dataset_sha256"});
  out["dataset"] = Pick(At(json, {"dataset"}), {"id", "name", "role", "structural_status"});
  out["capture"] =
      Pick(At(json, {"capture"}),
           {"capture_content_digest", "form", "semantic_point", "dtype", "hidden_width",
            "vocab_size", "records_count", "scored_rows_total", "total_size_bytes", "lossy_codec"});
  out["panel"] = Pick(At(json, {"panel"}),
                      {"panel_id", "suite_token_hash_sha256", "contexts", "context_length",
                       "scored_positions_total", "scoring_window", "tokenizer"});
  out["head"] = Pick(At(json, {"head"}),
                     {"present", "shape", "dtype", "tensor_content_sha256", "quantized", "source"});
  out["weights"] = At(json, {"weights"});
  out["scope_digest"] = At(json, {"scope", "scope_digest"});
  out["runtime"] = Pick(At(json, {"runtime"}), {"lane", "source", "stack_fingerprint_sha256"});
  out["coverage"] = At(json, {"coverage"});
  out["determinism"] =
      Pick(At(json, {"determinism"}), {"run_count", "evidence_kind", "identical_across_runs"});
  Json codes = Json::array();
  for (const Json& disclosure : At(json, {"disclosures"}))
    codes.push_back(At(disclosure, {"code"}));
  out["disclosures"] = std::move(codes);
  const auto panel = ReadJsonFile(JoinPath(dir, "panel/panel.json"), kDatasetDocumentMax);
  std::map<std::string, int64_t> strata;
  if (panel.ok()) {
    for (const Json& record : At(*panel, {"records"})) {
      ++strata[DatasetText(At(record, {"allocation_stratum"}))];
    }
  }
  out["strata"] = Json::array();
  for (const auto& [name, contexts] : strata) {
    out["strata"].push_back({{"stratum", name}, {"contexts", contexts}});
  }
  return out;
}

}  // namespace assay
