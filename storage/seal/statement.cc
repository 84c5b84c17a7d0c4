#include "storage/seal/statement.h"

#include <algorithm>
#include <set>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/encoding.h"

namespace assay {
namespace {

constexpr size_t kInclusionPathMax = 64;

Json SubjectJson(std::string_view name, const std::string& sha256) {
  return {{"name", std::string(name)}, {"digest", {{"sha256", sha256}}}};
}

absl::Status StatementInvalid(const std::string& what) {
  return InvalidError("STATEMENT_INVALID", "the receipt's statement " + what);
}

// Exactly these members: an unknown one would not be covered by any check.
absl::Status OnlyKeys(const Json& object, std::initializer_list<const char*> keys,
                      const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return InvalidError("FIELD_INVALID", where + ": unknown field \"" + key + "\"");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Statement> ReadStatement(const Json& json) {
  const JsonFields fields(json, "statement");
  Statement out;
  ASSAY_RETURN_IF_ERROR(
      OnlyKeys(json, {"_type", "subject", "predicateType", "predicate"}, "statement"));
  ASSAY_ASSIGN_OR_RETURN(const std::string type, fields.String("_type"));
  ASSAY_ASSIGN_OR_RETURN(const std::string predicate_type, fields.String("predicateType"));
  if (type != kStatementType || predicate_type != kPredicateType) {
    return StatementInvalid("has type " + type + " / " + predicate_type + ", expected " +
                            std::string(kStatementType) + " / " + std::string(kPredicateType));
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* predicate, fields.Object("predicate"));
  ASSAY_ASSIGN_OR_RETURN(out.log_origin,
                         JsonFields(*predicate, "statement: predicate").String("log_origin"));
  ASSAY_ASSIGN_OR_RETURN(const Json* subjects, fields.Array("subject"));
  if (subjects->size() > kStatementSubjectsMax) return StatementInvalid("has too many subjects");
  for (const Json& subject : *subjects) {
    const JsonFields inner(subject, "statement: subject");
    ASSAY_ASSIGN_OR_RETURN(const std::string name, inner.String("name"));
    ASSAY_ASSIGN_OR_RETURN(const Json* digest, inner.Object("digest"));
    ASSAY_ASSIGN_OR_RETURN(const std::string sha256,
                           JsonFields(*digest, "statement: subject " + name).Sha256("sha256"));
    if (!out.subjects.emplace(name, sha256).second) {
      return StatementInvalid("names " + name + " twice");
    }
  }
  return out;
}

absl::Status ReadEnvelope(const Json& envelope, ReceiptParts* out) {
  const JsonFields fields(envelope, "envelope");
  ASSAY_RETURN_IF_ERROR(OnlyKeys(envelope, {"payload", "payloadType", "signatures"}, "envelope"));
  ASSAY_ASSIGN_OR_RETURN(out->payload_type, fields.String("payloadType"));
  ASSAY_ASSIGN_OR_RETURN(const std::string payload, fields.String("payload"));
  ASSAY_ASSIGN_OR_RETURN(const Json* signatures, fields.Array("signatures"));
  if (signatures->size() != 1) return fields.Invalid("signatures", "must hold one signature");
  const JsonFields signature((*signatures)[0], "envelope: signatures[0]");
  ASSAY_ASSIGN_OR_RETURN(const std::string sig, signature.String("sig"));
  ASSAY_ASSIGN_OR_RETURN(const std::string keyid, signature.String("keyid"));
  if (keyid != out->key_id) return signature.Invalid("keyid", "is not the receipt's key_id");
  const auto payload_bytes = BytesOfBase64(payload);
  const auto sig_bytes = BytesOfBase64(sig);
  if (!payload_bytes) return fields.Invalid("payload", "is no Base64");
  if (!sig_bytes || sig_bytes->size() != 64) {
    return signature.Invalid("sig", "is no Base64 of 64 bytes");
  }
  out->payload = *payload_bytes;
  out->signature = *sig_bytes;
  ASSAY_ASSIGN_OR_RETURN(out->envelope, CanonicalJson(envelope));
  return absl::OkStatus();
}

absl::Status ReadLog(const Json& log, ReceiptParts* out) {
  const JsonFields fields(log, "log");
  ASSAY_RETURN_IF_ERROR(OnlyKeys(log, {"leaf_index", "inclusion_path", "checkpoint"}, "log"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t index,
                         fields.Int("leaf_index", 0, static_cast<int64_t>(kLogSizeMax)));
  out->leaf_index = static_cast<uint64_t>(index);
  ASSAY_ASSIGN_OR_RETURN(out->checkpoint, fields.String("checkpoint"));
  ASSAY_ASSIGN_OR_RETURN(const Json* path, fields.Array("inclusion_path"));
  if (path->size() > kInclusionPathMax) return fields.Invalid("inclusion_path", "is too long");
  for (const Json& hash : *path) {
    if (!hash.is_string() || !IsSha256Hex(hash.get<std::string>())) {
      return fields.Invalid("inclusion_path", "holds something that is no hash");
    }
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, BytesOfHex(hash.get<std::string>()));
    DigestBytes digest;
    std::copy(bytes.begin(), bytes.end(), digest.begin());
    out->inclusion_path.push_back(digest);
  }
  return absl::OkStatus();
}

absl::StatusOr<ReceiptParts> ReadReceipt(std::string_view bytes) {
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(bytes, "receipt"));
  const JsonFields fields(json, "receipt");
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kReceiptSchema) return fields.Invalid("schema", "is not assay-receipt/1");
  ASSAY_RETURN_IF_ERROR(
      OnlyKeys(json, {"schema", "envelope", "log", "key_id", "public_key"}, "receipt"));
  ReceiptParts out;
  ASSAY_ASSIGN_OR_RETURN(out.key_id, fields.Sha256("key_id"));
  ASSAY_ASSIGN_OR_RETURN(out.public_key_pem, fields.String("public_key"));
  ASSAY_ASSIGN_OR_RETURN(const Json* envelope, fields.Object("envelope"));
  ASSAY_ASSIGN_OR_RETURN(const Json* log, fields.Object("log"));
  ASSAY_RETURN_IF_ERROR(ReadEnvelope(*envelope, &out));
  ASSAY_RETURN_IF_ERROR(ReadLog(*log, &out));
  ASSAY_ASSIGN_OR_RETURN(const std::string canonical, CanonicalJson(json));
  if (canonical != bytes) {
    return InvalidError("RECEIPT_INVALID", "the bytes are not the canonical form (RFC 8785)");
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> StatementBytes(const std::string& report_sha256,
                                           const std::string& execution_sha256,
                                           const std::vector<InputDigest>& inputs,
                                           const std::string& log_origin) {
  Json subjects = Json::array();
  subjects.push_back(SubjectJson(kReportSubject, report_sha256));
  subjects.push_back(SubjectJson(kExecutionSubject, execution_sha256));
  for (const InputDigest& input : inputs) {
    subjects.push_back(SubjectJson("input/" + input.name, input.sha256));
  }
  Json json;
  json["_type"] = std::string(kStatementType);
  json["subject"] = std::move(subjects);
  json["predicateType"] = std::string(kPredicateType);
  json["predicate"] = {{"log_origin", log_origin}, {"report_schema", "assay-report/1"}};
  return CanonicalJson(json);
}

absl::StatusOr<Statement> ParseStatement(std::string_view bytes) {
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(bytes, "statement"));
  absl::StatusOr<Statement> out = ReadStatement(json);
  if (!out.ok()) return StatementInvalid("is not readable: " + MessageOf(out.status()));
  const absl::StatusOr<std::string> canonical = CanonicalJson(json);
  if (!canonical.ok() || *canonical != bytes) return StatementInvalid("is not in canonical form");
  return out;
}

absl::StatusOr<ReceiptParts> ParseReceipt(std::string_view bytes, std::string_view where) {
  absl::StatusOr<ReceiptParts> out = ReadReceipt(bytes);
  if (out.ok()) return out;
  return InvalidError("RECEIPT_INVALID", std::string(where) + ": " + MessageOf(out.status()) +
                                             "; use the receipt exactly as the service gave it");
}

}  // namespace assay
