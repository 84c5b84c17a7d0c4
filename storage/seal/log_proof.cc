#include "storage/seal/log_proof.h"

#include <algorithm>

#include "storage/base/digest.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/seal/checkpoint.h"

namespace assay {
namespace {

Json HexList(const std::vector<DigestBytes>& hashes) {
  Json out = Json::array();
  for (const DigestBytes& hash : hashes) out.push_back(HexOf(std::span<const uint8_t>(hash)));
  return out;
}

absl::StatusOr<std::vector<DigestBytes>> ReadHexList(const JsonFields& fields,
                                                     std::string_view key) {
  ASSAY_ASSIGN_OR_RETURN(const Json* list, fields.Array(key));
  if (list->size() > kProofPathMax) return fields.Invalid(key, "is too long");
  std::vector<DigestBytes> out;
  for (const Json& hash : *list) {
    if (!hash.is_string() || !IsSha256Hex(hash.get<std::string>())) {
      return fields.Invalid(key, "holds something that is no hash");
    }
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, BytesOfHex(hash.get<std::string>()));
    std::copy(bytes.begin(), bytes.end(), out.emplace_back().begin());
  }
  return out;
}

absl::StatusOr<LogProof> ReadProof(const Json& json) {
  const JsonFields fields(json, "proof");
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kLogProofSchema) return fields.Invalid("schema", "is not assay-log-proof/1");
  LogProof out;
  constexpr auto kMax = static_cast<int64_t>(kLogSizeMax);
  ASSAY_ASSIGN_OR_RETURN(out.checkpoint, fields.String("checkpoint"));
  if (fields.Has("leaf_index")) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t index, fields.Int("leaf_index", 0, kMax));
    out.leaf_index = static_cast<uint64_t>(index);
  }
  ASSAY_ASSIGN_OR_RETURN(out.inclusion_path, ReadHexList(fields, "inclusion_path"));
  ASSAY_ASSIGN_OR_RETURN(const Json* consistency, fields.Array("consistency"));
  if (consistency->size() > kConsistencyMax) return fields.Invalid("consistency", "is too long");
  for (const Json& entry : *consistency) {
    const JsonFields one(entry, "proof: consistency");
    ConsistencyPath path;
    ASSAY_ASSIGN_OR_RETURN(const int64_t size, one.Int("old_size", 0, kMax));
    path.old_size = static_cast<uint64_t>(size);
    ASSAY_ASSIGN_OR_RETURN(path.path, ReadHexList(one, "path"));
    // Two paths of one size would leave it to each reader which of them counts.
    if (PathOf(out, path.old_size) != nullptr)
      return fields.Invalid("consistency", "has a size twice");
    out.consistency.push_back(std::move(path));
  }
  if (fields.Has("keys")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* keys, fields.Object("keys"));
    ASSAY_ASSIGN_OR_RETURN(out.keys, CanonicalJson(*keys));
  }
  return out;
}

}  // namespace

const ConsistencyPath* PathOf(const LogProof& proof, uint64_t old_size) {
  const auto path = std::find_if(proof.consistency.begin(), proof.consistency.end(),
                                 [&](const ConsistencyPath& p) { return p.old_size == old_size; });
  return path == proof.consistency.end() ? nullptr : &*path;
}

absl::StatusOr<LogProof> MakeLogProof(const LogReader& log, const std::string& checkpoint,
                                      std::optional<uint64_t> leaf_index,
                                      std::span<const uint64_t> old_sizes) {
  ASSAY_ASSIGN_OR_RETURN(const SignedCheckpoint note, ParseCheckpoint(checkpoint));
  const uint64_t size = note.checkpoint.size;
  LogProof out;
  out.checkpoint = checkpoint;
  out.leaf_index = leaf_index;
  if (leaf_index) {
    ASSAY_ASSIGN_OR_RETURN(out.inclusion_path, InclusionProof(log, *leaf_index, size));
  }
  for (const uint64_t old_size : old_sizes) {
    if (old_size > size) {
      return InvalidError("LOG_RANGE", "this log has " + std::to_string(size) +
                                           " leaves and never "
                                           "had " +
                                           std::to_string(old_size) +
                                           "; a checkpoint of that "
                                           "size is of another log, or this one has lost leaves");
    }
    if (PathOf(out, old_size) != nullptr) continue;
    ConsistencyPath path{old_size, {}};
    ASSAY_ASSIGN_OR_RETURN(path.path, ConsistencyProof(log, old_size, size));
    out.consistency.push_back(std::move(path));
  }
  return out;
}

absl::StatusOr<Json> LogProofJson(const LogProof& proof) {
  Json json;
  json["schema"] = std::string(kLogProofSchema);
  json["checkpoint"] = proof.checkpoint;
  json["leaf_index"] = proof.leaf_index ? Json(*proof.leaf_index) : Json(nullptr);
  json["inclusion_path"] = HexList(proof.inclusion_path);
  json["consistency"] = Json::array();
  for (const ConsistencyPath& path : proof.consistency) {
    json["consistency"].push_back({{"old_size", path.old_size}, {"path", HexList(path.path)}});
  }
  json["keys"] = nullptr;
  if (!proof.keys.empty()) {
    ASSAY_ASSIGN_OR_RETURN(json["keys"], ParseJson(proof.keys, "keys"));
  }
  return json;
}

absl::StatusOr<LogProof> ParseLogProof(std::string_view bytes, std::string_view where) {
  const auto invalid = [&](const std::string& what) {
    return InvalidError("PROOF_INVALID",
                        std::string(where) + ": " + what + "; fetch the proof again");
  };
  if (bytes.size() > kLogProofBytesMax) return invalid("is too long for a proof");
  const auto json = ParseJson(bytes, where);
  if (!json.ok()) return invalid(MessageOf(json.status()));
  auto proof = ReadProof(*json);
  if (!proof.ok()) return invalid(MessageOf(proof.status()));
  return proof;
}

}  // namespace assay
