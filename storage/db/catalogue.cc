#include "storage/db/catalogue.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "storage/base/files.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/anchor.h"
#include "storage/db/chain.h"

namespace assay {
namespace {

constexpr std::array<const char*, kFamilies> kFamilyNames = {"default", "resource", "work",
                                                             "request", "event",    "log"};
constexpr const char* kChainFamily = "chain";
constexpr size_t kMemtableBytes = size_t{16} << 20;
constexpr size_t kBlockCacheBytes = size_t{32} << 20;
constexpr uint64_t kWalBytesMax = uint64_t{64} << 20;
constexpr int kOpenFilesMax = 256;

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

}  // namespace

struct Catalogue::Impl {
  std::string dir;
  int lock_fd = -1;
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> families;  // kFamilies, then the chain
  std::unique_ptr<Anchor> anchor;
  mutable std::mutex mutex;  // seq, hash, log_size
  uint64_t seq = 0;
  std::string hash = std::string(32, '\0');
  std::atomic<uint64_t> log_size{0};

  ~Impl() {
    for (auto* family : families) db->DestroyColumnFamilyHandle(family);
    if (db) db->Close();
    if (lock_fd >= 0) ::close(lock_fd);
  }
  rocksdb::ColumnFamilyHandle* chain() const { return families[kFamilies]; }
  rocksdb::ColumnFamilyHandle* family(Family f) const { return families[static_cast<size_t>(f)]; }

  absl::Status OpenStore();
  absl::Status VerifyChain();
};

absl::Status Catalogue::Impl::OpenStore() {
  const auto cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const char* name : kFamilyNames) descriptors.emplace_back(name, FamilyOptions(cache));
  descriptors.emplace_back(kChainFamily, FamilyOptions(cache));
  rocksdb::DB* raw = nullptr;
  const std::string path = JoinPath(dir, "db");
  const auto status = rocksdb::DB::Open(StoreOptions(), path, descriptors, &families, &raw);
  db.reset(raw);
  return FromRocks(status, "opening the catalogue " + path);
}

absl::Status Catalogue::Impl::VerifyChain() {
  std::string anchored_hash;
  const auto anchored = anchor->value();
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(read, chain()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    ASSAY_ASSIGN_OR_RETURN(
        const ChainLink link,
        DecodeLink(it->value().ToStringView(), dir + ": link " + std::to_string(seq + 1)));
    ASSAY_RETURN_IF_ERROR(Annotate(CheckLink(link, seq, hash), dir));
    seq = link.seq;
    hash = link.hash;
    if (anchored && seq == anchored->seq)
      anchored_hash = HexOf(std::span(reinterpret_cast<const uint8_t*>(hash.data()), hash.size()));
  }
  ASSAY_RETURN_IF_ERROR(FromRocks(it->status(), "reading the batch chain in " + dir));
  if (!anchored) {
    if (seq <= 1) return absl::OkStatus();  // a crash before the very first anchor
    return DataLossError("STORE_DAMAGED", dir + ": the anchor file is gone but the catalogue has " +
                                              std::to_string(seq) +
                                              " batches; restore the anchor from a backup");
  }
  if (anchored->seq > seq) {
    return DataLossError("STORE_DAMAGED",
                         dir + ": the catalogue ends with batch " + std::to_string(seq) + " but " +
                             std::to_string(anchored->seq) + " were acknowledged; batches " +
                             std::to_string(seq + 1) + " to " + std::to_string(anchored->seq) +
                             " are lost. Restore the data folder from a backup");
  }
  if (anchored_hash != anchored->hash_hex) {
    return DataLossError(
        "STORE_DAMAGED",
        dir + ": batch " + std::to_string(anchored->seq) +
            " is not the one the anchor file names; the catalogue and the anchor do "
            "not belong together. Restore both from one backup");
  }
  return absl::OkStatus();
}

Catalogue::Catalogue(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Catalogue::~Catalogue() = default;

absl::StatusOr<std::unique_ptr<Catalogue>> Catalogue::Open(const CatalogueOptions& options) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(options.dir, 0750));
  auto impl = std::make_unique<Impl>();
  impl->dir = options.dir;
  ASSAY_ASSIGN_OR_RETURN(impl->lock_fd, LockFolder(options.dir));
  const std::string anchor_path =
      options.anchor_path.empty() ? JoinPath(options.dir, "anchor") : options.anchor_path;
  ASSAY_ASSIGN_OR_RETURN(impl->anchor, Anchor::Open(anchor_path));
  ASSAY_RETURN_IF_ERROR(impl->OpenStore());
  ASSAY_RETURN_IF_ERROR(impl->VerifyChain());
  std::unique_ptr<Catalogue> catalogue(new Catalogue(std::move(impl)));
  // Log size comes with the meta row.
  ASSAY_RETURN_IF_ERROR(catalogue->LoadAll([&](Row row) {
    if (const auto* meta = std::get_if<MetaRow>(&row)) catalogue->impl_->log_size = meta->log_size;
  }));
  return catalogue;
}

absl::Status Catalogue::Commit(const std::vector<Row>& rows) {
  if (rows.empty()) return absl::OkStatus();
  rocksdb::WriteBatch batch(0, 0, /*protection_bytes_per_key=*/8, 0);
  BatchDigest digest;
  uint64_t log_size = impl_->log_size;
  for (const Row& row : rows) {
    const RowKey key = KeyOf(row);
    const std::string value = EncodeRow(row);
    if (value.size() > kRowBytesMax) {
      return InternalError("STORE_WRITE_FAILED",
                           "a row of " + std::to_string(value.size()) + " bytes is too large");
    }
    digest.Add(key.key, value);
    batch.Put(impl_->family(key.family), key.key, value);
    if (const auto* meta = std::get_if<MetaRow>(&row)) log_size = meta->log_size;
  }
  std::lock_guard<std::mutex> lock(impl_->mutex);
  const ChainLink link = NextLink(impl_->seq, impl_->hash, digest.Finish());
  std::string chain_key(8, '\0');
  for (int i = 7, shift = 0; i >= 0; --i, shift += 8) {
    chain_key[static_cast<size_t>(i)] = static_cast<char>((link.seq >> shift) & 0xff);
  }
  batch.Put(impl_->chain(), chain_key, EncodeLink(link));
  AssayKillPoint("db:before_commit");
  rocksdb::WriteOptions write;
  write.sync = true;
  ASSAY_RETURN_IF_ERROR(
      FromRocks(impl_->db->Write(write, &batch),
                "committing batch " + std::to_string(link.seq) + " in " + impl_->dir));
  AssayKillPoint("db:committed");
  impl_->seq = link.seq;
  impl_->hash = link.hash;
  impl_->log_size = log_size;
  ASSAY_RETURN_IF_ERROR(impl_->anchor->Write(
      {link.seq,
       HexOf(std::span(reinterpret_cast<const uint8_t*>(link.hash.data()), link.hash.size()))}));
  AssayKillPoint("db:anchored");
  return absl::OkStatus();
}

absl::Status Catalogue::LoadAll(const std::function<void(Row)>& sink) const {
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  for (const Family family : {Family::kMeta, Family::kResource, Family::kWork, Family::kRequest}) {
    std::unique_ptr<rocksdb::Iterator> it(impl_->db->NewIterator(read, impl_->family(family)));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      ASSAY_ASSIGN_OR_RETURN(
          Row row, DecodeRow(it->value().ToStringView(),
                             impl_->dir + ": family " + kFamilyNames[static_cast<size_t>(family)] +
                                 ", key " + it->key().ToString(/*hex=*/true)));
      if (KeyOf(row).key != it->key().ToStringView()) {
        return DataLossError("STORE_DAMAGED",
                             impl_->dir +
                                 ": a row lies under the key of another one; restore the "
                                 "data folder from a backup");
      }
      if (!std::holds_alternative<EvidenceRow>(row)) sink(std::move(row));
    }
    ASSAY_RETURN_IF_ERROR(FromRocks(it->status(), "reading the catalogue in " + impl_->dir));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EventRow>> Catalogue::Events(std::string_view run, uint64_t after,
                                                        size_t limit) const {
  const std::string first = EventKey(run, after + 1);
  const std::string end = EventKey(run, UINT64_MAX);
  const rocksdb::Slice upper(end);
  rocksdb::ReadOptions read;
  read.iterate_upper_bound = &upper;
  std::unique_ptr<rocksdb::Iterator> it(
      impl_->db->NewIterator(read, impl_->family(Family::kEvent)));
  std::vector<EventRow> events;
  for (it->Seek(first); it->Valid() && events.size() < limit; it->Next()) {
    ASSAY_ASSIGN_OR_RETURN(Row row,
                           DecodeRow(it->value().ToStringView(),
                                     impl_->dir + ": an event of run " + std::string(run)));
    if (auto* event = std::get_if<EventRow>(&row)) events.push_back(std::move(*event));
  }
  ASSAY_RETURN_IF_ERROR(FromRocks(it->status(), "reading events in " + impl_->dir));
  return events;
}

uint64_t Catalogue::size() const { return impl_->log_size; }

absl::StatusOr<DigestBytes> Catalogue::Node(uint32_t level, uint64_t index) const {
  std::string value;
  const auto status = impl_->db->Get(rocksdb::ReadOptions(), impl_->family(Family::kLog),
                                     LogNodeKey(level, index), &value);
  const std::string where =
      impl_->dir + ": log node (" + std::to_string(level) + ", " + std::to_string(index) + ")";
  if (status.IsNotFound()) return DataLossError("LOG_NODE_MISSING", where + " was never written");
  ASSAY_RETURN_IF_ERROR(FromRocks(status, where));
  ASSAY_ASSIGN_OR_RETURN(const Row row, DecodeRow(value, where));
  const auto* node = std::get_if<LogNodeRow>(&row);
  DigestBytes hash{};
  if (node == nullptr || node->hash.size() != hash.size()) {
    return DataLossError("STORE_DAMAGED",
                         where + " has no hash; restore the data folder from a backup");
  }
  std::copy(node->hash.begin(), node->hash.end(), hash.begin());
  return hash;
}

uint64_t Catalogue::seq() const {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->seq;
}

std::string Catalogue::head_hash() const {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->hash;
}

}  // namespace assay
