// Heads and their receipts: digests against those that the publishers stated.

#include "storage/published/head_receipt.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

std::string Data(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

std::string Failed(const PublishedExamination& examination) {
  std::string out;
  for (const PublishedCheck& check : examination.checks) {
    if (check.outcome == PublishedOutcome::kFail) out += (out.empty() ? "" : ", ") + check.gate;
  }
  return out;
}

const std::string kDataset = Data("metric/fidelity-dataset/datasets/root/head/");

TEST(HeadReceipt, DigestsOfAPublishedHead) {
  const auto got = DigestHead(kDataset + "weight.safetensors", "");
  ASSERT_TRUE(got.ok()) << got.status();
  const auto head = ReadJsonFile(kDataset + "head.json");
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(got->tensor, "lm_head.weight");
  EXPECT_EQ(got->file_sha256, (*head)["file_sha256"]);
  EXPECT_EQ(got->tensor_content_sha256, (*head)["tensor_content_sha256"]);
  EXPECT_EQ(got->payload_sha256, (*head)["tensor_content_sha256"]);  // one tensor
  EXPECT_EQ(Json({got->vocab, got->hidden}), (*head)["shape"]);
}

TEST(HeadReceipt, PublishedReceiptsAreChecked) {
  const std::string receipt = *ReadFile(kDataset + "head.json", 1 << 20);
  EXPECT_EQ(Failed(ExamineHead(kDataset + "weight.safetensors", "", receipt, nullptr)), "");
  // Of another head.
  const std::string other =
      Data("metric/fidelity-dataset/datasets/quant-head/head/weight.safetensors");
  EXPECT_EQ(Failed(ExamineHead(other, "", receipt, nullptr)), "receipt: content, receipt: file");
  std::string bent = receipt;
  bent.replace(bent.find("\"BF16\""), 6, "\"F16\" ");
  EXPECT_EQ(Failed(ExamineHead(kDataset + "weight.safetensors", "", bent, nullptr)),
            "receipt: seal, receipt: dtype");
  // A receipt that states the digest of the file and nothing else.
  const auto digests = DigestHead(kDataset + "weight.safetensors", "");
  const std::string early = R"({"head": {"sha256": ")" + digests->file_sha256 + R"("}})";
  EXPECT_EQ(Failed(ExamineHead(kDataset + "weight.safetensors", "", early, nullptr)), "");
  EXPECT_EQ(Failed(ExamineHead(other, "", early, nullptr)), "receipt: file");
  for (const char* damaged : {"", "{"})
    EXPECT_EQ(Failed(ExamineHead(other, "", damaged, nullptr)), "receipt");
}

TEST(HeadReceipt, CheckpointHeadAgainstServedHead) {
  const std::string path = Data("metric/qf/head/weight.safetensors");
  const auto same = DigestHead(path, "");
  const auto other = DigestHead(Data("metric/qf/head/candidate.safetensors"), "");
  ASSERT_TRUE(same.ok() && other.ok());
  EXPECT_EQ(Failed(ExamineHead(path, "", std::nullopt, &*same)), "");
  EXPECT_EQ(Failed(ExamineHead(path, "", std::nullopt, &*other)), "same head");
}

TEST(HeadReceipt, ACutOutHeadHasThePublishedFormAndItsReceiptFits) {
  std::string pattern = testing::TempDir() + "/assay-head-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::string from = Data("metric/qf/head/weight.safetensors"),
                    to = pattern + "/h.safetensors";
  ASSERT_TRUE(WriteHeadFile(from, "lm_head.weight", to, "weight").ok());
  const auto was = DigestHead(from, ""), is = DigestHead(to, "");
  ASSERT_TRUE(was.ok() && is.ok());
  EXPECT_EQ(is->tensor, "weight");
  EXPECT_EQ(is->tensor_content_sha256, was->tensor_content_sha256);
  const Json receipt = HeadReceiptJson("h.safetensors", *is,
                                       {"model.safetensors", "lm_head.weight", "", "BF16", false});
  EXPECT_EQ(Failed(ExamineHead(to, "", PythonPrettyJson(receipt), nullptr)), "");
  std::string bytes = *ReadFile(to, 1 << 30);
  bytes.back() ^= 1;
  ASSERT_TRUE(WriteFile(to, bytes).ok());
  EXPECT_EQ(Failed(ExamineHead(to, "", PythonPrettyJson(receipt), nullptr)),
            "receipt: file, receipt: payload, receipt: content, receipt: bf16");
  std::filesystem::remove_all(pattern);
}

}  // namespace
}  // namespace assay
