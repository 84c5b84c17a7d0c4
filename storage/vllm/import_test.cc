#include "storage/vllm/import.h"

#include <gmock/gmock.h>

#include "storage/base/json.h"
#include "storage/base/status.h"
#include "storage/vllm/vllm_test_util.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ImportTest : public VllmTest {
 protected:
  VllmImportRequest Request() const {
    VllmImportRequest request;
    request.folder = dir_ + "/extracted";
    request.final_norm = LlamaFolder();
    request.suite_dir = DataPath("vllm/suite");  // contexts 0 and 1: see make.py there
    request.out = dir_ + "/capture";
    request.store = HiddenStore::kKeep;
    return request;
  }

  static absl::Status Import(const VllmImportRequest& request) {
    return ImportVllm(request, nullptr, {}).status();
  }

  void WriteAll() {
    WriteLast("cmpl-1", "seq1");
    WriteLast("cmpl-2", "seq2");
  }

  void Refused(const VllmImportRequest& request, const std::string& reason,
               const std::string& text) {
    const absl::Status status = Import(request);
    EXPECT_EQ(ReasonOf(status), reason) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(text));
  }
};

// The Python package's importer has written the same bytes and described them in the same way.
TEST_F(ImportTest, GivesTheCaptureOfThePythonPackage) {
  for (const HiddenStore store : {HiddenStore::kBf16, HiddenStore::kKeep}) {
    VllmImportRequest request = Request();
    request.folder = DataPath("vllm/extracted");
    request.layer_ids = {3, 2};
    request.engine_version = "0.20.2";
    request.stack = {{"gpu", "H200"}};
    request.store = store;
    request.out = dir_ + "/" + std::string(HiddenStoreName(store));
    const auto made = ImportVllm(request, nullptr, {});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->imported, 2u);
    const Json want =
        ReadJsonFile(DataPath("vllm/manifest-" + std::string(HiddenStoreName(store)) + ".json"))
            .value();
    for (const char* field :
         {"schema", "model", "candidate_identity", "cut_point", "filter", "expected_indices",
          "capture_contract", "capture_contract_sha256", "captures", "complete"}) {
      EXPECT_EQ(made->manifest.at(field), want.at(field)) << field;
    }
    EXPECT_EQ(made->manifest.at("engine_identity").at("kernels"),
              want.at("engine_identity").at("kernels"));
    EXPECT_EQ(made->manifest.at("engine_identity").at("gpu"), "H200");
    const Suite suite = ReadSuite(request.suite_dir).value();
    EXPECT_TRUE(OpenCapture(request.out, suite, "all", /*verify_digests=*/true).ok());
  }
}

TEST_F(ImportTest, TheLayerIsNeverGuessed) {
  std::vector<float> states;
  const std::vector<float> one = Residual("seq1", 1), three = Residual("seq1", 3);
  for (size_t t = 0; t < kTestLength; ++t) {
    for (const auto* layer : {&one, &three}) {
      const auto row = layer->begin() + static_cast<ptrdiff_t>(t * kTestWidth);
      states.insert(states.end(), row, row + kTestWidth);
    }
  }
  Write("a", states, {kTestLength, 2, kTestWidth}, Ids("seq1"));
  VllmImportRequest request = Request();
  Refused(request, "LAYER_NEEDED", "--layer-ids");
  request.layer_ids = {1, 2, 3};
  Refused(request, "SHAPE_MISMATCH", "--layer-ids has 3");
  request.layer_ids = {0, 1};
  Refused(request, "LAYER_NEEDED", "after layer 3");
}

TEST_F(ImportTest, TheCutDecidesAndIsNeverGuessed) {
  WriteAll();
  VllmImportRequest request = Request();
  request.final_norm = "";
  Refused(request, "FINAL_NORM_NEEDED", "--final-norm MODEL");
  request = Request();
  request.before_norm = false;
  Refused(request, "FINAL_NORM_NEEDED", "norm the states twice");
  EXPECT_FALSE(IsDirectory(request.out));
}

TEST_F(ImportTest, StatesAfterTheNormAreStoredAsTheyAre) {
  const std::vector<float> hidden = ValuesOf<float>(Golden("seq1.hidden"));
  const std::vector<float> rows(hidden.begin(), hidden.begin() + kTestLength * kTestWidth);
  Write("a", rows, {kTestLength, 1, kTestWidth}, Ids("seq1"));
  VllmImportRequest request = Request();
  request.before_norm = false;
  request.final_norm = "";
  request.filter = "sentinel";  // context 0 alone
  ASSERT_TRUE(Import(request).ok()) << Import(request);
  const auto file = SafetensorsFile::Open(request.out + "/hidden_0000.safetensors").value();
  const std::vector<float> stored = ValuesOf<float>(file->Find("hidden_states").value());
  EXPECT_EQ(stored, std::vector<float>(rows.begin(), rows.end() - kTestWidth));
}

TEST_F(ImportTest, OtherRequestsAreLeftOutAndAnAddedBosIsNamed) {
  WriteAll();
  Write("warm-up", std::vector<float>(2 * kTestWidth, 1.0f), {2, 1, kTestWidth}, {1, 2});
  const auto made = ImportVllm(Request(), nullptr, {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->unused, ElementsAre(dir_ + "/extracted/warm-up.safetensors"));
  std::vector<float> states(kTestWidth, 1.0f);
  const std::vector<float> rows = Residual("seq1", kTestLayers);
  states.insert(states.end(), rows.begin(), rows.end());
  std::vector<int64_t> ids = Ids("seq1");
  ids.insert(ids.begin(), 0);
  Write("cmpl-1", states, {kTestLength + 1, 1, kTestWidth}, ids);
  VllmImportRequest request = Request();
  request.out += "-2";
  Refused(request, "TOKENS_SHIFTED", "prompt_token_ids");
}

TEST_F(ImportTest, WhatIsMissingIsNamedAndTheImportGoesOn) {
  WriteLast("cmpl-1", "seq1");
  Refused(Request(), "CAPTURE_INCOMPLETE", "1 of 2 contexts are missing (1)");
  WriteLast("cmpl-2", "seq2");
  // What an import that was killed in the middle of a file leaves: its process is no more.
  const std::string left = Request().out + "/hidden_0001.safetensors.tmp.2147483646.0";
  ASSERT_TRUE(WriteFile(left, "half").ok());
  const auto made = ImportVllm(Request(), nullptr, {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(FileExists(left));
  EXPECT_EQ(made->kept, 1u);
  EXPECT_EQ(made->imported, 1u);
  VllmImportRequest other = Request();
  other.store = HiddenStore::kBf16;
  Refused(other, "CAPTURE_OUT_OCCUPIED", "of another capture");
}

TEST_F(ImportTest, RowsThatAreZeroOrNotFiniteAreRefused) {
  std::vector<float> states = Residual("seq1", kTestLayers);
  std::fill(states.begin() + 16 * kTestWidth, states.end(), 0.0f);
  Write("a", states, {kTestLength, 1, kTestWidth}, Ids("seq1"));
  Refused(Request(), "HIDDEN_NOT_WRITTEN", "position 16 (16 in all)");
  states = Residual("seq1", kTestLayers);
  states[5 * kTestWidth + 7] = std::numeric_limits<float>::quiet_NaN();
  Write("a", states, {kTestLength, 1, kTestWidth}, Ids("seq1"));
  Refused(Request(), "NON_FINITE_HIDDEN", "context 0, position 5");
}

TEST_F(ImportTest, TwoFilesOfTheSameTokensMustAgree) {
  WriteAll();
  std::vector<float> states = Residual("seq1", kTestLayers);
  for (float& value : states) value = value * 1.01f + 0.01f;
  Write("other", states, {kTestLength, 1, kTestWidth}, Ids("seq1"));
  Refused(Request(), "CONTEXT_DIFFERS", "context 0");
}

}  // namespace
}  // namespace assay
