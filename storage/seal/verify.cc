#include "storage/seal/verify.h"

#include <algorithm>

#include "storage/base/digest.h"
#include "storage/seal/gates.h"

namespace assay {

std::string_view GateStateName(GateState state) {
  switch (state) {
    case GateState::kPass:
      return "pass";
    case GateState::kFail:
      return "fail";
    case GateState::kNotApplicable:
      break;
  }
  return "not-applicable";
}

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kValid:
      return "valid";
    case Verdict::kValidUnknownKey:
      return "valid-unknown-key";
    case Verdict::kFailed:
      break;
  }
  return "failed";
}

Json Verification::ToJson() const {
  Json json;
  json["verdict"] = std::string(VerdictName(verdict));
  json["key_ids"] = key_ids;
  json["receipt_ids"] = receipt_ids;
  json["gates"] = Json::array();
  for (const Gate& gate : gates) {
    json["gates"].push_back({{"subject", gate.subject},
                             {"name", gate.name},
                             {"state", std::string(GateStateName(gate.state))},
                             {"reason", gate.reason.empty() ? Json(nullptr) : Json(gate.reason)},
                             {"message", gate.message}});
  }
  return json;
}

namespace {

// Nothing is wrong with the result except that it carries no receipt.
bool OnlyUnsealed(const Verification& verification) {
  bool missing = false;
  for (const Gate& gate : verification.gates) {
    if (gate.state != GateState::kFail) continue;
    if (gate.reason != "RECEIPT_MISSING") return false;
    missing = true;
  }
  return missing;
}

std::string Text(const Verification& verification, bool brief) {
  std::string out;
  for (const Gate& gate : verification.gates) {
    if (brief && gate.state != GateState::kFail) continue;
    const std::string mark = gate.state == GateState::kPass   ? "pass  "
                             : gate.state == GateState::kFail ? "FAIL  "
                                                              : "n/a   ";
    out += mark + gate.subject + ": " + gate.name + ": " + gate.message;
    if (!gate.reason.empty()) out += " [" + gate.reason + "]";
    out += "\n";
  }
  switch (verification.verdict) {
    case Verdict::kValid:
      out += "VALID: signed by a trusted key\n";
      break;
    case Verdict::kValidUnknownKey:
      for (const std::string& id : verification.key_ids) {
        out += "VALID FOR UNKNOWN KEY " + id +
               ": everything fits together, but nothing here says whose key this is; pass the "
               "service's public key with --key\n";
      }
      break;
    case Verdict::kFailed:
      out += OnlyUnsealed(verification)
                 ? "UNSEALED: the numbers agree with one another, but nobody has signed them\n"
                 : "FAILED: do not rely on this result\n";
      break;
  }
  return out;
}

}  // namespace

std::string Verification::ToText() const { return Text(*this, /*brief=*/false); }
std::string Verification::ToBriefText() const { return Text(*this, /*brief=*/true); }

absl::Status CheckTrustFile(const std::string& path) { return Trust::FromFile(path).status(); }

Verification VerifyReceipt(std::string_view receipt, std::optional<std::string_view> report,
                           std::optional<std::string_view> execution,
                           std::span<const PublicKey> trusted_keys, const ReceiptNames& names) {
  GateList gates;
  const Trust trust{{trusted_keys.begin(), trusted_keys.end()}, std::nullopt};
  CheckReceiptGates(receipt, report, execution, trust, names, names.receipt, &gates);
  return gates.Finish(!trusted_keys.empty());
}

}  // namespace assay
