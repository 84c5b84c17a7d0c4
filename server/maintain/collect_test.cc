// Collection takes what nothing names and nothing else.

#include "server/maintain/collect.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/core/apply.h"
#include "server/maintain/fsck.h"
#include "server/maintain/maintain_test_store.h"
#include "storage/base/digest.h"

namespace assay {
namespace {

void MakeOld(const std::string& path) {
  const timespec long_ago[2] = {{1'000'000, 0}, {1'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
}

void MakeAllOld(const TestStore& store) {
  TestStore::Shell("find " + store.dir() + "/blobs -type f -exec touch -d 2001-01-01 {} +");
}

CollectOptions Keeping(int64_t runs_ms) {
  CollectOptions options;
  options.keep_runs_ms = runs_ms;
  return options;
}

TEST(Collect, OnlyABlobThatNothingNamesAndNobodyTouchedGoes) {
  const TestStore store;
  const auto engine = store.Open();
  const std::string old = PutBlob(engine->blobs(), "nobody wants this").value();
  const std::string fresh = PutBlob(engine->blobs(), "just sent").value();
  const std::string asked = PutBlob(engine->blobs(), "sent long ago, asked for again").value();
  MakeAllOld(store);
  ASSERT_TRUE(engine->blobs().HasIntact(asked));
  ASSERT_TRUE(engine->blobs().HasIntact(fresh));
  const std::string partial = store.dir() + "/blobs/partial/" + Sha256Hex("partial");
  ASSERT_TRUE(WriteFile(partial, "half").ok());
  MakeOld(partial);
  CollectOptions options = Keeping(INT64_MAX / 4);
  options.dry_run = true;
  const Collected dry = Collect(engine.get(), options).value();
  EXPECT_EQ(dry.blobs, 1u);
  EXPECT_EQ(dry.partials, 1u);
  EXPECT_TRUE(engine->blobs().Has(old));
  options.dry_run = false;
  const Collected real = Collect(engine.get(), options).value();
  EXPECT_EQ(real.ToText(false).substr(12), dry.ToText(true).substr(17));
  EXPECT_FALSE(engine->blobs().Has(old));
  EXPECT_TRUE(engine->blobs().Has(fresh));
  EXPECT_TRUE(engine->blobs().Has(asked));
  EXPECT_FALSE(FileExists(partial));
}

// However old: what the receipt names, and with it the whole store, stays whole.
TEST(Collect, WhatAReceiptNamesStays) {
  const TestStore store;
  const ReportRow report = store.Report();
  {
    const auto engine = store.Open();
    MakeAllOld(store);
    const Collected collected = Collect(engine.get(), Keeping(0)).value();
    EXPECT_EQ(collected.runs, 0u);
    EXPECT_GT(collected.units, 0u);
    EXPECT_GT(collected.blobs, 0u);  // results that are part of the report by now
    for (const ArrayRow& array : report.arrays)
      EXPECT_TRUE(engine->blobs().Verify(array.sha256).ok());
    EXPECT_TRUE(engine->blobs().Verify(report.id).ok());
    EXPECT_TRUE(engine->blobs().Verify(report.execution_sha256).ok());
    engine->Read([&](const State& s) {
      EXPECT_EQ(s.runs.count(report.run), 1u);
      for (const auto& [id, run] : s.runs) EXPECT_TRUE(engine->GetSuite(run.suite).ok());
      return 0;
    });
    EXPECT_EQ(Collect(engine.get(), Keeping(0))->blobs, 0u);
  }
  const FsckReport after = Fsck({store.dir(), "", false}).value();
  EXPECT_EQ(after.ExitCode(), 0) << after.ToText();
  EXPECT_NE(store.Open(), nullptr);
}

TEST(Collect, ASuiteThatCannotBeReadStopsIt) {
  const TestStore store;
  const auto engine = store.Open();
  const std::string suite = engine->Read([](const State& s) { return s.suites.begin()->first; });
  MakeAllOld(store);
  TestStore::Flip(store.BlobPath(suite));
  EXPECT_EQ(ReasonOf(Collect(engine.get(), Keeping(0)).status()), "GC_REFUSED");
}

}  // namespace
}  // namespace assay
