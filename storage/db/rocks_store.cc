#include "storage/db/rocks_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/anchor.h"
#include "storage/db/catalogue.h"
#include "storage/db/kv_store.h"

namespace assay {
namespace {

constexpr std::array<const char*, kCatalogueTables> kTableNames = {
    "default", "resource", "work", "request", "event", "log", "chain"};
constexpr size_t kMemtableBytes = size_t{16} << 20;
constexpr size_t kBlockCacheBytes = size_t{32} << 20;
constexpr uint64_t kWalBytesMax = uint64_t{64} << 20;
constexpr int kOpenFilesMax = 256;

// Swallows RocksDB's own log, which would be written into a folder that is only read.
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

absl::Status FromRocks(const rocksdb::Status& s, const std::string& what) {
  if (s.ok()) return absl::OkStatus();
  const std::string text = what + ": " + s.ToString();
  if (s.IsNoSpace()) return ExhaustedError("DISK_FULL", text);
  if (s.IsCorruption()) {
    return DataLossError("STORE_DAMAGED", text + "; restore the data folder from a backup");
  }
  return Error(absl::StatusCode::kInternal, "STORE_FAILED", text);
}

rocksdb::ColumnFamilyOptions FamilyOptions(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = kMemtableBytes;
  options.force_consistency_checks = true;
  options.paranoid_file_checks = true;
  options.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.verify_compression = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::DBOptions StoreOptions() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  // Fails loudly on damage inside the log; only a torn tail, which was never acknowledged, is
  // dropped.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.verify_sst_unique_id_in_manifest = true;
  options.paranoid_checks = true;
  options.recycle_log_file_num = 0;
  options.allow_mmap_reads = false;
  options.allow_mmap_writes = false;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.max_log_file_size = size_t{4} << 20;
  options.keep_log_file_num = 4;
  options.max_open_files = kOpenFilesMax;
  options.max_total_wal_size = kWalBytesMax;
  options.max_background_jobs = 2;
  return options;
}

// An exclusive advisory lock on dir/LOCK for the life of the process or the object.
absl::StatusOr<int> LockFolder(const std::string& dir) {
  const std::string path = JoinPath(dir, "LOCK");
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) return ErrnoError(errno, "opening " + path);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(fd);
    if (error != EWOULDBLOCK) return ErrnoError(error, "locking " + path);
    return UnavailableError("STORE_IN_USE", "another process is using the data folder " + dir +
                                                "; stop it or choose another --data folder");
  }
  return fd;
}

class RocksStore : public KvStore {
 public:
  RocksStore(std::string dir, int lock_fd) : dir_(std::move(dir)), lock_fd_(lock_fd) {}
  ~RocksStore() override {
    for (auto* table : tables_) db_->DestroyColumnFamilyHandle(table);
    if (db_) db_->Close();
    db_.reset();
    ::close(lock_fd_);
  }

  absl::Status Open(RocksAccess access) {
    const auto cache = rocksdb::NewLRUCache(kBlockCacheBytes);
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const char* name : kTableNames) descriptors.emplace_back(name, FamilyOptions(cache));
    rocksdb::DB* raw = nullptr;
    const std::string path = JoinPath(dir_, "db");
    rocksdb::DBOptions options = StoreOptions();
    rocksdb::Status status;
    if (access == RocksAccess::kReadWrite) {
      status = rocksdb::DB::Open(options, path, descriptors, &tables_, &raw);
    } else {
      options.create_if_missing = false;
      options.create_missing_column_families = false;
      options.info_log = std::make_shared<NoLog>();
      if (access == RocksAccess::kReadOnlySkipDamage) {
        options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
        options.track_and_verify_wals_in_manifest = false;
        options.paranoid_checks = false;
      }
      status = rocksdb::DB::OpenForReadOnly(options, path, descriptors, &tables_, &raw);
    }
    db_.reset(raw);
    return FromRocks(status, "opening the catalogue " + path);
  }

  absl::Status Write(const std::vector<KvPut>& puts) override {
    rocksdb::WriteBatch batch(0, 0, /*protection_bytes_per_key=*/8, 0);
    for (const KvPut& put : puts) {
      if (put.remove) {
        batch.Delete(tables_[put.table], put.key);
      } else {
        batch.Put(tables_[put.table], put.key, put.value);
      }
    }
    rocksdb::WriteOptions write;
    write.sync = true;
    return FromRocks(db_->Write(write, &batch), "writing in " + dir_);
  }

  absl::StatusOr<std::optional<std::string>> Get(size_t table,
                                                 std::string_view key) const override {
    std::string value;
    const auto status = db_->Get(rocksdb::ReadOptions(), tables_[table], key, &value);
    if (status.IsNotFound()) return std::nullopt;
    ASSAY_RETURN_IF_ERROR(FromRocks(status, "reading in " + dir_));
    return value;
  }

  absl::Status Scan(size_t table, std::string_view first, std::string_view end,
                    const Sink& sink) const override {
    const rocksdb::Slice upper(end);
    rocksdb::ReadOptions read;
    read.verify_checksums = true;
    if (!end.empty()) read.iterate_upper_bound = &upper;
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read, tables_[table]));
    for (it->Seek(first); it->Valid(); it->Next()) {
      ASSAY_ASSIGN_OR_RETURN(const bool more,
                             sink(it->key().ToStringView(), it->value().ToStringView()));
      if (!more) return absl::OkStatus();
    }
    return FromRocks(it->status(),
                     "reading table " + std::string(kTableNames[table]) + " in " + dir_);
  }

  absl::Status Checkpoint(const std::string& dest) const override {
    const std::string what = "copying the catalogue to " + dest;
    rocksdb::Checkpoint* raw = nullptr;
    ASSAY_RETURN_IF_ERROR(FromRocks(rocksdb::Checkpoint::Create(db_.get(), &raw), what));
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    return FromRocks(checkpoint->CreateCheckpoint(dest), what);
  }

  absl::Status MakeAnew(size_t table) override {
    const std::string what = std::string("emptying table ") + kTableNames[table];
    auto*& handle = tables_[table];
    const rocksdb::ColumnFamilyOptions options = db_->GetOptions(handle);
    ASSAY_RETURN_IF_ERROR(FromRocks(db_->DropColumnFamily(handle), what));
    db_->DestroyColumnFamilyHandle(handle);
    handle = nullptr;
    return FromRocks(db_->CreateColumnFamily(options, kTableNames[table], &handle), what);
  }

 private:
  std::string dir_;
  int lock_fd_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> tables_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvStore>> OpenRocks(const std::string& dir, RocksAccess access) {
  ASSAY_ASSIGN_OR_RETURN(const int lock_fd, LockFolder(dir));
  auto store = std::make_unique<RocksStore>(dir, lock_fd);
  ASSAY_RETURN_IF_ERROR(store->Open(access));
  return store;
}

const char* FamilyName(Family family) { return kTableNames[static_cast<size_t>(family)]; }

absl::StatusOr<std::unique_ptr<Catalogue>> Catalogue::Open(const CatalogueOptions& options) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(options.dir, 0750));
  // The lock comes first: an anchor must not be read while another process moves it.
  ASSAY_ASSIGN_OR_RETURN(auto store, OpenRocks(options.dir, RocksAccess::kReadWrite));
  ASSAY_ASSIGN_OR_RETURN(auto anchor, Anchor::Open(AnchorPath(options)));
  return Open(std::move(store), std::move(anchor), options.dir, options.repair);
}

}  // namespace assay
