#include "storage/seal/receipt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/base/status.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/encoding.h"
#include "storage/seal/merkle.h"
#include "storage/seal/seal_test_data.h"
#include "storage/seal/verify.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

const Json& TestReport() {
  static const Json* report = new Json(Must(BuildReport(SmolInputs("int4-g32"))));
  return *report;
}

std::string FailedGates(const Verification& v) {
  std::string out;
  for (const Gate& gate : v.gates) {
    if (gate.state == GateState::kFail)
      out += gate.name + " [" + gate.reason + "] " + gate.message + "\n";
  }
  return out;
}

TEST(Receipt, SameRequestKeyAndLogGiveTheSameBytes) {
  TestLog a, b;
  const auto signer = TestSigner();
  for (int i = 0; i < 3; ++i) {
    const SealedBundle x = a.Seal(TestReport(), *signer), y = b.Seal(TestReport(), *signer);
    EXPECT_EQ(x.receipt, y.receipt);
    EXPECT_EQ(x.checkpoint, y.checkpoint);
    EXPECT_EQ(x.append.leaf_index, static_cast<uint64_t>(i));
    EXPECT_EQ(Must(ReceiptId(x.receipt)), x.receipt_id);
  }
}

TEST(Receipt, HoldsAnInTotoStatementInADsseEnvelope) {
  TestLog log;
  const auto signer = TestSigner();
  const Json receipt = Must(ParseJson(log.Seal(TestReport(), *signer).receipt, "receipt"));
  EXPECT_EQ(receipt.at("schema"), "assay-receipt/1");
  EXPECT_EQ(receipt.at("key_id"), signer->key_id());
  const Json& envelope = receipt.at("envelope");
  EXPECT_EQ(envelope.at("payloadType"), "application/vnd.in-toto+json");
  const std::string payload = *BytesOfBase64(envelope.at("payload").get<std::string>());
  const std::string sig = *BytesOfBase64(envelope.at("signatures")[0].at("sig").get<std::string>());
  EXPECT_TRUE(signer->public_key().Verify(
      "DSSEv1 28 application/vnd.in-toto+json " + std::to_string(payload.size()) + " " + payload,
      sig));
  const Json statement = Must(ParseJson(payload, "statement"));
  EXPECT_EQ(statement.at("_type"), "https://in-toto.io/Statement/v1");
  EXPECT_EQ(statement.at("predicateType"), "urn:assay:receipt:v1");
  EXPECT_EQ(statement.at("subject")[0].at("name"), "report.json");
  EXPECT_EQ(statement.at("subject")[0].at("digest").at("sha256"),
            Sha256Hex(Must(ReportBytes(TestReport()))));
  EXPECT_EQ(statement.at("subject")[1].at("digest").at("sha256"), Sha256Hex(kTestExecution));
  EXPECT_THAT(payload, HasSubstr("input/reference.model/reference.gguf"));
  EXPECT_THAT(payload, HasSubstr("input/candidate.head/own"));
}

TEST(Receipt, RequestsThatDoNotFitAreRefused) {
  TestLog log;
  const auto signer = TestSigner();
  const SealRequest good = TestRequest(TestReport(), "");
  const auto reason = [&](const SealRequest& r) {
    return ReasonOf(SealReport(r, *signer, log.log).status());
  };
  EXPECT_EQ(reason(good), "");
  SealRequest request = good;
  request.report += "\n";
  EXPECT_EQ(reason(request), "REPORT_NOT_CANONICAL");
  request = good;
  request.execution = "not JSON";
  EXPECT_EQ(reason(request), "JSON_INVALID");
  request = good;
  request.inputs.pop_back();
  EXPECT_EQ(reason(request), "SEAL_REQUEST_INVALID");
  request = good;
  request.inputs[2].sha256 = Sha256Hex("other");
  EXPECT_EQ(reason(request), "SEAL_REQUEST_INVALID");
  request = good;
  request.log_origin = "two lines\n";
  EXPECT_EQ(reason(request), "SEAL_REQUEST_INVALID");
}

TEST(Receipt, ALogThatIsNotTheSignedOneStopsSealing) {
  TestLog log;
  const auto signer = TestSigner();
  log.Seal(TestReport(), *signer);
  const std::string before = log.checkpoint;
  log.Seal(TestReport(), *signer);
  const auto reason = [&](const std::string& previous) {
    return ReasonOf(SealReport(TestRequest(TestReport(), previous), *signer, log.log).status());
  };
  EXPECT_EQ(reason(log.checkpoint), "");
  EXPECT_EQ(reason(before), "LOG_INCONSISTENT");  // leaves that nobody signed
  EXPECT_EQ(reason(""), "SEAL_REQUEST_INVALID");
  const std::string forked = Must(SignCheckpoint({"assay/test", 2, Sha256Of("fork")}, *signer));
  EXPECT_EQ(reason(forked), "LOG_INCONSISTENT");
}

TEST(VerifyReceipt, TrustedUnknownAndWrongKeys) {
  TestLog log;
  const auto signer = TestSigner();
  log.Seal(TestReport(), *signer);
  const std::string receipt = log.Seal(TestReport(), *signer).receipt;
  const std::string report = Must(ReportBytes(TestReport()));
  const std::vector<PublicKey> mine = {signer->public_key()};
  const std::vector<PublicKey> other = {TestSigner(8)->public_key()};
  const Verification good = VerifyReceipt(receipt, report, kTestExecution, mine);
  EXPECT_EQ(good.verdict, Verdict::kValid) << good.ToText();
  EXPECT_EQ(good.key_ids, std::vector<std::string>{signer->key_id()});
  const Verification unknown = VerifyReceipt(receipt, report, kTestExecution, {});
  EXPECT_EQ(unknown.verdict, Verdict::kValidUnknownKey) << unknown.ToText();
  EXPECT_THAT(unknown.ToText(), HasSubstr("UNKNOWN KEY " + signer->key_id()));
  const Verification wrong = VerifyReceipt(receipt, report, kTestExecution, other);
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
  EXPECT_THAT(FailedGates(wrong), HasSubstr("KEY_MISMATCH"));
  EXPECT_EQ(VerifyReceipt(receipt, std::nullopt, std::nullopt, mine).verdict, Verdict::kValid);
}

TEST(VerifyReceipt, EveryFlippedBitOfTheReceiptIsNoticed) {
  TestLog log;
  const auto signer = TestSigner();
  log.Seal(TestReport(), *signer);
  log.Seal(TestReport(), *signer);
  const std::string receipt = log.Seal(TestReport(), *signer).receipt;
  for (size_t i = 0; i < receipt.size(); ++i) {
    std::string bent = receipt;
    bent[i] = static_cast<char>(bent[i] ^ (1 << (i % 8)));
    const Verification v = VerifyReceipt(bent, std::nullopt, std::nullopt, {});
    ASSERT_EQ(v.verdict, Verdict::kFailed) << "byte " << i;
    ASSERT_THAT(FailedGates(v), HasSubstr("receipt.json")) << "byte " << i;
  }
}

// A log that took in an envelope signed by somebody else: its own checkpoint and path are right, so
// nothing but the envelope's signature is wrong.
TEST(VerifyReceipt, AForgedSignatureUnderAGoodCheckpointIsNoticed) {
  TestLog log;
  const auto signer = TestSigner();
  Json receipt = Must(ParseJson(log.Seal(TestReport(), *signer).receipt, "receipt"));
  const auto logged_with = [&](const Signer& hand) {
    Json& envelope = receipt["envelope"];
    const std::string payload = *BytesOfBase64(envelope["payload"].get<std::string>());
    envelope["signatures"][0]["sig"] =
        Base64(Must(hand.Sign(DssePae("application/vnd.in-toto+json", payload))));
    const DigestBytes root = LogLeafHash(Must(CanonicalJson(envelope)));  // of a log of one leaf
    receipt["log"] = {{"leaf_index", 0},
                      {"inclusion_path", Json::array()},
                      {"checkpoint", Must(SignCheckpoint({"assay/test", 1, root}, *signer))}};
    return VerifyReceipt(Must(CanonicalJson(receipt)), std::nullopt, std::nullopt, {});
  };
  EXPECT_EQ(FailedGates(logged_with(*signer)), "");
  const Verification forged = logged_with(*TestSigner(9));
  EXPECT_EQ(forged.verdict, Verdict::kFailed);
  EXPECT_THAT(FailedGates(forged), ::testing::StartsWith("signature [SIGNATURE_INVALID]"));
}

TEST(VerifyReceipt, AnotherReportOrExecutionRecordIsNoticed) {
  TestLog log;
  const auto signer = TestSigner();
  const std::string receipt = log.Seal(TestReport(), *signer).receipt;
  const std::string report = Must(ReportBytes(TestReport()));
  const std::string other = Must(ReportBytes(Must(BuildReport(SmolInputs("q4_0")))));
  EXPECT_THAT(FailedGates(VerifyReceipt(receipt, other, kTestExecution, {})),
              HasSubstr("report-digest [DIGEST_MISMATCH] report.json"));
  EXPECT_THAT(FailedGates(VerifyReceipt(receipt, report, "{}", {})),
              HasSubstr("execution-digest [DIGEST_MISMATCH] execution.json"));
}

}  // namespace
}  // namespace assay
