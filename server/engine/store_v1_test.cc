// The store that the first version left (tests/data/store-v1.tar.gz) opens, is whole, and its
// receipt verifies.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "server/engine/engine.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/seal/signer.h"
#include "storage/seal/verify.h"

namespace assay {
namespace {

// A fresh copy of the store, for the caller to remove.
void Unpack(std::string* dir) {
  const char* source = std::getenv("ASSAY_SOURCE_DIR");
  const std::string archive =
      std::string(source == nullptr ? "." : source) + "/tests/data/store-v1.tar.gz";
  *dir = "/tmp/assay_storeXXXXXX";
  ASSERT_NE(::mkdtemp(dir->data()), nullptr);
  ASSERT_EQ(std::system(("tar -xzf " + archive + " -C " + *dir).c_str()), 0);
}

EngineOptions OptionsOf(const std::string& dir) {
  EngineOptions options;
  options.data_dir = dir;
  options.min_free_bytes = 0;
  options.ballast_bytes = 0;
  return options;
}

TEST(StoreV1, OpensAndItsReceiptVerifies) {
  std::string dir;
  ASSERT_NO_FATAL_FAILURE(Unpack(&dir));
  const EngineOptions options = OptionsOf(dir);
  const auto engine = Engine::Open(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  (*engine)->Read([&](const State& s) {
    EXPECT_EQ(s.runs.size(), 2u);
    EXPECT_EQ(s.reports.size(), 1u);
    EXPECT_EQ(s.meta.log_size, 1u);
    for (const auto& [id, run] : s.runs) EXPECT_EQ(run.state, RunState::kSucceeded);
    return 0;
  });
  const ReportRow report =
      (*engine)->Read([](const State& s) { return s.reports.begin()->second; });
  const ReceiptRow receipt =
      (*engine)->Read([&](const State& s) { return s.receipts.at(report.receipt); });
  BlobStore& blobs = (*engine)->blobs();
  for (const ArrayRow& array : report.arrays) EXPECT_TRUE(blobs.Verify(array.sha256).ok());
  const std::vector<PublicKey> keys = {(*engine)->signer().public_key()};
  const Verification verification =
      VerifyReceipt(GetBlob(blobs, receipt.receipt_sha256, 1 << 24).value(),
                    GetBlob(blobs, report.id, 1 << 28).value(),
                    GetBlob(blobs, report.execution_sha256, 1 << 28).value(), keys);
  EXPECT_EQ(verification.verdict, Verdict::kValid) << verification.ToText();
  EXPECT_TRUE(RemoveTree(dir).ok());
}

// A flipped byte of a stored row, a lost log: the coordinator does not start.
TEST(StoreV1, DamageIsRefused) {
  std::string dir;
  ASSERT_NO_FATAL_FAILURE(Unpack(&dir));
  ASSERT_EQ(std::system(("rm " + dir + "/db/*.log").c_str()), 0);
  const EngineOptions options = OptionsOf(dir);
  EXPECT_EQ(ReasonOf(Engine::Open(options).status()), "STORE_DAMAGED");
  EXPECT_TRUE(RemoveTree(dir).ok());
}

// A new key beside old receipts would refute them: none is made, and another one is not used.
TEST(StoreV1, ALostKeyIsNotReplacedSilently) {
  std::string dir;
  ASSERT_NO_FATAL_FAILURE(Unpack(&dir));
  const std::string key = dir + "/signing.key";
  ASSERT_EQ(std::rename(key.c_str(), (dir + "/kept").c_str()), 0);
  const EngineOptions options = OptionsOf(dir);
  const auto refused = [&] {
    const absl::Status status = Engine::Open(options).status();
    return ReasonOf(status) == "STORE_DAMAGED" && MessageOf(status).find(key) != std::string::npos;
  };
  EXPECT_TRUE(refused());
  EXPECT_FALSE(FileExists(key));
  ASSERT_TRUE(Signer::OpenOrCreate(key).ok());
  EXPECT_TRUE(refused());
  ASSERT_EQ(std::rename((dir + "/kept").c_str(), key.c_str()), 0);
  EXPECT_TRUE(Engine::Open(options).ok());
  EXPECT_TRUE(RemoveTree(dir).ok());
}

}  // namespace
}  // namespace assay
