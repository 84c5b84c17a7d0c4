#include "worker/agent/blob_cache.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/test_support.h"

namespace assay {
namespace {

// Stands for a blob of that many bytes.
std::string Bytes(char c, size_t n) { return std::string(n, c); }

class BlobCacheTest : public ::testing::Test {
 protected:
  absl::StatusOr<BlobCache::Pin> Get(BlobCache* cache, const std::string& bytes) {
    const std::string sha256 = store_.Put(bytes);
    return cache->Get(sha256, bytes.size(), [&](const std::string& path) {
      return store_.Fetch(sha256, path, [] { return true; });
    });
  }
  bool Has(BlobCache* cache, const std::string& bytes) {
    return cache->Find(Sha256Hex(bytes), bytes.size()).ok();
  }
  TempDir dir_;
  FakeBlobStore store_;
};

TEST_F(BlobCacheTest, FetchesOnceAndKeepsOverRestarts) {
  {
    auto cache = BlobCache::Open(dir_ / "c", 1000);
    ASSERT_TRUE(cache.ok()) << cache.status();
    auto pin = Get(cache->get(), "hello");
    ASSERT_TRUE(pin.ok()) << pin.status();
    EXPECT_EQ(*ReadFile(pin->path(), 100), "hello");
    ASSERT_TRUE(Get(cache->get(), "hello").ok());
    EXPECT_EQ(store_.fetches, 1);
  }
  auto cache = BlobCache::Open(dir_ / "c", 1000);
  ASSERT_TRUE(cache.ok());
  ASSERT_TRUE(Get(cache->get(), "hello").ok());
  EXPECT_EQ(store_.fetches, 1);
}

TEST_F(BlobCacheTest, BytesThatTurnedBadAreFetchedAgain) {
  const auto spoil = [&] {
    const std::string path =
        JoinPath(JoinPath(dir_ / "c", Sha256Hex("hello").substr(0, 2)), Sha256Hex("hello"));
    ASSERT_TRUE(WriteFile(path, "hellO").ok());  // the same size
  };
  {
    auto cache = BlobCache::Open(dir_ / "c", 1000);
    ASSERT_TRUE(cache.ok());
    ASSERT_TRUE(Get(cache->get(), "hello").ok());
    spoil();
    auto pin = Get(cache->get(), "hello");
    ASSERT_TRUE(pin.ok()) << pin.status();
    EXPECT_EQ(*ReadFile(pin->path(), 100), "hello");
    EXPECT_EQ(store_.fetches, 2);
  }
  spoil();
  auto cache = BlobCache::Open(dir_ / "c", 1000);
  ASSERT_TRUE(cache.ok());
  EXPECT_FALSE(Has(cache->get(), "hello"));
  auto pin = Get(cache->get(), "hello");
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_EQ(*ReadFile(pin->path(), 100), "hello");
}

TEST_F(BlobCacheTest, EvictsTheLeastRecentlyUsed) {
  auto cache = BlobCache::Open(dir_ / "c", 100);
  ASSERT_TRUE(cache.ok());
  ASSERT_TRUE(Get(cache->get(), Bytes('a', 40)).ok());
  ASSERT_TRUE(Get(cache->get(), Bytes('b', 40)).ok());
  ASSERT_TRUE(Get(cache->get(), Bytes('a', 40)).ok());  // now b is older
  ASSERT_TRUE(Get(cache->get(), Bytes('c', 40)).ok());
  EXPECT_TRUE(Has(cache->get(), Bytes('a', 40)));
  EXPECT_FALSE(Has(cache->get(), Bytes('b', 40)));
  EXPECT_TRUE(Has(cache->get(), Bytes('c', 40)));
  EXPECT_LE((*cache)->bytes(), 100u);
}

TEST_F(BlobCacheTest, NeverEvictsWhatIsInUse) {
  auto cache = BlobCache::Open(dir_ / "c", 100);
  ASSERT_TRUE(cache.ok());
  auto a = Get(cache->get(), Bytes('a', 60));
  ASSERT_TRUE(a.ok());
  const auto b = Get(cache->get(), Bytes('b', 60));
  EXPECT_EQ(ReasonOf(b.status()), "CACHE_FULL");
  EXPECT_TRUE(FileExists(a->path()));
  *a = BlobCache::Pin();
  EXPECT_TRUE(Get(cache->get(), Bytes('b', 60)).ok());
  EXPECT_FALSE(Has(cache->get(), Bytes('a', 60)));
}

TEST_F(BlobCacheTest, ABlobLargerThanTheCacheIsRefused) {
  auto cache = BlobCache::Open(dir_ / "c", 10);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(ReasonOf(Get(cache->get(), Bytes('a', 11)).status()), "CACHE_FULL");
  EXPECT_EQ(store_.fetches, 0);
}

TEST_F(BlobCacheTest, LeftOversOfACutOffFetchAreRemoved) {
  const std::string sha256 = Sha256Hex("hello");
  const std::string folder = JoinPath(dir_ / "c", sha256.substr(0, 2));
  ASSERT_TRUE(EnsureDirectory(folder).ok());
  const std::string left_over = JoinPath(folder, sha256 + ".fetch");
  ASSERT_TRUE(WriteFile(left_over, "hel").ok());
  auto cache = BlobCache::Open(dir_ / "c", 1000);
  ASSERT_TRUE(cache.ok());
  EXPECT_FALSE(FileExists(left_over));
  EXPECT_FALSE(Has(cache->get(), "hello"));
}

TEST_F(BlobCacheTest, AFailedFetchLeavesNothing) {
  auto cache = BlobCache::Open(dir_ / "c", 1000);
  ASSERT_TRUE(cache.ok());
  const std::string sha256 = Sha256Hex("x");
  const auto pin = (*cache)->Get(sha256, 1, [](const std::string& path) {
    EXPECT_TRUE(WriteFile(path, "").ok());
    return UnavailableError("SERVER_UNREACHABLE", "gone");
  });
  EXPECT_EQ(ReasonOf(pin.status()), "SERVER_UNREACHABLE");
  EXPECT_EQ((*cache)->bytes(), 0u);
  EXPECT_TRUE(ListDirectory(JoinPath(dir_ / "c", sha256.substr(0, 2)))->empty());
}

TEST_F(BlobCacheTest, AFileOfTheWrongSizeIsNotTakenOver) {
  auto cache = BlobCache::Open(dir_ / "c", 1000);
  ASSERT_TRUE(cache.ok());
  ASSERT_TRUE(WriteFile(dir_ / "out", "hello").ok());
  EXPECT_EQ(ReasonOf((*cache)->Adopt(Sha256Hex("hello"), 6, dir_ / "out").status()),
            "SIZE_MISMATCH");
  EXPECT_TRUE((*cache)->Adopt(Sha256Hex("hello"), 5, dir_ / "out").ok());
  EXPECT_FALSE(FileExists(dir_ / "out"));
}

}  // namespace
}  // namespace assay
