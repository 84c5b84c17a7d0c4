// Any row of the catalogue, its key, and its stored bytes.
//
// Stored form: 12-byte header (magic "AsRw", format version, row kind, two zero bytes, CRC-32C of
// the payload, little endian) and an assay.store.v1 message.

#ifndef ASSAY_STORAGE_DB_ROW_H_
#define ASSAY_STORAGE_DB_ROW_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "storage/db/rows.h"

namespace assay {

// The order of alternatives is part of the stored format (row kind = index + 1): append only.
using Row =
    std::variant<SuiteRow, ModelRow, HeadRow, CaptureRow, CaptureFileRow, RunRow, UnitRow,
                 ReportRow, ReceiptRow, RequestIdRow, EventRow, EvidenceRow, LogNodeRow, MetaRow>;

inline constexpr uint8_t kRowFormatVersion = 1;
inline constexpr uint64_t kRowBytesMax = uint64_t{64} << 20;

enum class Family { kMeta, kResource, kWork, kRequest, kEvent, kLog };
inline constexpr int kFamilies = 6;

struct RowKey {
  Family family;
  std::string
      key;  // first byte: row kind; integers big-endian, so that iteration is in numeric order
};
RowKey KeyOf(const Row& row);

// Prefix of every EventRow key of `run`; and the key of revision `revision`.
std::string EventKey(std::string_view run, uint64_t revision);
std::string LogNodeKey(uint32_t level, uint64_t index);

std::string EncodeRow(const Row& row);
// STORE_DAMAGED naming `where` when magic, checksum or message do not check; STORE_VERSION for a
// newer format.
absl::StatusOr<Row> DecodeRow(std::string_view bytes, std::string_view where);

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t Crc32c(std::string_view bytes);

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_ROW_H_
