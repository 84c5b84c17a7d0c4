#include "worker/agent/unit_files.h"

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/test_support.h"

namespace assay {
namespace {

class UnitFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    digests_ = *DigestCache::Open("");
    cache_ = *BlobCache::Open(dir_ / "cache", 1 << 20);
    models_ =
        std::make_unique<ModelResolver>(std::vector<std::string>{dir_ / "root"}, dir_ / "links",
                                        digests_.get(), cache_.get(), &store_);
  }
  absl::StatusOr<LocalUnit> Resolve(const std::string& unit) {
    return ResolveUnit(unit, {models_.get(), cache_.get(), &store_}, [] { return true; });
  }
  std::string Blob(const std::string& bytes) {
    return fmt::format(R"({{"sha256":"{}","bytes":{}}})", store_.Put(bytes), bytes.size());
  }
  TempDir dir_;
  FakeBlobStore store_;
  std::unique_ptr<DigestCache> digests_;
  std::unique_ptr<BlobCache> cache_;
  std::unique_ptr<ModelResolver> models_;
};

TEST_F(UnitFilesTest, CaptureGetsALocalModelAndLosesTheWiresOwnFields) {
  ASSERT_TRUE(EnsureDirectory(dir_ / "root").ok());
  ASSERT_TRUE(WriteFile(dir_ / "root/m.gguf", "weights").ok());
  ModelManifest manifest;
  manifest.files.push_back({"m.gguf", 7, Sha256Hex("weights")});
  manifest.transform = "rtn:bits=4,group=32";
  const auto local = Resolve(
      fmt::format(R"({{"kind":"capture","model":{{"identity":"{}","manifest":{}}},)"
                  R"("contexts":[{{"index":3,"tokens":[1,2]}}],"taps":[],"fresh_ranks":true}})",
                  manifest.Identity(), manifest.ToJson().dump()));
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_TRUE(local->fresh_ranks);
  EXPECT_EQ(local->unit["model"]["path"], dir_ / "root/m.gguf");
  EXPECT_EQ(local->unit["model"]["transform"], "rtn:bits=4,group=32");
  EXPECT_FALSE(local->unit["model"].contains("manifest"));
  EXPECT_FALSE(local->unit.contains("fresh_ranks"));
  EXPECT_EQ(local->unit["contexts"][0]["index"], 3);
}

TEST_F(UnitFilesTest, AManifestOfAnotherModelIsRefused) {
  ModelManifest manifest;
  manifest.files.push_back({"m.gguf", 7, Sha256Hex("weights")});
  const auto local =
      Resolve(fmt::format(R"({{"kind":"prepare","model":{{"identity":"{}","manifest":{}}}}})",
                          Sha256Hex("another"), manifest.ToJson().dump()));
  EXPECT_EQ(ReasonOf(local.status()), "UNIT_INVALID");
}

TEST_F(UnitFilesTest, ReplayBlobsBecomePaths) {
  const auto local = Resolve(fmt::format(
      R"({{"kind":"replay","policy":"exact","heads":[{{"id":"h0","tensor":"w",{}],)"
      R"("operands":[{{"id":"ref","role":"reference","hidden":[{},{}]}}],"contexts":[]}})",
      Blob("head").substr(1), Blob("one"), Blob("two")));
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(*ReadFile(local->unit["heads"][0]["file"].get<std::string>(), 10), "head");
  EXPECT_FALSE(local->unit["heads"][0].contains("sha256"));
  EXPECT_EQ(*ReadFile(local->unit["operands"][0]["hidden"][1].get<std::string>(), 10), "two");
  EXPECT_EQ(local->pins.size(), 3u);
  EXPECT_EQ(local->unit["policy"], "exact");
}

TEST_F(UnitFilesTest, UnknownKindsAreRefused) {
  EXPECT_EQ(ReasonOf(Resolve(R"({"kind":"dance"})").status()), "UNIT_INVALID");
}

TEST_F(UnitFilesTest, ExportNamesFilesByDigestOnly) {
  ASSERT_TRUE(WriteFile(dir_ / "hidden_0003.safetensors", "bytes").ok());
  const Json result = *ParseJson(
      fmt::format(R"({{"files":[{{"index":3,"file":"{}","sha256":"{}","bytes":5,"rows":1,)"
                  R"("width":2}}],"identity":{{}}}})",
                  dir_ / "hidden_0003.safetensors", Sha256Hex("bytes")),
      "result");
  std::vector<OutputFile> files;
  const auto exported = ExportResult("capture", result, dir_.path(), &files);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_FALSE((*exported)["files"][0].contains("file"));
  EXPECT_EQ((*exported)["files"][0]["rows"], 1);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].size, 5u);
}

TEST_F(UnitFilesTest, ExportRefusesASizeThatIsNotTheFiles) {
  ASSERT_TRUE(WriteFile(dir_ / "p", "bytes").ok());
  const Json result = *ParseJson(
      fmt::format(R"({{"file":"p","sha256":"{}","bytes":6}})", Sha256Hex("bytes")), "result");
  std::vector<OutputFile> files;
  EXPECT_EQ(ReasonOf(ExportResult("replay", result, dir_.path(), &files).status()),
            "RESULT_INVALID");
}

}  // namespace
}  // namespace assay
