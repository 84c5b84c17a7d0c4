#include "storage/seal/key_list.h"

#include <algorithm>

#include "storage/base/json.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/encoding.h"
#include "storage/seal/receipt.h"

namespace assay {
namespace {

constexpr std::string_view kKeyPayloadType = "application/vnd.assay.key+json";
constexpr int64_t kTimeMax = int64_t{1} << 53;

Json EntryOf(const PublicKey& key, const std::string& previous, uint64_t first_leaf,
             int64_t create_ms) {
  return {{"key_id", key.key_id()},
          {"public_key", key.pem()},
          {"previous_key_id", previous},
          {"first_leaf", first_leaf},
          {"create_time", create_ms}};
}

absl::StatusOr<std::string> SignedBytes(Json entry) {
  entry.erase("signatures");
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, CanonicalJson(entry));
  return DssePae(kKeyPayloadType, bytes);
}

absl::Status AddSignature(const Signer& signer, Json* entry) {
  ASSAY_ASSIGN_OR_RETURN(const std::string message, SignedBytes(*entry));
  ASSAY_ASSIGN_OR_RETURN(const std::string signature, signer.Sign(message));
  (*entry)["signatures"].push_back({{"keyid", signer.key_id()}, {"sig", Base64(signature)}});
  return absl::OkStatus();
}

absl::StatusOr<std::string> ListBytes(Json keys) {
  return CanonicalJson(Json{{"schema", std::string(kKeyListSchema)}, {"keys", std::move(keys)}});
}

absl::Status CheckSignature(const Json& entry, size_t index, const PublicKey& key,
                            const JsonFields& fields) {
  ASSAY_ASSIGN_OR_RETURN(const Json* signatures, fields.Array("signatures"));
  const JsonFields signature((*signatures)[index], fields.where() + ": signature");
  ASSAY_ASSIGN_OR_RETURN(const std::string id, signature.String("keyid"));
  ASSAY_ASSIGN_OR_RETURN(const std::string text, signature.String("sig"));
  ASSAY_ASSIGN_OR_RETURN(const std::string message, SignedBytes(entry));
  const auto bytes = BytesOfBase64(text);
  if (id == key.key_id() && bytes && key.Verify(message, *bytes)) return absl::OkStatus();
  return fields.Invalid("signatures", "are not those of the key before it and of the key itself");
}

// `before`: the key before this one, null for the first.
absl::StatusOr<LogKey> ReadEntry(const Json& entry, const LogKey* before, size_t position) {
  const JsonFields fields(entry, "keys[" + std::to_string(position) + "]");
  ASSAY_ASSIGN_OR_RETURN(const std::string id, fields.Sha256("key_id"));
  ASSAY_ASSIGN_OR_RETURN(const std::string pem, fields.String("public_key"));
  ASSAY_ASSIGN_OR_RETURN(const std::string previous, fields.String("previous_key_id"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t first,
                         fields.Int("first_leaf", 0, static_cast<int64_t>(kLogSizeMax)));
  ASSAY_ASSIGN_OR_RETURN(const int64_t time, fields.Int("create_time", 0, kTimeMax));
  ASSAY_ASSIGN_OR_RETURN(const Json* signatures, fields.Array("signatures"));
  ASSAY_ASSIGN_OR_RETURN(const PublicKey key, PublicKey::FromPem(pem, fields.where()));
  if (key.key_id() != id) return fields.Invalid("key_id", "is not its public key's");
  if (previous != (before == nullptr ? "" : before->key.key_id())) {
    return fields.Invalid("previous_key_id", "is not the key before it");
  }
  if (entry.size() != 6 || signatures->size() != (before == nullptr ? 1u : 2u)) {
    return fields.Invalid("signatures", "or another field is missing or too many");
  }
  const auto first_leaf = static_cast<uint64_t>(first);
  if (first_leaf < (before == nullptr ? 0 : before->first_leaf) ||
      (before == nullptr && first_leaf != 0)) {
    return fields.Invalid("first_leaf", "goes back");
  }
  if (before != nullptr) ASSAY_RETURN_IF_ERROR(CheckSignature(entry, 0, before->key, fields));
  ASSAY_RETURN_IF_ERROR(CheckSignature(entry, signatures->size() - 1, key, fields));
  return LogKey{key, first_leaf, std::nullopt, time};
}

absl::StatusOr<std::vector<LogKey>> ReadKeys(const Json& json) {
  const JsonFields fields(json, "keys");
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kKeyListSchema || json.size() != 2) {
    return fields.Invalid("schema", "is not assay-keys/1");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* list, fields.Array("keys"));
  if (list->empty() || list->size() > kKeysMax) {
    return fields.Invalid("keys", "must hold 1 to " + std::to_string(kKeysMax) + " keys");
  }
  std::vector<LogKey> keys;
  for (const Json& entry : *list) {
    ASSAY_ASSIGN_OR_RETURN(LogKey key,
                           ReadEntry(entry, keys.empty() ? nullptr : &keys.back(), keys.size()));
    if (std::any_of(keys.begin(), keys.end(), [&](const LogKey& k) { return k.key == key.key; })) {
      return fields.Invalid("keys", "hold one key twice");
    }
    if (!keys.empty()) keys.back().end_leaf = key.first_leaf;
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace

absl::StatusOr<KeyList> KeyList::Begin(const Signer& signer, int64_t now_ms) {
  Json entry = EntryOf(signer.public_key(), "", 0, now_ms);
  ASSAY_RETURN_IF_ERROR(AddSignature(signer, &entry));
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ListBytes(Json::array({std::move(entry)})));
  return Parse(bytes, "new key list");
}

absl::StatusOr<KeyList> KeyList::Parse(std::string_view bytes, std::string_view where) {
  const auto invalid = [&](const std::string& what) {
    return InvalidError("KEY_LIST_INVALID", std::string(where) + ": " + what);
  };
  if (bytes.size() > kKeyListBytesMax) return invalid("is too long for a list of keys");
  const auto json = ParseJson(bytes, where);
  if (!json.ok()) return invalid("is no list of keys: " + MessageOf(json.status()));
  KeyList out;
  auto keys = ReadKeys(*json);
  if (!keys.ok()) return invalid(MessageOf(keys.status()));
  out.keys_ = *std::move(keys);
  const auto canonical = CanonicalJson(*json);
  if (!canonical.ok() || *canonical != bytes) return invalid("is not in canonical form (RFC 8785)");
  out.bytes_ = *canonical;
  return out;
}

absl::StatusOr<KeyList> KeyList::Rotate(const Signer& active, const Signer& next,
                                        uint64_t first_leaf, int64_t now_ms) const {
  if (!(active.public_key() == this->active().key)) {
    return PreconditionError("KEY_MISMATCH",
                             "the key that is to be followed by another one is not "
                             "the active key of the list");
  }
  Json entry = EntryOf(next.public_key(), active.key_id(), first_leaf, now_ms);
  ASSAY_RETURN_IF_ERROR(AddSignature(active, &entry));
  ASSAY_RETURN_IF_ERROR(AddSignature(next, &entry));
  ASSAY_ASSIGN_OR_RETURN(Json list, ParseJson(bytes_, "key list"));
  list["keys"].push_back(std::move(entry));
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, CanonicalJson(list));
  return Parse(bytes, "rotated key list");
}

const LogKey* KeyList::Find(const PublicKey& key) const {
  const auto it =
      std::find_if(keys_.begin(), keys_.end(), [&](const LogKey& k) { return k.key == key; });
  return it == keys_.end() ? nullptr : &*it;
}

absl::Status KeyList::CheckLeaf(const PublicKey& key, uint64_t leaf) const {
  const LogKey* found = Find(key);
  if (found == nullptr) {
    return DataLossError("KEY_UNKNOWN", "key " + key.key_id() +
                                            " is not in the list of keys; ask "
                                            "the service for its present list");
  }
  if (leaf >= found->first_leaf && (!found->end_leaf || leaf < *found->end_leaf)) {
    return absl::OkStatus();
  }
  return DataLossError(
      "KEY_RETIRED",
      "key " + key.key_id() + " signed leaf " + std::to_string(leaf) +
          ", but was in use for leaves " + std::to_string(found->first_leaf) + " to " +
          (found->end_leaf ? std::to_string(*found->end_leaf) + " (not included)" : "the end") +
          " only; do not rely on this receipt");
}

}  // namespace assay
