#include "storage/report/operand_info.h"

#include <array>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/model_manifest.h"

namespace assay {
namespace {

// Members of a published candidate_identity that a report may repeat, and those of assay capture.
constexpr std::array<const char*, 10> kIdentityMembers = {"assay_model",
                                                          "model_revision",
                                                          "index_sha256",
                                                          "config_sha256",
                                                          "shard_sha256",
                                                          "quantization",
                                                          "quantization_config",
                                                          "trust_remote_code",
                                                          "kv_cache_dtype_requested",
                                                          "kv_cache_dtype_resolved"};

std::string TextOf(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// The member `key` when `object` has it as an object, else null.
const Json* ObjectIn(const Json* object, const char* key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(key);
  return it != object->end() && it->is_object() ? &*it : nullptr;
}

void DescribeModel(const Json& kept, OperandInfo* out) {
  const Json* manifest = ObjectIn(&kept, "manifest");
  if (manifest == nullptr) return;
  absl::StatusOr<ModelManifest> model = ParseModelManifest(*manifest, "assay_model");
  if (!model.ok() || model->Identity() != TextOf(kept, "identity")) return;
  out->model = model->ToJson();
  out->model_identity = model->Identity();
  if (const Json* facts = ObjectIn(&kept, "facts")) {
    out->architecture = TextOf(*facts, "architecture");
    out->family = TextOf(*facts, "family");
    out->sizes = SizesOfFacts(*facts);
  }
}

}  // namespace

ModelSizes SizesOfFacts(const Json& facts) {
  ModelSizes sizes;
  const auto count = [](const Json& object, const char* key) -> std::optional<uint64_t> {
    const auto it = object.find(key);
    if (it == object.end() || !it->is_number_unsigned()) return std::nullopt;
    return it->get<uint64_t>();
  };
  sizes.file_bytes = count(facts, "file_bytes");
  const auto part = [&](const char* name, std::optional<uint64_t>* weights,
                        std::optional<double>* bits) {
    const auto it = facts.find(name);
    if (it == facts.end() || !it->is_object()) return;
    *weights = count(*it, "params");
    const auto value = it->find("bits_per_weight");
    if (value != it->end() && value->is_number()) *bits = value->get<double>();
  };
  part("body", &sizes.body_weights, &sizes.body_bits_per_weight);
  part("head", &sizes.head_weights, &sizes.head_bits_per_weight);
  part("embedding", &sizes.embedding_weights, &sizes.embedding_bits_per_weight);
  const auto what_if = facts.find("what_if");
  sizes.what_if = what_if != facts.end() && what_if->is_boolean() && what_if->get<bool>();
  return sizes;
}

OperandInfo DescribeCapture(const CaptureManifest& manifest) {
  OperandInfo out;
  out.capture.content_sha256 = manifest.ContentSha256();
  out.capture.schema = manifest.schema;
  out.capture.cut_point = manifest.cut_point;
  out.capture.legacy = manifest.legacy;
  const Json* identity = ObjectIn(&manifest.json, "candidate_identity");
  if (const Json* kept = ObjectIn(identity, "assay_model")) DescribeModel(*kept, &out);
  if (out.model.is_null() && identity != nullptr) out.declared_identity = *identity;
  const Json* stack = ObjectIn(&manifest.json, "engine_identity");
  const Json* runtime = ObjectIn(ObjectIn(&manifest.json, "capture_contract"), "runtime");
  if (const Json* kernels = ObjectIn(stack, "kernels")) {
    out.capture.engine = *kernels;
    out.capture.stack = *stack;
  } else if (runtime != nullptr) {
    // Of a foreign engine: how it ran, without what only describes the model.
    out.capture.engine = *runtime;
    out.capture.engine.erase("quantization");
    out.capture.engine.erase("quantization_config");
  }
  return out;
}

std::vector<Disclosure> DisclosuresOfFacts(const Json& facts, std::string_view operand) {
  const std::string scheme = facts.is_object() ? TextOf(facts, "activations") : "";
  if (scheme.empty()) return {};
  return {{"ACTIVATIONS_NOT_QUANTIZED",
           "the " + std::string(operand) +
               " checkpoint is made to be served with quantized "
               "activations (" +
               scheme.substr(0, 200) +
               "); the native engine decodes its weights and leaves activations alone, so what "
               "their quantization costs is not in these numbers (capture it with the engine "
               "that serves it)"}};
}

std::vector<Disclosure> DisclosuresOfCapture(const CaptureManifest& manifest,
                                             std::string_view operand) {
  const Json* identity = ObjectIn(&manifest.json, "candidate_identity");
  const Json* facts = ObjectIn(ObjectIn(identity, "assay_model"), "facts");
  return facts == nullptr ? std::vector<Disclosure>() : DisclosuresOfFacts(*facts, operand);
}

Json PortableManifest(const CaptureManifest& manifest) {
  Json out = Json::object();
  if (!manifest.legacy) {
    out["schema"] = manifest.schema;
    out["complete"] = manifest.complete;
  }
  if (const Json* identity = ObjectIn(&manifest.json, "candidate_identity")) {
    Json kept = Json::object();
    for (const char* key : kIdentityMembers) {
      if (identity->contains(key)) kept[key] = identity->at(key);
    }
    out["candidate_identity"] = std::move(kept);
  }
  if (const Json* stack = ObjectIn(&manifest.json, "engine_identity")) {
    out["engine_identity"] = *stack;
  }
  if (const Json* runtime = ObjectIn(ObjectIn(&manifest.json, "capture_contract"), "runtime")) {
    out["capture_contract"] = {{"runtime", *runtime}};
  }
  return out;
}

absl::StatusOr<CaptureManifest> FromPortableManifest(const Json& json) {
  if (!json.is_object()) {
    return InvalidError("CAPTURE_INVALID", "a capture's manifest must be a JSON object");
  }
  CaptureManifest out;
  out.legacy = !json.contains("schema") && !json.contains("complete");
  out.schema = TextOf(json, "schema");
  out.complete = true;
  out.json = json;
  return out;
}

}  // namespace assay
