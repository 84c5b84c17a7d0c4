#include "server/maintain/backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "server/engine/consistency.h"
#include "server/engine/restore.h"
#include "server/maintain/references.h"
#include "storage/base/build_info.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/inspect.h"

namespace assay {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr uint64_t kSmallFileBytesMax = uint64_t{1} << 24;

// Not copied as files: what has its own way, and what is made again.
const std::set<std::string>& Skipped() {
  static const std::set<std::string> names = {
      "db",      "blobs",   "suites",      "LOCK",          "anchor",
      "ballast", "control", "backup.json", "restored.json", kBackupUnfinished};
  return names;
}

absl::Status MakeFolder(const std::string& dest) {
  if (IsDirectory(dest)) {
    ASSAY_ASSIGN_OR_RETURN(const auto names, ListDirectory(dest));
    if (!names.empty()) {
      return PreconditionError("BACKUP_EXISTS",
                               dest + " is not empty; a backup wants a folder of its own");
    }
  }
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(dest, 0700));
  return WriteFileAtomic(JoinPath(dest, kBackupUnfinished), "This backup is not finished.\n", 0600);
}

// Keys and other small files of the data folder, with their modes.
absl::Status CopyFiles(const std::string& from, const std::string& to) {
  ASSAY_ASSIGN_OR_RETURN(const auto names, ListDirectory(from));
  for (const std::string& name : names) {
    const std::string source = JoinPath(from, name), target = JoinPath(to, name);
    struct stat st {};
    if (Skipped().count(name) != 0 || ::lstat(source.c_str(), &st) != 0) continue;
    if (S_ISDIR(st.st_mode)) {
      ASSAY_RETURN_IF_ERROR(EnsureDirectory(target, st.st_mode & 0777u));
      ASSAY_RETURN_IF_ERROR(CopyFiles(source, target));
    } else if (S_ISREG(st.st_mode)) {
      ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source, kSmallFileBytesMax));
      ASSAY_RETURN_IF_ERROR(WriteFileAtomic(target, bytes, st.st_mode & 0777u));
    }
  }
  return absl::OkStatus();
}

// The target digests what it is given, so a blob whose bytes have changed is found here.
absl::Status CopyBlob(const BlobStore& from, const BlobInfo& info, FileBlobStore* to) {
  ASSAY_ASSIGN_OR_RETURN(const auto reader, from.Read(info.sha256));
  ASSAY_ASSIGN_OR_RETURN(const auto writer, to->Write(info.sha256, reader->size()));
  std::vector<uint8_t> piece(kPieceBytes);
  for (uint64_t at = writer->offset(); at < reader->size();) {
    const std::span<uint8_t> part(piece.data(),
                                  std::min<uint64_t>(piece.size(), reader->size() - at));
    ASSAY_RETURN_IF_ERROR(reader->ReadAt(at, part));
    ASSAY_RETURN_IF_ERROR(writer->Append(part));
    at += part.size();
  }
  return writer->Commit();
}

absl::Status CopyBlobs(const BackupSource& source, const std::string& dest, BackupResult* out) {
  ASSAY_ASSIGN_OR_RETURN(const References references,
                         FindReferences(source.catalogue, source.blobs));
  FileBlobStoreOptions options;
  options.dir = JoinPath(dest, "blobs");
  ASSAY_ASSIGN_OR_RETURN(const auto target, FileBlobStore::Open(options));
  for (const BlobInfo& info : references.blobs) {
    if (references.unreadable.empty() && references.named.count(info.sha256) == 0) continue;
    const absl::Status status = CopyBlob(source.blobs, info, target.get());
    if (ReasonOf(status) == "DIGEST_MISMATCH" || ReasonOf(status) == "BLOB_CORRUPT") {
      ++out->damaged;
      continue;
    }
    ASSAY_RETURN_IF_ERROR(status);
    ++out->blobs;
    out->bytes += info.bytes;
    AssayKillPoint("backup:blob");
  }
  StoredRows rows;
  ASSAY_RETURN_IF_ERROR(
      InspectCatalogue({dest, ""}, [&](const Row& row) { rows.Absorb(row); }).status());
  for (const Damage& damage : CheckSealed(rows.state, *target)) {
    return DataLossError("BLOB_CORRUPT", damage.what +
                                             " in the backup: it is damaged in the data folder; "
                                             "stop the coordinator and run assayd fsck");
  }
  return absl::OkStatus();
}

}  // namespace

std::string BackupResult::ToText(const std::string& dest) const {
  std::string out = "backup: " + std::to_string(batches) + " batches, " + std::to_string(log_size) +
                    " sealed, " + std::to_string(blobs) + " blobs of " + std::to_string(bytes) +
                    " bytes in " + dest + "\n";
  if (damaged > 0) {
    out += "warning: " + std::to_string(damaged) +
           " blobs were left out because their bytes have changed; stop the coordinator and run "
           "assayd fsck\n";
  }
  return out;
}

absl::StatusOr<BackupResult> Backup(const BackupSource& source, const std::string& dest) {
  ASSAY_RETURN_IF_ERROR(MakeFolder(dest));
  BackupResult out;
  ASSAY_ASSIGN_OR_RETURN(const CatalogueMark mark, source.catalogue.Checkpoint(dest));
  AssayKillPoint("backup:checkpoint");
  out.batches = mark.seq;
  out.log_size = mark.log_size;
  ASSAY_RETURN_IF_ERROR(CopyFiles(source.data_dir, dest));
  ASSAY_RETURN_IF_ERROR(CopyBlobs(source, dest, &out));
  const Json manifest = {{"schema", "assay-backup/1"}, {"build", BuildId()},
                         {"batches", out.batches},     {"head_hash", mark.hash_hex},
                         {"log_size", out.log_size},   {"blobs", out.blobs},
                         {"blob_bytes", out.bytes},    {"blobs_left_out", out.damaged}};
  ASSAY_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(dest, kBackupManifest), manifest.dump(2) + "\n", 0640));
  AssayKillPoint("backup:written");
  const std::string unfinished = JoinPath(dest, kBackupUnfinished);
  if (::unlink(unfinished.c_str()) != 0) return ErrnoError(errno, "removing " + unfinished);
  ASSAY_RETURN_IF_ERROR(SyncDirectory(dest));
  return out;
}

}  // namespace assay
