#include "storage/blob/file_blob_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/base/sync_trace_test_util.h"

namespace assay {
namespace {

std::string TempDir() {
  std::string name = testing::TempDir() + "/blobXXXXXX";
  return ::mkdtemp(name.data());
}

std::unique_ptr<FileBlobStore> OpenAt(const std::string& dir) {
  FileBlobStoreOptions options;
  options.dir = dir;
  options.max_blob_bytes = 1 << 20;
  return FileBlobStore::Open(options).value();
}

std::span<const uint8_t> Bytes(std::string_view s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}

// SHA-256 of "abc" (FIPS 180-2).
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(FileBlobStore, StoresUnderTheDigestWithFanOut) {
  const std::string dir = TempDir();
  const auto store = OpenAt(dir);
  EXPECT_FALSE(store->Has(kAbc));
  EXPECT_EQ(ReasonOf(store->Read(kAbc).status()), "BLOB_MISSING");
  EXPECT_EQ(PutBlob(*store, "abc").value(), kAbc);
  EXPECT_EQ(ReadFile(dir + "/ba/78/" + kAbc, 10).value(), "abc");
  EXPECT_EQ(GetBlob(*store, kAbc, 10).value(), "abc");
  EXPECT_EQ(ReasonOf(GetBlob(*store, kAbc, 2).status()), "BLOB_TOO_LARGE");
  EXPECT_TRUE(ListDirectory(dir + "/partial").value().empty());
}

TEST(FileBlobStore, WrongBytesNeverBecomeABlob) {
  const std::string dir = TempDir();
  const auto store = OpenAt(dir);
  {
    auto writer = store->Write(kAbc, 3).value();
    ASSERT_TRUE(writer->Append(Bytes("abd")).ok());
    EXPECT_EQ(ReasonOf(writer->Commit()), "DIGEST_MISMATCH");
  }
  EXPECT_FALSE(store->Has(kAbc));
  EXPECT_EQ(store->WriteStatus(kAbc).value().committed_size, 0u);
  EXPECT_EQ(PutBlob(*store, "abc").value(), kAbc);
}

TEST(FileBlobStore, ResumesAPartialUploadAndHashesItAgain) {
  const std::string dir = TempDir();
  {
    const auto store = OpenAt(dir);
    auto writer = store->Write(kAbc, 3).value();
    ASSERT_TRUE(writer->Append(Bytes("ab")).ok());
    EXPECT_EQ(ReasonOf(writer->Commit()), "BLOB_SIZE");
    EXPECT_EQ(ReasonOf(store->Write(kAbc, 3).status()), "BLOB_BUSY");
  }
  const auto store = OpenAt(dir);
  EXPECT_EQ(store->WriteStatus(kAbc).value().committed_size, 2u);
  {
    auto writer = store->Write(kAbc, 3).value();
    EXPECT_EQ(writer->offset(), 2u);
    EXPECT_EQ(ReasonOf(writer->Append(Bytes("cd"))), "BLOB_SIZE");
    ASSERT_TRUE(writer->Append(Bytes("c")).ok());
    ASSERT_TRUE(writer->Commit().ok());
  }
  EXPECT_TRUE(store->WriteStatus(kAbc).value().complete);
  // A partial file that was damaged between two calls is found out at the end.
  const std::string other = Sha256Hex("xyz");
  ASSERT_TRUE(WriteFile(dir + "/partial/" + other, "xx").ok());
  auto writer = store->Write(other, 3).value();
  ASSERT_TRUE(writer->Append(Bytes("z")).ok());
  EXPECT_EQ(ReasonOf(writer->Commit()), "DIGEST_MISMATCH");
  EXPECT_FALSE(store->Has(other));
}

TEST(FileBlobStore, RefusesBadNamesAndSizes) {
  const auto store = OpenAt(TempDir());
  EXPECT_EQ(ReasonOf(store->Write("../../etc/passwd", 3).status()), "DIGEST_INVALID");
  EXPECT_EQ(ReasonOf(store->Read(std::string(64, 'A')).status()), "DIGEST_INVALID");
  EXPECT_EQ(ReasonOf(store->Write(kAbc, (1 << 20) + 1).status()), "BLOB_TOO_LARGE");
  ASSERT_TRUE(PutBlob(*store, "abc").ok());
  EXPECT_EQ(ReasonOf(store->Write(kAbc, 4).status()), "BLOB_SIZE");
  EXPECT_EQ(store->Write(kAbc, 3).value()->offset(), 3u);
}

TEST(FileBlobStore, AnUploadThatNobodyGoesOnWithIsDroppedAtLast) {
  const std::string dir = TempDir();
  OpenAt(dir);
  const std::string kept = Sha256Hex("kept");
  for (const std::string& name : {std::string(kAbc), kept}) {
    ASSERT_TRUE(WriteFile(dir + "/partial/" + name, "a").ok());
  }
  const auto age = [&](const std::string& name, int hours) {
    std::filesystem::last_write_time(
        dir + "/partial/" + name,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  age(kept, 6 * 24);
  age(kAbc, 8 * 24);
  const auto store = OpenAt(dir);
  EXPECT_EQ(store->WriteStatus(kAbc).value().committed_size, 0u);
  EXPECT_EQ(store->WriteStatus(kept).value().committed_size, 1u);
}

TEST(FileBlobStore, ChangedBytesCanBeWrittenAnew) {
  const std::string dir = TempDir();
  const auto store = OpenAt(dir);
  PutBlob(*store, "abc").value();
  const std::string path = dir + "/ba/78/" + kAbc;
  for (const char* damage : {"abd", "ab", ""}) {
    ASSERT_TRUE(WriteFile(path, damage).ok());
    EXPECT_FALSE(store->HasIntact(kAbc)) << damage;
    EXPECT_FALSE(store->WriteStatus(kAbc).value().complete) << damage;
    EXPECT_EQ(PutBlob(*store, "abc").value(), kAbc);
    EXPECT_EQ(GetBlob(*store, kAbc, 10).value(), "abc");
    EXPECT_TRUE(store->HasIntact(kAbc));
  }
  EXPECT_EQ(ReasonOf(store->Write(kAbc, 4).status()), "BLOB_SIZE");
}

TEST(FileBlobStore, FindsChangedBytes) {
  const std::string dir = TempDir();
  const auto store = OpenAt(dir);
  ASSERT_TRUE(PutBlob(*store, "abc").ok());
  EXPECT_TRUE(store->Verify(kAbc).ok());
  ASSERT_TRUE(WriteFile(dir + "/ba/78/" + kAbc, "abd").ok());
  EXPECT_EQ(ReasonOf(store->Verify(kAbc)), "BLOB_CORRUPT");
  EXPECT_EQ(ReasonOf(GetBlob(*store, kAbc, 10).status()), "BLOB_CORRUPT");
}

// A blob counts once its bytes, its folders and its name are durable, in this order.
TEST(FileBlobStore, BytesAndFoldersAreDurableBeforeTheName) {
  const std::string dir = std::filesystem::canonical(TempDir()).string();
  const auto store = OpenAt(dir);
  const SyncTrace trace;
  ASSERT_TRUE(PutBlob(*store, "abc").ok());
  const std::string partial = dir + "/partial/" + kAbc, path = dir + "/ba/78/" + kAbc;
  EXPECT_THAT(trace.calls(),
              testing::ElementsAre("sync " + partial, "sync " + dir + "/ba", "sync " + dir,
                                   "rename " + partial + " -> " + path, "sync " + dir + "/ba/78"));
}

// Runs PutBlob in a child that is killed at `point`, then looks at what a new process finds.
TEST(FileBlobStore, AQuotaRefusesAndGoesOnWhenThereIsRoom) {
  const std::string dir = TempDir();
  ASSERT_TRUE(PutBlob(*OpenAt(dir), "12345").ok());
  FileBlobStoreOptions options;
  options.dir = dir;
  options.max_stored_bytes = 10;
  const auto store = FileBlobStore::Open(options).value();
  EXPECT_EQ(store->stored_bytes(), 5u);
  const std::string five = PutBlob(*store, "67890").value();
  EXPECT_EQ(ReasonOf(PutBlob(*store, "x").status()), "QUOTA_EXCEEDED");
  EXPECT_EQ(PutBlob(*store, "67890").value(), five) << "what is there needs no room";
  ASSERT_TRUE(store->Remove(five).ok());
  EXPECT_TRUE(store->Remove(five).ok());
  EXPECT_EQ(store->stored_bytes(), 5u);
  EXPECT_TRUE(PutBlob(*store, "abc").ok());
}

TEST(FileBlobStore, ListsWhatIsInItsPlaceAndSetsDamageAside) {
  const std::string dir = TempDir();
  const auto store = OpenAt(dir);
  ASSERT_TRUE(PutBlob(*store, "abc").ok());
  ASSERT_TRUE(PutBlob(*store, "other").ok());
  ASSERT_TRUE(WriteFile(dir + "/ba/78/" + std::string(64, 'f'), "in another one's folder").ok());
  std::vector<std::string> names;
  const auto list = [&] {
    names.clear();
    EXPECT_TRUE(store
                    ->List([&](const BlobInfo& info) {
                      names.push_back(info.sha256);
                      return absl::OkStatus();
                    })
                    .ok());
    return names;
  };
  EXPECT_EQ(list().size(), 2u);
  ASSERT_TRUE(store->Quarantine(kAbc).ok());
  EXPECT_EQ(list().size(), 1u);
  EXPECT_EQ(ReadFile(dir + "/quarantine/" + kAbc, 10).value(), "abc");
  EXPECT_EQ(PutBlob(*store, "abc").value(), kAbc);
  EXPECT_EQ(list().size(), 2u);
}

class BlobCrash : public testing::TestWithParam<const char*> {};

TEST_P(BlobCrash, LeavesNoBlobOrTheWholeBlob) {
  const std::string dir = TempDir();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The kill point reads its variable once, so a fresh program image is needed.
    ::setenv("ASSAY_KILLPOINT", GetParam(), 1);
    ::setenv("BLOB_CRASH_DIR", dir.c_str(), 1);
    ::execl("/proc/self/exe", "blob_test", "--gtest_filter=BlobCrashChild.Put", nullptr);
    ::_exit(99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  const auto store = OpenAt(dir);
  EXPECT_TRUE(!store->Has(kAbc) || store->Verify(kAbc).ok());
  EXPECT_EQ(PutBlob(*store, "abc").value(), kAbc);
  EXPECT_EQ(GetBlob(*store, kAbc, 10).value(), "abc");
  EXPECT_TRUE(ListDirectory(dir + "/partial").value().empty());
}
INSTANTIATE_TEST_SUITE_P(Points, BlobCrash,
                         testing::Values("blob:partial_written", "blob:partial_synced",
                                         "blob:renamed", "blob:published"));

TEST(BlobCrashChild, Put) {
  const char* dir = std::getenv("BLOB_CRASH_DIR");
  if (dir == nullptr) GTEST_SKIP() << "runs as a child of BlobCrash only";
  ASSERT_TRUE(PutBlob(*OpenAt(dir), "abc").ok());
}

}  // namespace
}  // namespace assay
