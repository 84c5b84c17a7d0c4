#include "storage/seal/receipt.h"

#include <set>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/report.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/encoding.h"
#include "storage/seal/statement.h"

namespace assay {
namespace {

absl::Status Invalid(const std::string& what) {
  return InvalidError("SEAL_REQUEST_INVALID", "seal request: " + what);
}

std::string Hex(const DigestBytes& digest) { return HexOf(std::span<const uint8_t>(digest)); }

void AddOperand(const Json& operand, const std::string& name, std::vector<InputDigest>* out) {
  if (!operand.at("model_identity").is_null()) {
    out->push_back({name + ".model", operand.at("model_identity").get<std::string>()});
    for (const Json& file : operand.at("model").at("files")) {
      out->push_back({name + ".model/" + file.at("path").get<std::string>(),
                      file.at("sha256").get<std::string>()});
    }
  }
  out->push_back(
      {name + ".capture", operand.at("capture").at("content_sha256").get<std::string>()});
}

std::vector<InputDigest> InputsOf(const Json& report) {
  std::vector<InputDigest> out;
  const Json& suite = report.at("suite");
  out.push_back({"suite.tokens", suite.at("suite_token_sha256").get<std::string>()});
  out.push_back({"suite.manifest", suite.at("manifest_sha256").get<std::string>()});
  AddOperand(report.at("reference"), "reference", &out);
  AddOperand(report.at("candidate"), "candidate", &out);
  for (const auto& [head, value] : report.at("heads").items()) {
    for (const char* side : {"reference", "candidate"}) {
      out.push_back(
          {std::string(side) + ".head/" + head,
           value.at(std::string(side) + "_head").at("rounded_sha256").get<std::string>()});
    }
  }
  return out;
}

absl::Status CheckInputs(const std::vector<InputDigest>& inputs, const Json& report) {
  std::set<std::string> names;
  for (const InputDigest& input : inputs) {
    if (!IsSha256Hex(input.sha256)) return Invalid("input " + input.name + " has no SHA-256");
    if (!names.insert(input.name).second) return Invalid("input " + input.name + " is named twice");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::vector<InputDigest> needed, InputsOfReport(report));
  for (const InputDigest& need : needed) {
    bool found = false;
    for (const InputDigest& input : inputs) {
      found = found || (input.name == need.name && input.sha256 == need.sha256);
    }
    if (!found) return Invalid("input " + need.name + " of the report is missing or differs");
  }
  return absl::OkStatus();
}

// The log as the previous checkpoint states it must be the log as it lies here.
absl::Status CheckPrevious(const SealRequest& request, const LogReader& log, DigestBytes* root) {
  *root = EmptyLogRoot();
  if (request.previous_checkpoint.empty()) {
    if (log.size() == 0) return absl::OkStatus();
    return Invalid("the log has leaves but no previous checkpoint");
  }
  ASSAY_ASSIGN_OR_RETURN(const SignedCheckpoint previous,
                         ParseCheckpoint(request.previous_checkpoint));
  ASSAY_ASSIGN_OR_RETURN(*root, LogRoot(log, log.size()));
  if (previous.checkpoint.origin != request.log_origin || previous.checkpoint.size != log.size() ||
      previous.checkpoint.root != *root) {
    return DataLossError("LOG_INCONSISTENT",
                         "the log is not the one that the last checkpoint was signed for (" +
                             std::to_string(previous.checkpoint.size) + " leaves signed, " +
                             std::to_string(log.size()) +
                             " found); nothing is sealed. Restore "
                             "the store from a backup");
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> SignedEnvelope(const std::string& statement, const Signer& signer) {
  ASSAY_ASSIGN_OR_RETURN(const std::string signature,
                         signer.Sign(DssePae(kPayloadType, statement)));
  return Json{
      {"payload", Base64(statement)},
      {"payloadType", std::string(kPayloadType)},
      {"signatures", Json::array({{{"keyid", signer.key_id()}, {"sig", Base64(signature)}}})}};
}

absl::StatusOr<std::string> SignedNext(const SealRequest& request, const Signer& signer,
                                       const LogReader& log, const LogAppend& append,
                                       const DigestBytes& old_root) {
  const AppendedLog next(log, append);
  ASSAY_ASSIGN_OR_RETURN(const std::vector<DigestBytes> proof,
                         ConsistencyProof(next, log.size(), append.new_size));
  if (!VerifyConsistency(log.size(), append.new_size, proof, old_root, append.root)) {
    return DataLossError("LOG_INCONSISTENT",
                         "the new checkpoint would not extend the previous one; nothing is sealed");
  }
  return SignCheckpoint({request.log_origin, append.new_size, append.root}, signer);
}

}  // namespace

std::string DssePae(std::string_view payload_type, std::string_view payload) {
  return "DSSEv1 " + std::to_string(payload_type.size()) + " " + std::string(payload_type) + " " +
         std::to_string(payload.size()) + " " + std::string(payload);
}

absl::StatusOr<std::vector<InputDigest>> InputsOfReport(const Json& report) {
  try {
    return InputsOf(report);
  } catch (const nlohmann::json::exception& error) {
    return InvalidError("REPORT_INVALID",
                        std::string("the report does not name its inputs: ") + error.what());
  }
}

absl::StatusOr<SealedBundle> SealReport(const SealRequest& request, const Signer& signer,
                                        const LogReader& log) {
  if (!IsLogOrigin(request.log_origin))
    return Invalid("log_origin has other characters than names");
  if (log.size() >= kLogSizeMax) return ExhaustedError("LOG_FULL", "the log is full");
  ASSAY_ASSIGN_OR_RETURN(const Json report, ParseReport(request.report, "report.json"));
  ASSAY_ASSIGN_OR_RETURN(const Json execution, ParseJson(request.execution, "execution.json"));
  if (!execution.is_object()) return Invalid("the execution record is no JSON object");
  ASSAY_RETURN_IF_ERROR(CheckInputs(request.inputs, report));
  DigestBytes old_root;
  ASSAY_RETURN_IF_ERROR(CheckPrevious(request, log, &old_root));

  ASSAY_ASSIGN_OR_RETURN(const std::string statement,
                         StatementBytes(Sha256Hex(request.report), Sha256Hex(request.execution),
                                        request.inputs, request.log_origin));
  ASSAY_ASSIGN_OR_RETURN(const Json envelope, SignedEnvelope(statement, signer));
  ASSAY_ASSIGN_OR_RETURN(const std::string leaf, CanonicalJson(envelope));
  SealedBundle out;
  ASSAY_ASSIGN_OR_RETURN(out.append, PrepareAppend(log, leaf));
  ASSAY_ASSIGN_OR_RETURN(out.checkpoint, SignedNext(request, signer, log, out.append, old_root));
  ASSAY_ASSIGN_OR_RETURN(
      const std::vector<DigestBytes> path,
      InclusionProof(AppendedLog(log, out.append), out.append.leaf_index, out.append.new_size));

  Json inclusion = Json::array();
  for (const DigestBytes& hash : path) inclusion.push_back(Hex(hash));
  Json receipt;
  receipt["schema"] = std::string(kReceiptSchema);
  receipt["envelope"] = envelope;
  receipt["log"] = {{"leaf_index", out.append.leaf_index},
                    {"inclusion_path", std::move(inclusion)},
                    {"checkpoint", out.checkpoint}};
  receipt["key_id"] = signer.key_id();
  receipt["public_key"] = signer.public_key().pem();
  ASSAY_ASSIGN_OR_RETURN(out.receipt, CanonicalJson(receipt));
  out.receipt_id = Hex(out.append.leaf_hash);
  return out;
}

absl::StatusOr<std::string> ReceiptId(std::string_view receipt) {
  ASSAY_ASSIGN_OR_RETURN(const ReceiptParts parts, ParseReceipt(receipt, "receipt"));
  return Hex(LogLeafHash(parts.envelope));
}

}  // namespace assay
