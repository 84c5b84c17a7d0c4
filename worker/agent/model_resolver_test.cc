#include "worker/agent/model_resolver.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/test_support.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class ModelResolverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    digests_ = *DigestCache::Open("");
    cache_ = *BlobCache::Open(dir_ / "cache", 1 << 20);
  }
  ModelManifest Manifest(const std::vector<std::pair<std::string, std::string>>& files) {
    ModelManifest manifest;
    for (const auto& [path, bytes] : files) {
      manifest.files.push_back({path, bytes.size(), Sha256Hex(bytes)});
    }
    return manifest;
  }
  absl::StatusOr<ResolvedModel> Resolve(const ModelManifest& manifest) {
    ModelResolver resolver({dir_ / "root1", dir_ / "root2"}, dir_ / "links", digests_.get(),
                           cache_.get(), &store_);
    return resolver.Resolve(manifest, [] { return true; });
  }
  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(EnsureDirectory(DirName(dir_ / name)).ok());
    ASSERT_TRUE(WriteFile(dir_ / name, bytes).ok());
  }
  TempDir dir_;
  FakeBlobStore store_;
  std::unique_ptr<DigestCache> digests_;
  std::unique_ptr<BlobCache> cache_;
};

TEST_F(ModelResolverTest, FindsAFileDirectlyInARoot) {
  Write("root2/m.gguf", "weights");
  const auto model = Resolve(Manifest({{"m.gguf", "weights"}}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->path, dir_ / "root2/m.gguf");
}

TEST_F(ModelResolverTest, FindsAFolderOneLevelBelowARoot) {
  Write("root1/a/config.json", "{}");
  Write("root1/a/model.safetensors", "weightsA");
  Write("root1/b/config.json", "{}");
  Write("root1/b/model.safetensors", "weightsB");
  const auto model = Resolve(Manifest({{"config.json", "{}"}, {"model.safetensors", "weightsB"}}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->path, dir_ / "root1/b");
}

TEST_F(ModelResolverTest, HashesOnlyFilesOfTheRightNameAndSize) {
  Write("root1/big.gguf", "something else entirely");
  Write("root1/m.gguf", "longer than it should be");
  Write("root1/x/m.gguf", "wrong!!");  // right name and size
  Write("root2/x/m.gguf", "weights");
  const auto model = Resolve(Manifest({{"m.gguf", "weights"}}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->path, dir_ / "root2/x/m.gguf");
  EXPECT_EQ(digests_->hashed(), 2u);
}

TEST_F(ModelResolverTest, AFileWithOtherBytesIsNotTheModel) {
  Write("root1/m.gguf", "wrong!!");
  const auto model = Resolve(Manifest({{"m.gguf", "weights"}}));
  EXPECT_EQ(ReasonOf(model.status()), "MODEL_NOT_HERE");
  EXPECT_THAT(MessageOf(model.status()), HasSubstr("m.gguf"));
}

TEST_F(ModelResolverTest, FetchesFromTheStoreOnceAndHoldsTheFiles) {
  store_.Put("{}");
  store_.Put("weights");
  const ModelManifest manifest =
      Manifest({{"config.json", "{}"}, {"model.safetensors", "weights"}});
  {
    const auto model = Resolve(manifest);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(*ReadFile(JoinPath(model->path, "model.safetensors"), 100), "weights");
    EXPECT_EQ(model->pins.size(), 2u);
  }
  EXPECT_EQ(store_.fetches, 2);
  store_.blobs.clear();  // the cache alone is enough from now on
  ASSERT_TRUE(Resolve(manifest).ok());
  EXPECT_EQ(store_.fetches, 2);
}

TEST_F(ModelResolverTest, ACacheGivenByARelativePathWorksToo) {
  store_.Put("weights");
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  cache_ = *BlobCache::Open("relative", 1 << 20);
  const auto model = Resolve(Manifest({{"m.gguf", "weights"}}));
  std::filesystem::current_path(before);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(ReadFile(model->path, 100).value_or("unreadable"), "weights");
}

TEST_F(ModelResolverTest, NotHereWhenTheStoreHasOnlyAPart) {
  store_.Put("{}");
  const auto model = Resolve(Manifest({{"config.json", "{}"}, {"model.safetensors", "weights"}}));
  EXPECT_EQ(ReasonOf(model.status()), "MODEL_NOT_HERE");
  EXPECT_EQ(store_.fetches, 0);
}

TEST_F(ModelResolverTest, ASingleGgufFromTheStoreIsAFile) {
  store_.Put("weights");
  const auto model = Resolve(Manifest({{"m.gguf", "weights"}}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(BaseName(model->path), "m.gguf");
  EXPECT_EQ(*ReadFile(model->path, 100), "weights");
}

}  // namespace
}  // namespace assay
