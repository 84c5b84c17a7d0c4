#include "storage/report/report_parts.h"

#include <algorithm>
#include <cmath>

#include "storage/base/digest.h"
#include "storage/report/bootstrap.h"
#include "storage/report/json_compare.h"
#include "storage/report/pairing.h"
#include "storage/report/statistics.h"

namespace assay {
namespace {

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// The members of a published candidate_identity that say what the model is; paths are left out.
Json IdentityWithoutPaths(const Json& identity) {
  if (!identity.is_object()) return nullptr;
  Json json = Json::object();
  for (const char* key : {"model_revision", "index_sha256", "config_sha256", "shard_sha256",
                          "quantization", "quantization_config", "trust_remote_code",
                          "kv_cache_dtype_requested", "kv_cache_dtype_resolved"}) {
    if (identity.contains(key)) json[key] = identity.at(key);
  }
  return json;
}

Json SizesJson(const ModelSizes& sizes) {
  const auto part = [](const std::optional<uint64_t>& weights, const std::optional<double>& bits) {
    return Json{{"weights", OrNull(weights)}, {"bits_per_weight", OrNull(bits)}};
  };
  Json json;
  json["file_bytes"] = OrNull(sizes.file_bytes);
  json["body"] = part(sizes.body_weights, sizes.body_bits_per_weight);
  json["head"] = part(sizes.head_weights, sizes.head_bits_per_weight);
  json["embedding"] = part(sizes.embedding_weights, sizes.embedding_bits_per_weight);
  json["what_if"] = sizes.what_if;
  return json;
}

}  // namespace

std::string IndicesSha256(const std::vector<int64_t>& indices) {
  std::string text;
  for (const int64_t index : indices) text += std::to_string(index) + "\n";
  return Sha256Hex(text);
}

Json SuiteJson(const SuiteInfo& suite) {
  Json json;
  json["schema"] = suite.schema;
  json["suite_token_sha256"] = suite.suite_token_sha256;
  json["manifest_sha256"] = suite.manifest_sha256;
  json["contexts"] = suite.suite_contexts;
  json["context_length"] = suite.context_length;
  return json;
}

Json CoverageJson(const SuiteInfo& suite, const std::vector<ReportContext>& contexts) {
  uint64_t positions = 0;
  std::vector<int64_t> indices;
  for (const ReportContext& context : contexts) {
    positions += context.positions;
    indices.push_back(context.index);
  }
  Json json;
  json["filter"] = suite.filter;
  json["contexts"] = contexts.size();
  json["positions"] = positions;
  // Only where there is a window: reports of whole contexts keep the form they always had.
  if (suite.score_from > 0) json["score_from"] = suite.score_from;
  if (suite.limit > 0) json["limit"] = suite.limit;
  json["complete"] = contexts.size() == suite.suite_contexts && suite.score_from == 0;
  json["indices_sha256"] = IndicesSha256(indices);
  return json;
}

Json OperandJson(const OperandInfo& operand) {
  Json json;
  json["model"] = operand.model;
  json["model_identity"] = TextOrNull(operand.model_identity);
  json["declared_identity"] = IdentityWithoutPaths(operand.declared_identity);
  json["architecture"] = TextOrNull(operand.architecture);
  json["family"] = TextOrNull(operand.family);
  json["capture"] = {{"content_sha256", operand.capture.content_sha256},
                     {"schema", operand.capture.schema},
                     {"cut_point", operand.capture.cut_point},
                     {"legacy", operand.capture.legacy},
                     {"engine", operand.capture.engine},
                     {"stack", operand.capture.stack}};
  json["sizes"] = SizesJson(operand.sizes);
  return json;
}

Json NumericJson(const NumericInfo& numeric) {
  Json json;
  json["policy"] = numeric.policy;
  json["backend"] = numeric.backend;
  json["kernel_identity"] = numeric.kernel_identity;
  json["operand_dtype"] = numeric.operand_dtype;
  json["operand_rounding"] = numeric.operand_rounding;
  json["valid_vocab"] = OrNull(numeric.valid_vocab);
  json["softcap"] = OrNull(numeric.softcap);
  json["allow_infinite"] = numeric.allow_infinite;
  if (numeric.vocab_chunk) json["vocab_chunk"] = *numeric.vocab_chunk;
  return json;
}

Json HeadIdentityJson(const HeadIdentity& head) {
  Json json;
  json["vocab"] = head.vocab;
  json["hidden"] = head.hidden;
  json["rounded_sha256"] = head.rounded_sha256;
  json["original_sha256"] = TextOrNull(head.original_sha256);
  json["original_dtype"] = TextOrNull(head.original_dtype);
  json["rounding"] = head.rounding;
  json["tied"] = head.tied;
  // Only where the head has them: reports of plain heads keep the form they always had.
  if (head.logit_scale) json["logit_scale"] = *head.logit_scale;
  if (!head.bias_sha256.empty()) json["bias_sha256"] = head.bias_sha256;
  return json;
}

Json NoiseFloorJson(const std::vector<RepeatedCapture>& repeats) {
  Json json;
  uint64_t contexts = 0, identical = 0;
  double worst = 0;
  bool finite = true;
  Json list = Json::array();
  for (const RepeatedCapture& repeat : repeats) {
    Json differing = Json::array();
    for (const auto& context : repeat.contexts) {
      if (context.first_sha256 != context.repeat_sha256) differing.push_back(context.index);
    }
    const uint64_t total = repeat.contexts.size();
    std::vector<double> kl(static_cast<size_t>(total * repeat.positions_per_context), 0.0);
    std::copy(repeat.kl_of_differing.begin(), repeat.kl_of_differing.end(), kl.begin());
    contexts += total;
    identical += total - differing.size();
    const Json mean = MeanJson(kl);
    if (mean.at("value").is_null()) finite = false;
    if (finite) worst = std::max(worst, mean.at("value").get<double>());
    const double max = kl.empty() ? 0.0 : *std::max_element(kl.begin(), kl.end());
    list.push_back({{"operand", repeat.operand},
                    {"contexts", total},
                    {"identical", total - differing.size()},
                    {"differing_contexts", differing},
                    {"positions", kl.size()},
                    {"mean_kl_ref_cand", mean},
                    {"max_kl_ref_cand", FiniteJson(max)}});
  }
  json["measured"] = contexts > 0;
  json["byte_identical"] = contexts > 0
                               ? Json(std::to_string(identical) + "/" + std::to_string(contexts))
                               : Json(nullptr);
  json["mean_kl_ref_cand"] = contexts > 0 && finite ? Json(worst) : Json(nullptr);
  json["repeats"] = std::move(list);
  return json;
}

Json HeadDifferenceJson(const Json& heads) {
  const std::string own(kHeadOwn), shared(kHeadShared);
  if (!heads.contains(own) || !heads.contains(shared)) return nullptr;
  std::vector<PairedContext> contexts;
  const Json& rows_own = heads.at(own).at("contexts");
  const Json& rows_shared = heads.at(shared).at("contexts");
  const auto mean = [](const Json& row) {
    const Json& value = row.at("mean_kl_ref_cand").at("value");
    return value.is_null() ? HUGE_VAL : value.get<double>();
  };
  for (size_t i = 0; i < rows_own.size() && i < rows_shared.size(); ++i) {
    contexts.push_back({rows_own[i].at("source_cluster").get<std::string>(), mean(rows_own[i]),
                        mean(rows_shared[i])});
  }
  const auto token_mean = [&](const std::string& head) -> const Json& {
    return heads.at(head).at("statistics").at("kl_ref_cand").at("mean").at("value");
  };
  const Json& a = token_mean(own);
  const Json& b = token_mean(shared);
  Json json;
  json["a"] = own;
  json["b"] = shared;
  json["token_mean_difference"] =
      a.is_null() || b.is_null() ? Json(nullptr) : Json(a.get<double>() - b.get<double>());
  json["paired"] = PairedJson(contexts);
  return json;
}

Json SmallestDifferenceJson(const Json& heads, const Json& noise_floor) {
  Json json = Json::object();
  const Json& noise = noise_floor.at("mean_kl_ref_cand");
  for (const auto& [name, head] : heads.items()) {
    const Json& bootstrap = head.at("statistics").at("kl_ref_cand").at("context_bootstrap");
    Json sampling = nullptr, value = nullptr;
    if (bootstrap.at("refused").is_null()) {
      const double half =
          (bootstrap.at("ci95_high").get<double>() - bootstrap.at("ci95_low").get<double>()) / 2;
      sampling = half;
      value = noise.is_number() ? std::max(half, noise.get<double>()) : half;
    }
    json[name] = {{"value", value}, {"sampling", sampling}, {"noise", noise}};
  }
  return json;
}

}  // namespace assay
