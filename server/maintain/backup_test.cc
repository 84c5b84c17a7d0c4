// A backup is taken while the coordinator works, and is whole; restoring it is starting with it.

#include "server/maintain/backup.h"

#include <gtest/gtest.h>

#include "server/core/apply.h"
#include "server/engine/restore.h"
#include "server/maintain/commands.h"
#include "server/maintain/fsck.h"
#include "server/maintain/maintain_test_store.h"

namespace assay {
namespace {

Json Request(const std::string& dest) { return {{"command", "backup"}, {"dest", dest}}; }

TEST(Backup, ThroughTheControlSocketOfARunningCoordinator) {
  const TestStore store;
  const std::string dest = store.dir() + ".backup";
  uint64_t epoch = 0;
  {
    const auto engine = store.Open();
    const auto control =
        ControlServer::Start(store.dir(), MaintenanceHandler(engine.get())).value();
    const auto text = AskCoordinator(store.dir(), Request(dest));
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_NE(text->find("1 sealed"), std::string::npos) << *text;
    EXPECT_EQ(ReasonOf(AskCoordinator(store.dir(), Request(dest)).status()), "BACKUP_EXISTS");
    EXPECT_EQ(ReasonOf(AskCoordinator(store.dir(), {{"command", "x"}}).status()),
              "CONTROL_INVALID");
    epoch = engine->Read([](const State& s) { return s.epoch; });
  }
  EXPECT_EQ(ReasonOf(AskCoordinator(store.dir(), Request(dest)).status()),
            "COORDINATOR_NOT_RUNNING");
  const FsckReport report = Fsck({dest, "", false}).value();
  EXPECT_EQ(report.ExitCode(), 0) << report.ToText();
  // The original goes on, and its damage does not reach the backup: files are copies.
  const ReportRow sealed = store.Report();
  TestStore::Flip(store.BlobPath(sealed.id));
  EXPECT_EQ(Fsck({dest, "", false})->ExitCode(), 0);
  // Restored, with the key and a jump of epochs: leases of before mean nothing here.
  {
    const auto engine = Engine::Open(TestStore::OptionsOf(dest));
    ASSERT_TRUE(engine.ok()) << engine.status();
    (*engine)->Read([&](const State& s) {
      EXPECT_EQ(s.epoch, epoch + kRestoredEpochs);
      EXPECT_EQ(s.reports.count(sealed.id), 1u);
      return 0;
    });
    EXPECT_TRUE(FileExists(dest + "/restored.json"));
  }
  const auto again = Engine::Open(TestStore::OptionsOf(dest));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->Read([](const State& s) { return s.epoch; }), epoch + kRestoredEpochs + 1);
  EXPECT_TRUE(RemoveTree(dest).ok());
}

TEST(Backup, AnUnfinishedOneIsNotStarted) {
  const TestStore store;
  ASSERT_TRUE(WriteFile(store.dir() + "/" + kBackupUnfinished, "x").ok());
  EXPECT_EQ(store.ReasonOfOpen(), "STORE_DAMAGED");
}

TEST(Backup, ASealedDocumentThatIsDamagedIsNotCopied) {
  const TestStore store;
  const std::string dest = store.dir() + ".backup";
  TestStore::Flip(store.BlobPath(store.Report().execution_sha256));
  const auto engine = store.Open();
  const auto result = Backup({engine->catalogue(), engine->blobs(), store.dir()}, dest);
  EXPECT_EQ(ReasonOf(result.status()), "BLOB_CORRUPT");
  EXPECT_EQ(ReasonOf(Engine::Open(TestStore::OptionsOf(dest)).status()), "STORE_DAMAGED");
  EXPECT_TRUE(RemoveTree(dest).ok());
}

}  // namespace
}  // namespace assay
