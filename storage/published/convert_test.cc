// Published -> Assay -> published: the same bytes, or a refusal.

#include "storage/published/convert.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/dataset/verify.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string Data(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/metric/" + name);
}

std::map<std::string, std::string> Tree(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& file : fs::recursive_directory_iterator(dir)) {
    if (file.is_regular_file())
      out[fs::relative(file.path(), dir).string()] = *ReadFile(file.path().string(), 1 << 30);
  }
  return out;
}

class ConvertTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-convert-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    work_ = pattern;
    const auto suite = ReadSuite(Data("qf/suite"));
    ASSERT_TRUE(suite.ok()) << suite.status();
    suite_ = *suite;
  }
  void TearDown() override { fs::remove_all(work_); }

  std::string Copy(const std::string& from) {
    const std::string to = work_ + "/source";
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
    for (const auto& file : fs::recursive_directory_iterator(to))
      fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    return to;
  }
  // There and back again.
  void ExpectRoundTrip(const std::string& dir, const Suite* suite, CaptureForm form) {
    const std::string there = work_ + "/there", back = work_ + "/back";
    fs::remove_all(there);
    fs::remove_all(back);
    const auto made = ConvertCapture(dir, suite, there, 2);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->form, form);
    const auto given = ConvertBack(there, back);
    ASSERT_TRUE(given.ok()) << given.status();
    EXPECT_EQ(given->form, form);
    EXPECT_EQ(given->bytes, made->bytes);
    EXPECT_EQ(Tree(back), Tree(dir));
  }

  std::string work_;
  Suite suite_;
};

TEST_F(ConvertTest, EveryFormThereAndBack) {
  const std::string dir = Copy(Data("qf/captures/cand-b"));
  ExpectRoundTrip(dir, nullptr, CaptureForm::kCurrent);

  const std::string manifest = dir + "/capture-manifest.json";
  const Json json = *ReadJsonFile(manifest);
  Json legacy = Json::object();
  for (const char* key : {"model", "quantization", "quantization_config", "kv_cache_dtype",
                          "suite_token_sha256", "contexts", "captures", "elapsed_sec"}) {
    legacy[key] = json.at(key);
  }
  ASSERT_TRUE(WriteFile(manifest, PythonPrettyJson(legacy)).ok());
  ExpectRoundTrip(dir, &suite_, CaptureForm::kLegacy);
  const auto converted = ReadCaptureManifest(work_ + "/there/capture");
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_FALSE(converted->legacy);
  EXPECT_EQ(converted->filter, "all");
  EXPECT_EQ(converted->json["converted_from"]["rule"], kLegacyCaptureRule);
  // The same states, whatever wrote their manifest.
  EXPECT_EQ(converted->ContentSha256(), ParseCaptureManifest(json, "x")->ContentSha256());
  EXPECT_EQ(ReasonOf(ConvertCapture(dir, nullptr, work_ + "/x", 1).status()), "CONVERSION_REFUSED");

  Json glm = json;
  glm["schema"] = "glm53flash-fidelity-capture/2";
  fs::remove(manifest);
  ASSERT_TRUE(WriteFile(dir + "/capture-manifest-shard.json", PythonPrettyJson(glm)).ok());
  ASSERT_TRUE(WriteFile(dir + "/capture-manifest-full.json", PythonPrettyJson(glm)).ok());
  ExpectRoundTrip(dir, &suite_, CaptureForm::kGlm);

  ExpectRoundTrip(Data("fidelity-dataset/datasets/root"), nullptr, CaptureForm::kDataset);
  EXPECT_TRUE(VerifyDataset(work_ + "/back", {}).ok());
  const auto suite = ReadSuite(work_ + "/there/suite");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_TRUE(OpenCapture(work_ + "/there/capture", *suite, "all", true).ok());
  // Token files of the suite have the digests that the panel states in its older form.
  const Json panel = *ReadJsonFile(work_ + "/back/panel/panel.json");
  for (size_t i = 0; i < suite->contexts.size(); ++i)
    EXPECT_EQ(suite->contexts[i].token_sha256, panel["records"][i]["token_ids_sha256_legacy"]);
}

TEST_F(ConvertTest, WhatWouldBeLostIsRefused) {
  const auto reason = [&](const std::string& dir, const Suite* suite) {
    const auto status = ConvertCapture(dir, suite, work_ + "/out", 1).status();
    EXPECT_FALSE(IsDirectory(work_ + "/out"));
    return ReasonOf(status);
  };
  EXPECT_EQ(reason(Data("fidelity-dataset/datasets/quant-logit"), nullptr), "CONVERSION_REFUSED");
  EXPECT_EQ(reason(Data("fidelity-dataset/datasets/partial"), nullptr), "CONVERSION_REFUSED");
  const std::string dir = Copy(Data("qf/captures/cand-b"));
  std::string bytes = *ReadFile(dir + "/hidden_0003.safetensors", 1 << 30);
  bytes.back() ^= 1;
  ASSERT_TRUE(WriteFile(dir + "/hidden_0003.safetensors", bytes).ok());
  EXPECT_EQ(reason(dir, nullptr), "CONVERSION_REFUSED");
  EXPECT_EQ(reason(work_ + "/nothing", nullptr), "CONVERSION_REFUSED");
}

TEST_F(ConvertTest, DamageOnTheWayBackIsNoticed) {
  const std::string there = work_ + "/there", back = work_ + "/back";
  const auto again = [&] {
    fs::remove_all(there);
    ASSERT_TRUE(ConvertCapture(Data("qf/captures/cand-b"), nullptr, there, 1).ok());
  };
  const auto edit = [&](const std::function<void(Json&)>& change) {
    Json json = *ReadJsonFile(there + "/conversion.json");
    change(json);
    ASSERT_TRUE(WriteFile(there + "/conversion.json", PythonPrettyJson(json)).ok());
  };
  const auto reason = [&] { return ReasonOf(ConvertBack(there, back).status()); };
  again();
  std::string bytes = *ReadFile(there + "/capture/hidden_0003.safetensors", 1 << 30);
  bytes.back() ^= 1;
  ASSERT_TRUE(WriteFile(there + "/capture/hidden_0003.safetensors", bytes).ok());
  EXPECT_EQ(reason(), "DIGEST_MISMATCH");
  again();
  fs::remove(there + "/capture/hidden_0003.safetensors");
  EXPECT_EQ(reason(), "FILE_MISSING");
  again();
  edit([](Json& json) { json["files"][0]["path"] = "../escaped"; });
  EXPECT_EQ(reason(), "PATH_UNSAFE");
  again();
  edit([](Json& json) { json["files"][0]["at"] = "/etc/passwd"; });
  EXPECT_EQ(reason(), "PATH_UNSAFE");
  again();
  edit([](Json& json) { json["files"].push_back(json["files"][0]); });
  EXPECT_EQ(reason(), "CONVERSION_INVALID");
  again();
  edit([](Json& json) { json["form"] = "other"; });
  EXPECT_EQ(reason(), "CONVERSION_INVALID");
  EXPECT_FALSE(IsDirectory(back));
}

}  // namespace
}  // namespace assay
