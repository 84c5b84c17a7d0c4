#include "storage/format/capture.h"

#include <gtest/gtest.h>

#include <functional>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/format_test_util.h"

namespace assay {
namespace {

constexpr const char* kCapture = "smollm2/captures/oracle64/reference";

class CaptureTest : public TempDirTest {
 protected:
  void SetUp() override {
    TempDirTest::SetUp();
    auto suite = ReadSuite(DataPath("smollm2/suite"));
    ASSERT_TRUE(suite.ok()) << suite.status();
    suite_ = *std::move(suite);
    CopyTree(DataPath(kCapture), "c");
    manifest_ = *ReadJsonFile(JoinPath(dir_, "c/capture-manifest.json"));
  }
  void PutManifest() { Put("c/capture-manifest.json", PythonPrettyJson(manifest_)); }
  std::string ReasonOfOpen(std::string_view filter = "sentinel") {
    const auto capture = OpenCapture(JoinPath(dir_, "c"), suite_, filter, true);
    message_ = capture.ok() ? "" : MessageOf(capture.status());
    return capture.ok() ? "OK" : ReasonOf(capture.status());
  }

  Suite suite_;
  Json manifest_;
  std::string message_;
};

TEST_F(CaptureTest, OpensEveryCaptureOfTheFixture) {
  for (const char* forward : {"oracle64", "hf32"}) {
    for (const char* model : {"reference", "int8-channel", "int4-g32", "q4_0"}) {
      const std::string dir = DataPath(std::string("smollm2/captures/") + forward + "/" + model);
      const auto capture = OpenCapture(dir, suite_, "sentinel", true);
      ASSERT_TRUE(capture.ok()) << capture.status();
      EXPECT_FALSE(capture->manifest.legacy);
      EXPECT_EQ(capture->manifest.filter, "sentinel");
      EXPECT_EQ(capture->manifest.cut_point, "after_final_rmsnorm_before_lm_head");
      ASSERT_EQ(capture->files.size(), 2u);
      EXPECT_EQ(BaseName(capture->files.at(7)), "hidden_0007.safetensors");
    }
  }
}

TEST_F(CaptureTest, UnrecordedContextIsNamed) {
  EXPECT_EQ(ReasonOfOpen("all"), "CONTEXT_MISSING");
  EXPECT_NE(message_.find("context 0 "), std::string::npos) << message_;
}

// The writer gives back the fixture's bytes, key for key, but for its own extra keys.
TEST_F(CaptureTest, ManifestHasThePublishedKeyOrder) {
  CaptureWriterInfo info;
  info.model_name = "SmolLM2-135M-Instruct.Q4_1.gguf";
  info.candidate_identity = {{"shard_sha256", manifest_["candidate_identity"]["shard_sha256"]}};
  info.runtime = {{"engine", "numpy float64"}};
  info.filter = "sentinel";
  info.stack = {{"engine", "x"}};
  const auto parsed = ParseCaptureManifest(manifest_, "m");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<CaptureRecord> records = parsed->records;
  std::swap(records[0], records[1]);
  Json built = BuildCaptureManifest(suite_, info, records, true);

  std::vector<std::string> keys;
  for (const auto& [key, value] : built.items()) keys.push_back(key);
  EXPECT_EQ(keys[6], "engine_identity");
  EXPECT_EQ(keys[7], "cut_point");
  EXPECT_EQ(built["cut_point"], "after_final_rmsnorm_before_lm_head");
  const auto again = ParseCaptureManifest(built, "built");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ContentSha256(), parsed->ContentSha256());

  built.erase("engine_identity");
  built.erase("cut_point");
  built["capture_contract"]["runtime"].erase("cut_point");
  built["capture_contract_sha256"] = Sha256Hex(PythonCanonJson(built["capture_contract"]));
  EXPECT_EQ(PythonPrettyJson(built),
            ReadOrDie(DataPath(std::string(kCapture) + "/capture-manifest.json")));
}

TEST_F(CaptureTest, HiddenFileHasThePublishedBytes) {
  const std::string published = ReadOrDie(JoinPath(dir_, "c/hidden_0001.safetensors"));
  const auto file = SafetensorsFile::Open(JoinPath(dir_, "c/hidden_0001.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto tensor = (*file)->Find("hidden_states");
  std::vector<uint16_t> rows(63 * 576);
  std::copy(tensor->bytes.begin(), tensor->bytes.end(), reinterpret_cast<uint8_t*>(rows.data()));
  EXPECT_EQ(*BuildHiddenFile(rows, 63, 576), published);
  EXPECT_EQ(ReasonOf(BuildHiddenFile(rows, 62, 576).status()), "SHAPE_MISMATCH");
  EXPECT_TRUE(CheckHiddenFile(**file, 63, 576).ok());
  EXPECT_EQ(ReasonOf(CheckHiddenFile(**file, 64, 576)), "SHAPE_MISMATCH");
  EXPECT_EQ(HiddenFileName(7), "hidden_0007.safetensors");
  EXPECT_EQ(HiddenFileName(12345), "hidden_12345.safetensors");
}

TEST_F(CaptureTest, ContentDigestNoticesEveryPart) {
  const auto base = ParseCaptureManifest(manifest_, "m");
  ASSERT_TRUE(base.ok());
  // json.dumps(..., sort_keys=True, separators=(",", ":")) of the three members, hashed apart.
  std::string canon = "{\"cut_point\":\"after_final_rmsnorm_before_lm_head\",\"records\":[";
  for (const Json& row : manifest_["captures"]) {
    if (canon.back() == '}') canon += ",";
    canon += "{\"index\":" + std::to_string(row["index"].get<int>()) + ",\"sha256\":\"" +
             row["sha256"].get<std::string>() + "\",\"shape\":[63,576]}";
  }
  canon += "],\"suite_token_sha256\":\"" + suite_.suite_token_sha256 + "\"}";
  EXPECT_EQ(base->ContentSha256(), Sha256Hex(canon));
  CaptureManifest other = *base;
  other.cut_point = "residual_after_layer_3";
  EXPECT_NE(other.ContentSha256(), base->ContentSha256());
  other = *base;
  other.records[0].width = 575;
  EXPECT_NE(other.ContentSha256(), base->ContentSha256());
}

TEST_F(CaptureTest, EveryFlippedByteOfAHiddenFileIsNamed) {
  const std::string good = ReadOrDie(JoinPath(dir_, "c/hidden_0007.safetensors"));
  for (size_t i = 0; i < good.size(); i += i < 100 ? 1 : 4999) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    Put("c/hidden_0007.safetensors", bad);
    EXPECT_EQ(ReasonOfOpen(), "DIGEST_MISMATCH") << i;
    EXPECT_NE(message_.find("hidden_0007.safetensors"), std::string::npos);
    EXPECT_NE(message_.find("fetch it again"), std::string::npos);
  }
}

TEST_F(CaptureTest, RefusalsComeByName) {
  const Json good = manifest_;
  struct Edit {
    const char* reason;
    std::function<void(Json&)> apply;
  };
  const Edit edits[] = {
      {"CAPTURE_INCOMPLETE", [](Json& m) { m["complete"] = false; }},
      {"FIELD_INVALID", [](Json& m) { m["complete"] = 1; }},
      {"SUITE_MISMATCH", [](Json& m) { m["suite_token_sha256"] = std::string(64, 'b'); }},
      {"FIELD_INVALID", [](Json& m) { m["captures"] = Json::object(); }},
      {"FIELD_INVALID", [](Json& m) { m["captures"][0]["index"] = true; }},
      {"CAPTURE_INVALID", [](Json& m) { m["captures"][0]["index"] = 7; }},
      {"CAPTURE_INVALID", [](Json& m) { m["contexts"] = 3; }},
      {"CAPTURE_INVALID",
       [](Json& m) {
         m["expected_indices"] = {1, 6};
       }},
      {"CAPTURE_INVALID", [](Json& m) { m["schema"] = "other/2"; }},
      {"FIELD_INVALID", [](Json& m) { m["captures"][0]["sha256"] = ""; }},
      {"FIELD_MISSING", [](Json& m) { m["captures"][0].erase("sha256"); }},
      {"FIELD_INVALID", [](Json& m) { m["captures"][0]["shape"] = {63}; }},
      {"FIELD_INVALID",
       [](Json& m) {
         m["captures"][0]["shape"] = {63, -1};
       }},
      {"FIELD_INVALID",
       [](Json& m) {
         m["captures"][0]["shape"] = {63, 1e18};
       }},
      {"SHAPE_MISMATCH",
       [](Json& m) {
         m["captures"][0]["shape"] = {64, 576};
       }},
      {"SHAPE_MISMATCH",
       [](Json& m) {
         m["captures"][1]["shape"] = {63, 575};
       }},
      {"SHAPE_MISMATCH", [](Json& m) { m["context_length"] = 65; }},
      {"DIGEST_MISMATCH", [](Json& m) { m["captures"][0]["sha256"] = std::string(64, 'c'); }},
      {"DIGEST_MISMATCH", [](Json& m) { m["capture_contract"]["runtime"]["fp32"] = true; }},
  };
  for (const Edit& edit : edits) {
    manifest_ = good;
    edit.apply(manifest_);
    PutManifest();
    EXPECT_EQ(ReasonOfOpen(), edit.reason) << message_;
  }
}

TEST_F(CaptureTest, MissingFilesAreNamed) {
  ASSERT_TRUE(RemoveTree(JoinPath(dir_, "c/hidden_0007.safetensors")).ok());
  EXPECT_EQ(ReasonOfOpen(), "FILE_MISSING");
  EXPECT_NE(message_.find("hidden_0007.safetensors"), std::string::npos);
  ASSERT_TRUE(RemoveTree(JoinPath(dir_, "c/capture-manifest.json")).ok());
  EXPECT_EQ(ReasonOfOpen(), "FILE_MISSING");
  EXPECT_NE(message_.find("capture-manifest.json"), std::string::npos);
}

// A file whose digest is recorded, but which holds something else.
TEST_F(CaptureTest, WrongTensorIsRefused) {
  const std::vector<uint8_t> bytes(63 * 576 * 2);
  const std::pair<std::string, DType> wrong[] = {{"other", DType::kBF16},
                                                 {"hidden_states", DType::kF16}};
  for (const auto& [name, dtype] : wrong) {
    SafetensorsBuilder builder;
    builder.Add(name, dtype, {63, 576}, bytes);
    const std::string file = builder.Build();
    Put("c/hidden_0007.safetensors", file);
    manifest_["captures"][1]["sha256"] = Sha256Hex(file);
    PutManifest();
    EXPECT_EQ(ReasonOfOpen(), name == "other" ? "TENSOR_MISSING" : "SHAPE_MISMATCH");
  }
}

// qwen-suites 2.7: no schema and no complete key.
TEST_F(CaptureTest, LegacyManifestsAreReadUnderTheirOwnRule) {
  Json legacy = Json::object();
  for (const char* key : {"model", "quantization", "quantization_config", "kv_cache_dtype",
                          "suite_token_sha256", "contexts", "captures"})
    legacy[key] = manifest_[key];
  legacy["elapsed_sec"] = 12.5;
  manifest_ = legacy;
  PutManifest();
  const auto capture = OpenCapture(JoinPath(dir_, "c"), suite_, "sentinel", true);
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_TRUE(capture->manifest.legacy);
  EXPECT_EQ(capture->manifest.schema, "");

  manifest_["contexts"] = 5;  // a resumed capture that did not list what it skipped
  PutManifest();
  EXPECT_EQ(ReasonOfOpen(), "CAPTURE_INVALID");
  EXPECT_NE(message_.find("legacy"), std::string::npos);
}

}  // namespace
}  // namespace assay
