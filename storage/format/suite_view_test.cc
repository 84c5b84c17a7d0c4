// Shard views against those that the publisher's program wrote.

#include "storage/format/suite_view.h"

#include <gtest/gtest.h>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/format/format_test_util.h"

namespace assay {
namespace {

TEST(SuiteView, PeersViewsByteForByte) {
  const std::string dir = DataPath("metric/qf/suite");
  const auto parent = ReadSuite(dir);
  ASSERT_TRUE(parent.ok()) << parent.status();
  ASSERT_EQ(SuiteShards(*parent, 7), 2);
  for (const int64_t shard : {0, 1}) {
    const std::string name = "shard-000" + std::to_string(shard);
    const auto view = BuildSuiteView(*parent, {shard, 7, "suite"});
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(*view, ReadOrDie(dir + "/" + name + "/suite-manifest.json"));
    const auto read = ReadSuite(dir + "/" + name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(CheckSuiteView(*read, *parent).ok());
  }
}

TEST(SuiteView, TheLastShardMayBePartial) {
  const auto parent = ReadSuite(DataPath("metric/qf/suite"));
  ASSERT_TRUE(parent.ok()) << parent.status();
  const auto view = BuildSuiteView(*parent, {1, 10, "suite"});
  ASSERT_TRUE(view.ok()) << view.status();
  const auto read = ParseSuiteManifest(*view, "view");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->contexts.size(), 4u);
  EXPECT_EQ(read->contexts.front().index, 10);
  EXPECT_EQ(read->manifest["shard"]["partial"], true);
  EXPECT_FALSE(read->manifest["partitions"].contains("sentinels"));
}

TEST(SuiteView, RefusesWhatIsNoShard) {
  const auto parent = ReadSuite(DataPath("metric/qf/suite"));
  ASSERT_TRUE(parent.ok()) << parent.status();
  for (const SuiteViewOptions& options :
       {SuiteViewOptions{2, 7, ""}, {-1, 7, ""}, {0, 0, ""}, {14, 1, ""}}) {
    EXPECT_EQ(ReasonOf(BuildSuiteView(*parent, options).status()), "SHARD_MISSING");
  }
  const auto view = ReadSuite(DataPath("metric/qf/suite/shard-0000"));
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(ReasonOf(BuildSuiteView(*view, {0, 7, ""}).status()), "SUITE_INVALID");
  Suite other = *parent;
  other.manifest_sha256 = Sha256Hex("another suite");
  EXPECT_EQ(ReasonOf(CheckSuiteView(*view, other)), "SUITE_MISMATCH");
  // A cluster renamed in the view: its digests stay, its bytes do not.
  Suite edited = *view;
  edited.manifest["context_index"][0]["source_cluster"] = "renamed";
  edited.manifest_sha256 = Sha256Hex(PythonPrettyJson(edited.manifest));
  EXPECT_EQ(ReasonOf(CheckSuiteView(edited, *parent)), "SUITE_MISMATCH");
}

// Digests of the ten published views (qwen-suites 1.7).
TEST(SuiteView, PublishedViewsOfV5) {
  const std::string path = SourcePath("../shared/data/published-receipts/kld5-suite-manifest.json");
  if (!FileExists(path)) GTEST_SKIP() << path << " is not here";
  const auto parent = ParseSuiteManifest(ReadOrDie(path), path);
  ASSERT_TRUE(parent.ok()) << parent.status();
  const char* const kViews[] = {"44000bbd4ec24fea4a19696eb7b5e1055b66c4dc65a3bf14f243de58e38cd3f3",
                                "06bec5a5bd8f2d3c28b84865408ddc167b3c899ecfc4c8b976e23b50c0e396ba",
                                "f016bf218d24c542dfba9fd4363ac27426bd2fc26c2f64bda277459017b81378",
                                "4184d79ddfabd6eb58419461bdab4307fa07a8c729ac13e33a94c7dcc7c47896",
                                "103e6f85f761b0efd52af8199d2e6a4fb632765d849246cc462b74691deb3886",
                                "3a4245745e40d16fd69c86b7205417797ca39496584fccbbe2d37e5aa1d25a09",
                                "22ce5ae2ff5b039ab28c97397f7b780b551f88b8114b2ad57e82b5a83e0aabab",
                                "0d37fa2a2deea15ad2610aab3272299212112c3bdbce14b1ea3ea761bf311395",
                                "fd21b2095de83ea2f38958707d69f696f211ada42a135553c7cad38c704e1d4a",
                                "0172f65ab6da1f0ae6c2d686ee447207f7442bdcf59f0f831cba47890af842f0"};
  ASSERT_EQ(SuiteShards(*parent, kPublishedShardSize), 10);
  for (int64_t shard = 0; shard < 10; ++shard) {
    const auto view =
        BuildSuiteView(*parent, {shard, kPublishedShardSize, "/var/tmp/work/kld5/suite"});
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(Sha256Hex(*view), kViews[shard]) << shard;
  }
}

}  // namespace
}  // namespace assay
