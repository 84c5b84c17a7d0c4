// Damage made on purpose: each kind is found, refused by the coordinator, named by fsck, and
// repaired exactly where the rest of the store suffices.

#include "server/maintain/fsck.h"

#include <gtest/gtest.h>

#include <map>

#include "server/core/apply.h"
#include "server/maintain/maintain_test_store.h"
#include "storage/blob/blob_store.h"

namespace assay {
namespace {

FsckReport Check(const TestStore& store, bool repair = false) {
  const auto report = Fsck({store.dir(), "", repair});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(FsckReport{});
}

// Refused, found, repaired, and served again.
void ExpectRepaired(const TestStore& store) {
  EXPECT_EQ(store.ReasonOfOpen(), "STORE_DAMAGED");
  const FsckReport found = Check(store);
  EXPECT_EQ(found.ExitCode(), 23) << found.ToText();
  EXPECT_EQ(Check(store).ToText(), found.ToText()) << "looking has changed something";
  EXPECT_EQ(store.ReasonOfOpen(), "STORE_DAMAGED");
  const FsckReport repaired = Check(store, true);
  EXPECT_EQ(repaired.ExitCode(), 0) << repaired.ToText();
  EXPECT_EQ(Check(store).ExitCode(), 0);
  EXPECT_NE(store.Open(), nullptr);
}

// Refused and found; repairing does not pretend, and changes nothing for the worse.
void ExpectLost(const TestStore& store, const std::string& text) {
  EXPECT_EQ(store.ReasonOfOpen(), "STORE_DAMAGED");
  const FsckReport found = Check(store);
  EXPECT_EQ(found.ExitCode(), 20) << found.ToText();
  EXPECT_NE(found.ToText().find(text), std::string::npos) << found.ToText();
  EXPECT_EQ(Check(store, true).ExitCode(), 20);
  EXPECT_EQ(store.ReasonOfOpen(), "STORE_DAMAGED");
}

std::string LiveLog(const std::string& dir) {
  std::string best;
  uint64_t size = 0;
  const std::vector<std::string> names = ListDirectory(dir + "/db").value();
  for (const std::string& name : names) {
    const std::string path = dir + "/db/" + name;
    if (name.size() < 4 || name.substr(name.size() - 4) != ".log") continue;
    if (const uint64_t bytes = FileSize(path).value(); bytes > size) {
      size = bytes;
      best = path;
    }
  }
  EXPECT_GT(size, 0u);
  return best;
}

TEST(Fsck, AWholeStoreIsWhole) {
  const TestStore store;
  const FsckReport report = Check(store);
  EXPECT_EQ(report.ExitCode(), 0) << report.ToText();
  EXPECT_TRUE(report.found.empty());
  EXPECT_GT(report.blobs, 50u);
  EXPECT_EQ(ReasonOf(Fsck({store.dir() + "/nothing", "", false}).status()), "FILE_MISSING");
  const auto engine = store.Open();
  EXPECT_EQ(ReasonOf(Fsck({store.dir(), "", false}).status()), "STORE_IN_USE");
}

TEST(Fsck, AFlippedByteOfTheLogCannotBeRepaired) {
  const TestStore store;
  store.Open();
  TestStore::Flip(LiveLog(store.dir()), 0.3);
  ExpectLost(store, "batches");
}

TEST(Fsck, ALostTailOfTheLogIsNamed) {
  const TestStore store;
  const std::string log = LiveLog(store.dir());
  TestStore::Shell("truncate -s 0 " + log);
  ExpectLost(store, "were acknowledged");
}

// Every table lies in a file of its own: damage in each is found; the log of seals and the request
// ids are made again, since other tables hold all of them.
TEST(Fsck, AFlippedByteInAnyTableFileIsFound) {
  const TestStore store;
  store.Open();
  int files = 0, repaired = 0, superseded = 0;
  const std::vector<std::string> names = ListDirectory(store.dir() + "/db").value();
  for (const std::string& name : names) {
    if (name.size() < 4 || name.substr(name.size() - 4) != ".sst") continue;
    ++files;
    const std::string path = store.dir() + "/db/" + name;
    TestStore::Shell("cp -a " + store.dir() + " " + store.dir() + ".kept");
    TestStore::Flip(path, 0.02);
    const FsckReport found = Check(store);
    EXPECT_NE(found.ExitCode(), 0) << name;
    const std::string reason = store.ReasonOfOpen();
    if (reason.empty()) {
      // Only when the file held nothing but versions of rows that newer files supersede, and went.
      EXPECT_EQ(Check(store).ExitCode(), 0) << name;
      ++superseded;
    } else {
      EXPECT_EQ(reason, "STORE_DAMAGED") << name;
      const int code = Check(store, true).ExitCode();
      if (found.ExitCode() == 20) {
        EXPECT_EQ(code, 20) << name << "\n" << found.ToText();
      }
      if (code == 0) {
        ++repaired;
        EXPECT_NE(store.Open(), nullptr);
      } else {
        EXPECT_EQ(store.ReasonOfOpen(), "STORE_DAMAGED") << name;
      }
    }
    TestStore::Shell("rm -rf " + store.dir() + " && mv " + store.dir() + ".kept " + store.dir());
  }
  EXPECT_GE(files, 6);
  EXPECT_GE(repaired, 2);
  EXPECT_LT(superseded, files / 2);
}

TEST(Fsck, DerivedRowsAreMadeAgain) {
  const TestStore store;
  const ReceiptRow receipt = store.Receipt();
  const RunRow run = store.Open()->Read([](const State& s) { return s.runs.begin()->second; });
  const MetaRow meta = store.Open()->Read([](const State& s) { return s.meta; });
  LogNodeRow leaf;
  leaf.level = 0;
  leaf.index = 0;
  RequestIdRow request;
  request.key = RequestKey(run);
  for (const Row& row : {Row(leaf), Row(request), Row(receipt), Row(MetaRow{})}) {
    store.Remove(row);
    SCOPED_TRACE(row.index());
    ExpectRepaired(store);
  }
  EXPECT_EQ(EncodeRow(store.Receipt()), EncodeRow(receipt));
  store.Open()->Read([&](const State& s) {
    EXPECT_EQ(s.requests.at(request.key).resource, run.id);
    EXPECT_EQ(s.meta.checkpoint, meta.checkpoint);
    EXPECT_EQ(s.meta.next_serial, meta.next_serial);
    EXPECT_EQ(s.meta.next_revision, meta.next_revision);
    EXPECT_GT(s.meta.epoch, meta.epoch);
    return 0;
  });
}

TEST(Fsck, RowsThatNothingElseHoldsAreMissed) {
  const TestStore store;
  const RunRow run = store.Open()->Read([](const State& s) { return s.runs.begin()->second; });
  EventRow event;
  event.run = run.id;
  event.revision = run.revision;
  store.Remove(event);
  ExpectLost(store, "events are there");
  const TestStore other;
  const UnitRow unit = other.Open()->Read([](const State& s) { return s.units.begin()->second; });
  other.Remove(unit);
  ExpectLost(other, "runs and units are there");
}

TEST(Fsck, TheAnchorIsMadeFromTheChainUnlessItKnowsMore) {
  const TestStore store;
  const std::string anchor = store.dir() + "/anchor";
  const std::string old = ReadFile(anchor, 4096).value();
  for (int i = 0; i < 3; ++i) store.Open();
  const std::string now = ReadFile(anchor, 4096).value();
  ASSERT_TRUE(WriteFile(anchor, old).ok());
  ExpectRepaired(store);
  ASSERT_EQ(::unlink(anchor.c_str()), 0);
  ExpectRepaired(store);
  ASSERT_TRUE(WriteFile(anchor, std::string(512, 'x')).ok());
  ExpectRepaired(store);
  EXPECT_TRUE(FileExists(anchor + ".damaged"));
  // Of another store: whose batches are missing cannot be told.
  const TestStore other;
  for (int i = 0; i < 20; ++i) other.Open();
  ASSERT_TRUE(WriteFile(anchor, ReadFile(other.dir() + "/anchor", 4096).value()).ok());
  ExpectLost(store, "acknowledged");
}

TEST(Fsck, SealedDocumentsAreMadeAgainFromTheirResults) {
  const TestStore store;
  const ReportRow report = store.Report();
  const std::string bytes = ReadFile(store.BlobPath(report.id), 1 << 28).value();
  ASSERT_EQ(::unlink(store.BlobPath(report.id).c_str()), 0);
  ExpectRepaired(store);
  EXPECT_EQ(ReadFile(store.BlobPath(report.id), 1 << 28).value(), bytes);
  ASSERT_EQ(::unlink(store.BlobPath(report.arrays[3].sha256).c_str()), 0);
  ExpectRepaired(store);
  // A changed byte is no reason not to start, which would mean reading every blob; fsck does.
  TestStore::Flip(store.BlobPath(report.id));
  EXPECT_EQ(Check(store).ExitCode(), 23);
  EXPECT_EQ(Check(store, true).ExitCode(), 0);
  EXPECT_EQ(ReadFile(store.BlobPath(report.id), 1 << 28).value(), bytes);
  EXPECT_TRUE(FileExists(store.dir() + "/blobs/quarantine/" + report.id));
}

TEST(Fsck, ExecutionAndReceiptCannotBeMadeAgain) {
  const TestStore store;
  ASSERT_EQ(::unlink(store.BlobPath(store.Report().execution_sha256).c_str()), 0);
  ExpectLost(store, "execution.json");
  const TestStore other;
  TestStore::Flip(other.BlobPath(other.Receipt().receipt_sha256));
  const FsckReport found = Check(other);
  EXPECT_EQ(found.ExitCode(), 20) << found.ToText();
  EXPECT_NE(found.ToText().find("receipt.json of reports/" + other.Report().id), std::string::npos);
}

// A capture's file is set aside and made again by whoever needs it.
TEST(Fsck, ADamagedCaptureIsSetAsideAndForgotten) {
  const TestStore store;
  const CaptureFileRow file =
      store.Open()->Read([](const State& s) { return s.files.begin()->second[0].begin()->second; });
  TestStore::Flip(store.BlobPath(file.sha256));
  EXPECT_EQ(Check(store).ExitCode(), 23);
  EXPECT_EQ(Check(store, true).ExitCode(), 0);
  EXPECT_FALSE(FileExists(store.BlobPath(file.sha256)));
  EXPECT_TRUE(FileExists(store.dir() + "/blobs/quarantine/" + file.sha256));
  store.Open()->Read([&](const State& s) {
    EXPECT_EQ(s.files.at(file.capture)[0].count(file.index), 0u);
    return 0;
  });
}

}  // namespace
}  // namespace assay
