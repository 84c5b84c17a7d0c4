// Receipts, and each part of one by itself: signatures cannot be guessed, so what lies behind them
// is given the input directly.

#include "storage/seal/receipt.h"

#include "storage/seal/checkpoint.h"
#include "storage/seal/encoding.h"
#include "storage/seal/signer.h"
#include "storage/seal/statement.h"
#include "storage/seal/verify.h"
#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(receipt) {
  const auto parts = ParseReceipt(input, "input");
  const auto id = ReceiptId(input);
  fuzz::Require(parts.ok() == id.ok(), "a receipt that can be read has an id");
  const Verification verification = VerifyReceipt(input, std::nullopt, std::nullopt, {});
  fuzz::Require(verification.verdict != Verdict::kValid, "without a trusted key nothing is valid");
  if (!parts.ok())
    fuzz::Require(verification.verdict == Verdict::kFailed, "a damaged receipt fails");
  (void)verification.ToText();
  (void)verification.ToJson();
  if (parts.ok()) (void)ParseStatement(parts->payload);

  const auto statement = ParseStatement(input);
  if (statement.ok()) fuzz::Require(statement->subjects.size() >= 2, "two subjects at least");
  const auto note = ParseCheckpoint(input);
  if (note.ok())
    fuzz::Require(CheckpointBody(note->checkpoint) == note->body, "a checkpoint has one spelling");
  const auto key = PublicKey::FromPem(input, "input");
  if (key.ok()) fuzz::Require(key->pem() == input, "a key has one spelling");
  const auto bytes = BytesOfBase64(input);
  if (bytes) fuzz::Require(Base64(*bytes) == input, "Base64 has one spelling");
  (void)VerifyReceipt(input, input, input, {});
}

}  // namespace assay
