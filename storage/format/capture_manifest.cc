// Writing capture manifests: the key order of qwen-suites 2.2 to 2.4.

#include <algorithm>

#include "storage/base/digest.h"
#include "storage/format/capture.h"

namespace assay {
namespace {

// Members of `extra` replace those of `base` in place; new ones follow in their order.
void Overlay(Json& base, const Json& extra) {
  if (!extra.is_object()) return;
  for (const auto& [key, value] : extra.items()) base[key] = value;
}

Json CandidateIdentity(const CaptureWriterInfo& info) {
  Json out = Json::object();
  out["model_path"] = info.model_name;
  out["model_revision"] = nullptr;
  out["model_revision_source"] = "none";
  out["index_sha256"] = nullptr;
  out["config_sha256"] = nullptr;
  out["shard_sha256"] = nullptr;
  out["quantization"] = nullptr;
  out["quantization_config"] = nullptr;
  out["trust_remote_code"] = false;
  out["kv_cache_dtype_requested"] = nullptr;
  out["kv_cache_dtype_resolved"] = "unresolved";
  out["kv_cache_dtype_resolved_source"] = "unavailable";
  Overlay(out, info.candidate_identity);
  return out;
}

// The manifest keeps the raw JSON string, the contract the parsed document.
Json ParsedConfig(const Json& config) {
  if (!config.is_string()) return config;
  const auto parsed = ParseJson(config.get<std::string>(), "quantization_config");
  return parsed.ok() ? *parsed : config;
}

Json CaptureContract(const Suite& suite, const CaptureWriterInfo& info, const Json& identity,
                     const std::string& cut_point) {
  Json indices = Json::array();
  const auto selected = SelectContexts(suite, info.filter);
  if (selected.ok()) {
    for (size_t position : *selected) indices.push_back(suite.contexts[position].index);
  }
  Json content = Json::object();
  for (const char* key : {"model_revision", "index_sha256", "config_sha256", "shard_sha256"})
    content[key] = identity[key];
  Json runtime = Json::object();
  runtime["quantization"] = identity["quantization"];
  runtime["quantization_config"] = ParsedConfig(identity["quantization_config"]);
  for (const char* key :
       {"trust_remote_code", "kv_cache_dtype_requested", "kv_cache_dtype_resolved"})
    runtime[key] = identity[key];
  runtime["fp32"] = false;
  runtime["chunk_accumulate"] = false;
  runtime["max_batched_tokens"] = 0;
  runtime["cut_point"] = cut_point;
  Overlay(runtime, info.runtime);

  Json out = Json::object();
  out["suite_token_sha256"] = suite.suite_token_sha256;
  out["context_length"] = suite.context_length;
  out["filter"] = info.filter;
  out["expected_indices"] = std::move(indices);
  out["candidate_content"] = std::move(content);
  out["runtime"] = std::move(runtime);
  return out;
}

}  // namespace

Json BuildCaptureManifest(const Suite& suite, const CaptureWriterInfo& info,
                          const std::vector<CaptureRecord>& records, bool complete) {
  const std::string cut_point =
      info.cut_point.empty() ? std::string(kDefaultCutPoint) : info.cut_point;
  const Json identity = CandidateIdentity(info);
  const Json contract = CaptureContract(suite, info, identity, cut_point);
  std::vector<CaptureRecord> sorted = records;
  std::sort(sorted.begin(), sorted.end(),
            [](const CaptureRecord& a, const CaptureRecord& b) { return a.index < b.index; });
  Json captures = Json::array();
  for (const CaptureRecord& record : sorted) {
    Json row = Json::object();
    row["index"] = record.index;
    row["sha256"] = record.sha256;
    row["shape"] = {record.rows, record.width};
    captures.push_back(std::move(row));
  }
  std::vector<int64_t> expected = contract["expected_indices"].get<std::vector<int64_t>>();
  std::sort(expected.begin(), expected.end());

  Json out = Json::object();
  out["schema"] = std::string(kCaptureSchema);
  out["model"] = info.model_name;
  out["quantization"] = identity["quantization"];
  out["quantization_config"] = identity["quantization_config"];
  out["kv_cache_dtype"] = identity["kv_cache_dtype_requested"];
  out["candidate_identity"] = identity;
  if (!info.stack.is_null()) out["engine_identity"] = info.stack;
  out["cut_point"] = cut_point;
  out["suite_token_sha256"] = suite.suite_token_sha256;
  out["filter"] = info.filter;
  out["context_length"] = suite.context_length;
  out["expected_contexts"] = expected.size();
  out["expected_indices"] = expected;
  out["capture_contract"] = contract;
  out["capture_contract_sha256"] = Sha256Hex(PythonCanonJson(contract));
  out["contexts"] = captures.size();
  out["captures"] = std::move(captures);
  out["complete"] = complete;
  out["elapsed_sec"] = info.elapsed_sec;
  return out;
}

}  // namespace assay
