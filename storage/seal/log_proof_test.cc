#include "storage/seal/log_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/seal_test_data.h"
#include "storage/seal/verify_log.h"

namespace assay {
namespace {

std::string FailedOf(const Verification& v) {
  std::string out;
  for (const Gate& gate : v.gates) {
    if (gate.state == GateState::kFail) out += gate.name + ":" + gate.reason + " ";
  }
  return out;
}

// A log of seven receipts, of which the third and the checkpoint of the second are kept, whose key
// changes after the fourth.
class LogProofTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = "/tmp/assay_proofXXXXXX";
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    first_ = TestSigner(1);
    second_ = TestSigner(2);
    const Json report = Must(BuildReport(SmolInputs("int4-g32")));
    for (int i = 0; i < 7; ++i) {
      const SealedBundle bundle = log_.Seal(report, i < 4 ? *first_ : *second_);
      if (i == 1) older_ = bundle.checkpoint;
      if (i == 2) receipt_ = bundle.receipt;
    }
    keys_ = Must(Must(KeyList::Begin(*first_, 1)).Rotate(*first_, *second_, 4, 2)).bytes();
    ASSERT_TRUE(WriteFile(dir_ + "/receipt.json", receipt_).ok());
    ASSERT_TRUE(WriteFile(dir_ + "/first.pub", first_->public_key().pem()).ok());
    ASSERT_TRUE(WriteFile(dir_ + "/keys.json", keys_).ok());
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }

  Json Proof(std::vector<uint64_t> sizes = {2, 3}, uint64_t leaf = 2) {
    LogProof proof = Must(MakeLogProof(log_.log, log_.checkpoint, leaf, sizes));
    proof.keys = keys_;
    return Must(LogProofJson(proof));
  }
  Verification Verify(const Json& proof, const std::string& key = "first.pub") {
    return VerifyWithProof(dir_ + "/receipt.json", key.empty() ? "" : dir_ + "/" + key,
                           Must(CanonicalJson(proof)), "proof.json",
                           {Must(ReadCheckpoint(older_, "kept.note"))});
  }

  std::string dir_, older_, receipt_, keys_;
  std::unique_ptr<Signer> first_, second_;
  TestLog log_;
};

TEST_F(LogProofTest, AReceiptOfARetiredKeyIsInTheLogOfTheNewOne) {
  EXPECT_EQ(FailedOf(Verify(Proof())), "");
  EXPECT_EQ(Verify(Proof()).verdict, Verdict::kValid);
  EXPECT_EQ(Verify(Proof(), "keys.json").verdict, Verdict::kValid);
  EXPECT_EQ(Verify(Proof(), "").verdict, Verdict::kValidUnknownKey);
  // Without the list nobody says that the second key follows the first.
  Json bare = Proof();
  bare["keys"] = nullptr;
  EXPECT_EQ(FailedOf(Verify(bare)), "proof-checkpoint:CHECKPOINT_SIGNER ");
}

TEST_F(LogProofTest, EveryHashOfAProofMatters) {
  const Json good = Proof();
  const auto change = [](Json* hash) {
    std::string text = hash->get<std::string>();
    text[5] = text[5] == '0' ? '1' : '0';
    *hash = text;
  };
  ASSERT_EQ(good["inclusion_path"].size(), 3u);
  for (size_t i = 0; i < good["inclusion_path"].size(); ++i) {
    Json bad = good;
    change(&bad["inclusion_path"][i]);
    EXPECT_EQ(FailedOf(Verify(bad)), "proof-inclusion:INCLUSION_INVALID ") << i;
  }
  for (size_t p = 0; p < 2; ++p) {
    for (size_t i = 0; i < good["consistency"][p]["path"].size(); ++i) {
      Json bad = good;
      change(&bad["consistency"][p]["path"][i]);
      EXPECT_EQ(FailedOf(Verify(bad)), "consistency:CONSISTENCY_INVALID ") << p << i;
    }
  }
  EXPECT_EQ(FailedOf(Verify(Proof({3}))), "consistency:CONSISTENCY_MISSING ");
  EXPECT_EQ(FailedOf(Verify(Proof({2, 3}, 3))), "proof-inclusion:INCLUSION_INVALID ");
}

// Otherwise one reader would check the first path of a size and another the last.
TEST_F(LogProofTest, EachSizeStandsOnce) {
  EXPECT_EQ(Proof({2, 3, 2}), Proof({2, 3}));
  Json twice = Proof();
  twice["consistency"].push_back(twice["consistency"][0]);
  EXPECT_EQ(ReasonOf(ParseLogProof(Must(CanonicalJson(twice)), "p").status()), "PROOF_INVALID");
}

// A service that shows another history: a log with another first leaf, signed with the right key.
TEST_F(LogProofTest, ARewrittenLogIsNoticed) {
  TestLog other;
  other.Seal(Must(BuildReport(SmolInputs("int8-channel"))), *first_);
  const Json report = Must(BuildReport(SmolInputs("int4-g32")));
  for (int i = 1; i < 7; ++i) other.Seal(report, i < 4 ? *first_ : *second_);
  log_ = other;
  // The receipt is in both logs; it is the older checkpoints that do not fit.
  EXPECT_EQ(FailedOf(Verify(Proof())),
            "consistency:CONSISTENCY_INVALID consistency:CONSISTENCY_INVALID ");
}

// A service that was restored from a backup of two leaves, and seals on from there: what was sealed
// in between is not in its log, and whoever holds a receipt of that time sees it.
TEST_F(LogProofTest, ARestoredBackupThatSealsOnIsNoticed) {
  TestLog restored;
  const Json before = Must(BuildReport(SmolInputs("int4-g32")));
  for (int i = 0; i < 2; ++i) restored.Seal(before, *first_);
  log_ = restored;
  const std::vector<uint64_t> lost = {3};
  EXPECT_EQ(ReasonOf(MakeLogProof(log_.log, log_.checkpoint, std::nullopt, lost).status()),
            "LOG_RANGE");
  const Json after = Must(BuildReport(SmolInputs("int8-channel")));
  for (int i = 2; i < 7; ++i) restored.Seal(after, i < 4 ? *first_ : *second_);
  log_ = restored;
  // The checkpoint of two leaves fits, that of the lost third does not.
  EXPECT_EQ(FailedOf(Verify(Proof())),
            "proof-inclusion:INCLUSION_INVALID consistency:CONSISTENCY_INVALID ");
}

// A retired key signs on after its time: its own list refuses it.
TEST_F(LogProofTest, ALateSignatureOfARetiredKeyIsRefused) {
  TestLog late;
  const Json report = Must(BuildReport(SmolInputs("int4-g32")));
  for (int i = 0; i < 6; ++i) receipt_ = late.Seal(report, *first_).receipt;
  ASSERT_TRUE(WriteFile(dir_ + "/receipt.json", receipt_).ok());
  EXPECT_THAT(FailedOf(VerifyDirectory(dir_ + "/receipt.json", dir_ + "/keys.json")),
              ::testing::HasSubstr("key:KEY_RETIRED"));
  // The key alone says nothing of its time.
  EXPECT_EQ(VerifyDirectory(dir_ + "/receipt.json", dir_ + "/first.pub").verdict, Verdict::kValid);
}

TEST_F(LogProofTest, SizesBeyondTheLogAndOtherDocumentsAreRefused) {
  const std::vector<uint64_t> beyond = {8};
  EXPECT_EQ(ReasonOf(MakeLogProof(log_.log, log_.checkpoint, std::nullopt, beyond).status()),
            "LOG_RANGE");
  EXPECT_EQ(ReasonOf(MakeLogProof(log_.log, log_.checkpoint, 7, {}).status()), "LOG_RANGE");
  for (const char* bad : {"", "[]", "{}", "{\"schema\":\"assay-log-proof/1\"}"}) {
    EXPECT_EQ(ReasonOf(ParseLogProof(bad, "p").status()), "PROOF_INVALID") << bad;
  }
  Json many = Proof();
  for (int i = 0; i < 20; ++i) many["consistency"].push_back(many["consistency"][0]);
  EXPECT_EQ(ReasonOf(ParseLogProof(Must(CanonicalJson(many)), "p").status()), "PROOF_INVALID");
}

}  // namespace
}  // namespace assay
