#include "storage/blob/blob_store.h"

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

absl::StatusOr<std::string> PutBlob(BlobStore& store, std::string_view bytes) {
  const std::string sha256 = Sha256Hex(bytes);
  if (store.HasIntact(sha256)) return sha256;
  ASSAY_ASSIGN_OR_RETURN(auto writer, store.Write(sha256, bytes.size()));
  // A partial file of the same digest holds a prefix of these bytes or fails its digest at Commit.
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint64_t from = writer->offset();
  ASSAY_RETURN_IF_ERROR(writer->Append({data + from, bytes.size() - from}));
  ASSAY_RETURN_IF_ERROR(writer->Commit());
  return sha256;
}

absl::StatusOr<std::string> GetBlob(const BlobStore& store, const std::string& sha256,
                                    uint64_t max_bytes) {
  ASSAY_ASSIGN_OR_RETURN(const auto reader, store.Read(sha256));
  if (reader->size() > max_bytes) {
    return ExhaustedError("BLOB_TOO_LARGE", "blob " + sha256 + " has " +
                                                std::to_string(reader->size()) +
                                                " bytes, more than " + std::to_string(max_bytes));
  }
  std::string bytes(reader->size(), '\0');
  ASSAY_RETURN_IF_ERROR(
      reader->ReadAt(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}));
  if (Sha256Hex(bytes) != sha256) {
    return DataLossError("BLOB_CORRUPT",
                         "blob " + sha256 +
                             ": the stored bytes have another digest; restore it from a "
                             "backup or upload it again");
  }
  return bytes;
}

}  // namespace assay
