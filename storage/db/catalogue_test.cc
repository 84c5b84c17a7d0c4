#include "storage/db/catalogue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/db/chain.h"
#include "storage/db/inspect.h"
#include "storage/db/rocks_store.h"
#include "storage/db/row.h"

namespace assay {
namespace {

constexpr int kBatches = 200;

std::string TempDir() {
  std::string name = testing::TempDir() + "/catXXXXXX";
  return ::mkdtemp(name.data());
}

ModelRow Model(int i) {
  ModelRow row;
  row.id = "model" + std::to_string(i);
  row.manifest_json = std::string(100, 'x');
  return row;
}

std::unique_ptr<Catalogue> OpenOk(const std::string& dir) {
  auto catalogue = Catalogue::Open({dir, ""});
  EXPECT_TRUE(catalogue.ok()) << catalogue.status();
  return catalogue.ok() ? *std::move(catalogue) : nullptr;
}

std::string ReasonOfOpen(const std::string& dir) {
  return ReasonOf(Catalogue::Open({dir, ""}).status());
}

// A store with kBatches acknowledged batches, closed.
std::string MakeStore() {
  const std::string dir = TempDir();
  const auto catalogue = OpenOk(dir);
  for (int i = 0; i < kBatches; ++i) EXPECT_TRUE(catalogue->Commit({Model(i)}).ok());
  return dir;
}

int CountRows(const Catalogue& catalogue) {
  int n = 0;
  EXPECT_TRUE(catalogue.LoadAll([&](Row row) { n += std::holds_alternative<ModelRow>(row); }).ok());
  return n;
}

// The write-ahead log that holds the batches.
std::string LiveLog(const std::string& dir) {
  std::string best;
  uint64_t size = 0;
  const std::vector<std::string> names = ListDirectory(dir + "/db").value();
  for (const std::string& name : names) {
    if (name.size() < 4 || name.substr(name.size() - 4) != ".log") continue;
    const std::string path = dir + "/db/" + name;
    if (const uint64_t bytes = FileSize(path).value(); bytes > size) {
      size = bytes;
      best = path;
    }
  }
  EXPECT_GT(size, 0u);
  return best;
}

void Overwrite(const std::string& path, const std::string& bytes) {
  ASSERT_TRUE(WriteFile(path, bytes).ok());
}

TEST(Catalogue, KeepsWhatWasCommitted) {
  const std::string dir = MakeStore();
  const auto catalogue = OpenOk(dir);
  EXPECT_EQ(CountRows(*catalogue), kBatches);
  EXPECT_EQ(catalogue->seq(), static_cast<uint64_t>(kBatches));
  ModelRow changed = Model(3);
  changed.head = "h";
  ASSERT_TRUE(catalogue->Commit({changed, Model(kBatches)}).ok());
  EXPECT_EQ(CountRows(*catalogue), kBatches + 1);
}

TEST(Catalogue, AFolderHasOneUser) {
  const std::string dir = TempDir();
  const auto catalogue = OpenOk(dir);
  const absl::Status status = Catalogue::Open({dir, ""}).status();
  EXPECT_EQ(ReasonOf(status), "STORE_IN_USE");
  EXPECT_NE(MessageOf(status).find(dir), std::string::npos);
}

TEST(Catalogue, EventsAndLogNodesAreReadByKey) {
  const std::string dir = TempDir();
  const auto catalogue = OpenOk(dir);
  std::vector<Row> rows;
  for (uint64_t revision : {1, 2, 300}) {
    EventRow event;
    event.run = "r";
    event.revision = revision;
    rows.emplace_back(event);
  }
  EventRow other;
  other.run = "r2";
  other.revision = 2;
  rows.emplace_back(other);
  rows.emplace_back(LogNodeRow{1, 7, std::string(32, 'h')});
  MetaRow meta;
  meta.log_size = 16;
  rows.emplace_back(meta);
  ASSERT_TRUE(catalogue->Commit(rows).ok());
  const auto events = catalogue->Events("r", 1, 10).value();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].revision, 2u);
  EXPECT_EQ(events[1].revision, 300u);
  EXPECT_EQ(catalogue->size(), 16u);
  EXPECT_EQ(catalogue->Node(1, 7).value()[0], 'h');
  EXPECT_EQ(ReasonOf(catalogue->Node(1, 8).status()), "LOG_NODE_MISSING");
}

TEST(CatalogueDamage, AFlippedByteInTheLogIsRefused) {
  const std::string dir = MakeStore();
  std::string bytes = ReadFile(LiveLog(dir), 1 << 30).value();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  Overwrite(LiveLog(dir), bytes);
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
}

TEST(CatalogueDamage, AZeroedPageInTheLogIsRefused) {
  const std::string dir = MakeStore();
  std::string bytes = ReadFile(LiveLog(dir), 1 << 30).value();
  ASSERT_GT(bytes.size(), 16384u);
  bytes.replace(8192, 4096, 4096, '\0');
  Overwrite(LiveLog(dir), bytes);
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
}

TEST(CatalogueDamage, AHalvedLogIsRefusedAndSaysWhatIsLost) {
  const std::string dir = MakeStore();
  const std::string bytes = ReadFile(LiveLog(dir), 1 << 30).value();
  Overwrite(LiveLog(dir), bytes.substr(0, bytes.size() / 2));
  const absl::Status status = Catalogue::Open({dir, ""}).status();
  EXPECT_EQ(ReasonOf(status), "STORE_DAMAGED");
  EXPECT_NE(MessageOf(status).find("200 were acknowledged"), std::string::npos) << status;
}

TEST(CatalogueDamage, ADeletedLogIsRefused) {
  const std::string dir = MakeStore();
  ASSERT_EQ(::unlink(LiveLog(dir).c_str()), 0);
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
}

TEST(CatalogueDamage, ADeletedDatabaseIsRefused) {
  const std::string dir = MakeStore();
  ASSERT_TRUE(RemoveTree(dir + "/db").ok());
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
}

TEST(CatalogueDamage, AMissingOrForeignAnchorIsRefused) {
  const std::string dir = MakeStore();
  const std::string anchor = ReadFile(dir + "/anchor", 4096).value();
  ASSERT_EQ(::unlink((dir + "/anchor").c_str()), 0);
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
  const std::string other = TempDir();
  {
    const auto catalogue = OpenOk(other);
    for (int i = 0; i < kBatches; ++i) ASSERT_TRUE(catalogue->Commit({Model(i + 1000)}).ok());
  }
  ASSERT_TRUE(WriteFile(dir + "/anchor", ReadFile(other + "/anchor", 4096).value()).ok());
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
  ASSERT_TRUE(WriteFile(dir + "/anchor", std::string(512, 'x')).ok());
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
  ASSERT_TRUE(WriteFile(dir + "/anchor", anchor).ok());
  EXPECT_NE(OpenOk(dir), nullptr);
}

TEST(CatalogueDamage, AWriteThatWasNeverAcknowledgedMayBeTorn) {
  const std::string dir = MakeStore();
  const std::string bytes = ReadFile(LiveLog(dir), 1 << 30).value();
  Overwrite(LiveLog(dir), bytes + "abc");
  const auto catalogue = OpenOk(dir);
  ASSERT_NE(catalogue, nullptr);
  EXPECT_EQ(CountRows(*catalogue), kBatches);
}

TEST(CatalogueDamage, AnOldAnchorIsRefused) {
  const std::string dir = TempDir();
  OpenOk(dir)->Commit({Model(0)}).IgnoreError();
  const std::string old = ReadFile(dir + "/anchor", 4096).value();
  {
    const auto catalogue = OpenOk(dir);
    ASSERT_TRUE(catalogue->Commit({Model(1)}).ok());
  }
  for (int i = 2; i < 4; ++i) ASSERT_TRUE(OpenOk(dir)->Commit({Model(i)}).ok());
  ASSERT_TRUE(WriteFile(dir + "/anchor", old).ok());
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
}

// A crash between a commit and its anchor leaves one batch that the anchor does not name.
TEST(CatalogueDamage, AnAnchorOneBatchBehindIsACrash) {
  const std::string dir = TempDir();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(OpenOk(dir)->Commit({Model(i)}).ok());
  const std::string before = ReadFile(dir + "/anchor", 4096).value();
  ASSERT_TRUE(OpenOk(dir)->Commit({Model(3)}).ok());
  ASSERT_TRUE(WriteFile(dir + "/anchor", before).ok());
  EXPECT_NE(OpenOk(dir), nullptr);
}

TEST(CatalogueDamage, WhatANewerBuildHasWrittenIsRefusedByName) {
  const std::string dir = MakeStore();
  const std::string anchor = ReadFile(dir + "/anchor", 4096).value();
  std::string newer = "assay-anchor/2 7 " + std::string(64, 'a') + " more";
  newer += " " + std::to_string(Crc32c(newer)) + "\n";
  ASSERT_TRUE(WriteFile(dir + "/anchor", newer + anchor.substr(newer.size())).ok());
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_VERSION");
  // Without its checksum the same is a slot with flipped bits; the other slot stands for it.
  std::string flipped = anchor;
  flipped.at(flipped.find("/1 ") + 1) = '2';
  ASSERT_TRUE(WriteFile(dir + "/anchor", flipped).ok());
  EXPECT_NE(ReasonOfOpen(dir), "STORE_VERSION");
  flipped.at(flipped.rfind("/1 ") + 1) = '2';
  ASSERT_TRUE(WriteFile(dir + "/anchor", flipped).ok());
  EXPECT_EQ(ReasonOfOpen(dir), "STORE_DAMAGED");
  std::string link = EncodeLink(NextLink(0, std::string(32, '\0'), std::string(32, 'm')));
  link[4] = 2;
  EXPECT_EQ(ReasonOf(DecodeLink(link, "x").status()), "STORE_VERSION");
}

TEST(Catalogue, RemovedRowsAreGoneAndPartOfTheChain) {
  const std::string dir = TempDir();
  std::string without;
  {
    const auto catalogue = OpenOk(dir);
    ASSERT_TRUE(catalogue->Commit({Model(0), Model(1)}).ok());
    ASSERT_TRUE(catalogue->Commit({Model(2)}, {Model(0)}).ok());
    without = catalogue->head_hash();
  }
  const auto catalogue = OpenOk(dir);
  EXPECT_EQ(CountRows(*catalogue), 2);
  EXPECT_EQ(catalogue->head_hash(), without);
  const std::string other = TempDir();
  const auto second = OpenOk(other);
  ASSERT_TRUE(second->Commit({Model(0), Model(1)}).ok());
  ASSERT_TRUE(second->Commit({Model(2)}).ok());
  EXPECT_NE(second->head_hash(), without);
}

TEST(Catalogue, ACheckpointIsACatalogueOfThatMoment) {
  const std::string dir = MakeStore(), copy = TempDir() + "/copy";
  const auto catalogue = OpenOk(dir);
  const CatalogueMark mark = catalogue->Checkpoint(copy).value();
  EXPECT_EQ(mark.seq, static_cast<uint64_t>(kBatches));
  ASSERT_TRUE(catalogue->Commit({Model(kBatches)}).ok());
  const auto other = OpenOk(copy);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(CountRows(*other), kBatches);
  EXPECT_TRUE(other->Commit({Model(-1)}).ok());
  EXPECT_EQ(CountRows(*catalogue), kBatches + 1);
}

// What fsck is told about each kind of damage.
TEST(Inspect, NamesWhatIsDamaged) {
  using Part = CatalogueFinding::Part;
  const std::string dir = MakeStore();
  int rows = 0;
  const auto inspect = [&] {
    rows = 0;
    return InspectCatalogue({dir, ""}, [&](const Row&) { ++rows; }).value();
  };
  EXPECT_TRUE(inspect().findings.empty());
  EXPECT_EQ(rows, kBatches);
  EXPECT_EQ(inspect().seq, static_cast<uint64_t>(kBatches));
  const std::string log = LiveLog(dir), whole = ReadFile(log, 1 << 30).value();
  std::string bytes = whole;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  Overwrite(log, bytes);
  auto found = inspect().findings;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].part, Part::kDatabase);
  EXPECT_EQ(found[1].part, Part::kChain);
  EXPECT_EQ(ReadFile(log, 1 << 30).value(), bytes) << "fsck has changed the log";
  Overwrite(log, whole.substr(0, whole.size() / 2));
  found = inspect().findings;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].anchor, AnchorState::kAhead);
  EXPECT_NE(found[0].what.find("200 were acknowledged"), std::string::npos);
  Overwrite(log, whole);
  ASSERT_TRUE(WriteFile(dir + "/anchor", std::string(512, 'x')).ok());
  found = inspect().findings;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].part, Part::kAnchor);
  ASSERT_EQ(::unlink((dir + "/anchor").c_str()), 0);
  found = inspect().findings;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].anchor, AnchorState::kMissing);
  EXPECT_FALSE(FileExists(dir + "/anchor"));
  EXPECT_NE(Catalogue::Open({dir, "", /*repair=*/true}).value(), nullptr);
  EXPECT_TRUE(inspect().findings.empty());
}

class CatalogueCrash : public testing::TestWithParam<const char*> {};

TEST_P(CatalogueCrash, NothingAcknowledgedIsLost) {
  const std::string dir = MakeStore();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::setenv("ASSAY_KILLPOINT", GetParam(), 1);
    ::setenv("CATALOGUE_CRASH_DIR", dir.c_str(), 1);
    ::execl("/proc/self/exe", "db_test", "--gtest_filter=CatalogueCrashChild.Commit", nullptr);
    ::_exit(99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  const auto catalogue = OpenOk(dir);
  ASSERT_NE(catalogue, nullptr);
  const int rows = CountRows(*catalogue);
  EXPECT_GE(rows, kBatches);
  EXPECT_LE(rows, kBatches + 1);
  EXPECT_TRUE(catalogue->Commit({Model(5000)}).ok());
}
INSTANTIATE_TEST_SUITE_P(Points, CatalogueCrash,
                         testing::Values("db:before_commit", "db:committed", "db:anchored"));

TEST(CatalogueCrashChild, Commit) {
  const char* dir = std::getenv("CATALOGUE_CRASH_DIR");
  if (dir == nullptr) GTEST_SKIP() << "runs as a child of CatalogueCrash only";
  ASSERT_TRUE(OpenOk(dir)->Commit({Model(4000)}).ok());
}

EvidenceRow Evidence(uint64_t unit, const std::string& lease) {
  EvidenceRow row;
  row.unit = unit;
  row.lease = lease;
  row.result_json = "{}";
  return row;
}

TEST(CatalogueEvidence, IsReadInOrderOfUnitsFromOneOn) {
  const std::string dir = TempDir();
  const auto catalogue = OpenOk(dir);
  UnitRow unit;
  unit.id = 300;
  ASSERT_TRUE(catalogue
                  ->Commit({Evidence(300, "1-300-2"), Evidence(2, "1-2-2"), Evidence(2, "1-2-3"),
                            Evidence(70'000, "1-70000-1"), unit, Model(1)})
                  .ok());
  const auto read = [&](uint64_t from, size_t most) {
    std::string out;
    size_t n = 0;
    EXPECT_TRUE(catalogue
                    ->ForEachEvidence(from,
                                      [&](EvidenceRow row) {
                                        out += row.lease + " ";
                                        return ++n < most;
                                      })
                    .ok());
    return out;
  };
  EXPECT_EQ(read(0, 10), "1-2-2 1-2-3 1-300-2 1-70000-1 ");
  EXPECT_EQ(read(3, 10), "1-300-2 1-70000-1 ");
  EXPECT_EQ(read(0, 3), "1-2-2 1-2-3 1-300-2 ");
  EXPECT_EQ(read(70'001, 10), "");
}

// A store whose bytes turn bad while it is in use.
class TurningStore : public KvStore {
 public:
  TurningStore(std::unique_ptr<KvStore> good, const bool* bad)
      : good_(std::move(good)), bad_(bad) {}
  absl::Status Write(const std::vector<KvPut>& puts) override { return good_->Write(puts); }
  absl::StatusOr<std::optional<std::string>> Get(size_t table,
                                                 std::string_view key) const override {
    auto value = good_->Get(table, key);
    if (value.ok() && value->has_value()) *value = Turned(**value);
    return value;
  }
  absl::Status Scan(size_t table, std::string_view first, std::string_view end,
                    const Sink& sink) const override {
    return good_->Scan(table, first, end, [&](std::string_view key, std::string_view value) {
      return sink(key, Turned(value));
    });
  }

 private:
  std::string Turned(std::string_view value) const {
    std::string out(value);
    if (*bad_ && !out.empty()) out.back() = static_cast<char>(out.back() ^ 1);
    return out;
  }
  const std::unique_ptr<KvStore> good_;
  const bool* const bad_;
};

TEST(CatalogueDamage, ThatIsMetWhileItRunsIsRemembered) {
  using Read = std::function<absl::Status(const Catalogue&)>;
  const Read reads[] = {
      [](const Catalogue& c) { return c.Events("r", 0, 10).status(); },
      [](const Catalogue& c) { return c.Node(0, 0).status(); },
      [](const Catalogue& c) { return c.ForEachEvidence(0, [](EvidenceRow) { return true; }); }};
  for (const Read& read : reads) {
    const std::string dir = TempDir();
    bool bad = false;
    auto rocks = OpenRocks(dir, RocksAccess::kReadWrite);
    ASSERT_TRUE(rocks.ok()) << rocks.status();
    const auto catalogue = Catalogue::Open(std::make_unique<TurningStore>(*std::move(rocks), &bad),
                                           Anchor::Open(dir + "/anchor").value(), dir);
    ASSERT_TRUE(catalogue.ok()) << catalogue.status();
    EventRow event;
    event.run = "r";
    event.revision = 1;
    LogNodeRow node;
    node.hash = std::string(32, 'h');
    ASSERT_TRUE((*catalogue)->Commit({event, node, Evidence(1, "1-1-1")}).ok());
    EXPECT_TRUE(read(**catalogue).ok());
    EXPECT_FALSE((*catalogue)->damaged());
    bad = true;
    EXPECT_EQ(ReasonOf(read(**catalogue)), "STORE_DAMAGED");
    EXPECT_TRUE((*catalogue)->damaged());
    bad = false;
    EXPECT_TRUE(read(**catalogue).ok());
    EXPECT_TRUE((*catalogue)->damaged()) << "until the next start has looked at all of it";
  }
}

}  // namespace
}  // namespace assay
