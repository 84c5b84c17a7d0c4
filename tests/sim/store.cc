#include "tests/sim/store.h"

#include <optional>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/row.h"

namespace assay::sim {
namespace {

// Record: payload size and CRC-32C of the payload (4 bytes each, little endian), payload: for each
// change its table (plus the number of tables: the key goes), sizes and bytes of key and value.
constexpr size_t kHeadBytes = 8;

void AppendU32(std::string* out, size_t value) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

// Takes a number off the front; nothing when there are too few bytes.
std::optional<size_t> TakeU32(std::string_view* in) {
  if (in->size() < 4) return std::nullopt;
  size_t value = 0;
  for (size_t i = 4; i-- > 0;) value = (value << 8) | static_cast<uint8_t>((*in)[i]);
  in->remove_prefix(4);
  return value;
}

std::optional<std::string> TakeText(std::string_view* in) {
  const auto size = TakeU32(in);
  if (!size || *size > in->size()) return std::nullopt;
  std::string text(in->substr(0, *size));
  in->remove_prefix(*size);
  return text;
}

class SimAnchor : public AnchorFile {
 public:
  explicit SimAnchor(Disk* disk) : disk_(disk) {}
  absl::StatusOr<std::string> Read() override { return disk_->Read(kAnchorFile); }
  absl::Status Write(uint64_t offset, std::string_view bytes) override {
    ASSAY_RETURN_IF_ERROR(disk_->Write(kAnchorFile, offset, bytes));
    return disk_->Sync(kAnchorFile);
  }

 private:
  Disk* disk_;
};

}  // namespace

LogStore::LogStore(Disk* disk) : disk_(disk) {
  std::string_view left = disk_->Read(kLogFile);
  while (true) {
    std::string_view record = left;
    const auto size = TakeU32(&record), crc = TakeU32(&record);
    if (!size || !crc || *size == 0 || *size > record.size()) break;
    const std::string_view payload = record.substr(0, *size);
    if (Crc32c(payload) != *crc || !Replay(payload)) break;
    end_ += kHeadBytes + *size;
    left.remove_prefix(kHeadBytes + *size);
  }
  disk_->Truncate(kLogFile, end_);
}

void LogStore::Put(const KvPut& put) {
  if (put.remove) {
    tables_[put.table].erase(put.key);
  } else {
    tables_[put.table][put.key] = put.value;
  }
}

bool LogStore::Replay(std::string_view payload) {
  while (!payload.empty()) {
    const auto table = TakeU32(&payload);
    auto key = TakeText(&payload), value = TakeText(&payload);
    if (!table || *table >= 2 * kCatalogueTables || !key || !value) return false;
    Put({*table % kCatalogueTables, *std::move(key), *std::move(value),
         *table >= kCatalogueTables});
  }
  return true;
}

absl::Status LogStore::Write(const std::vector<KvPut>& puts) {
  if (failed_) return InternalError("STORE_FAILED", "an earlier write failed");
  std::string payload;
  for (const KvPut& put : puts) {
    AppendU32(&payload, put.table + (put.remove ? kCatalogueTables : 0));
    AppendU32(&payload, put.key.size());
    payload += put.key;
    AppendU32(&payload, put.value.size());
    payload += put.value;
  }
  std::string record;
  AppendU32(&record, payload.size());
  AppendU32(&record, Crc32c(payload));
  record += payload;
  failed_ = true;
  ASSAY_RETURN_IF_ERROR(disk_->Write(kLogFile, end_, record));
  ASSAY_RETURN_IF_ERROR(disk_->Sync(kLogFile));
  failed_ = false;
  end_ += record.size();
  for (const KvPut& put : puts) Put(put);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> LogStore::Get(size_t table, std::string_view key) const {
  const auto it = tables_[table].find(key);
  if (it == tables_[table].end()) return std::nullopt;
  return it->second;
}

absl::Status LogStore::Scan(size_t table, std::string_view first, std::string_view end,
                            const Sink& sink) const {
  for (auto it = tables_[table].lower_bound(first);
       it != tables_[table].end() && (end.empty() || it->first < end); ++it) {
    ASSAY_ASSIGN_OR_RETURN(const bool more, sink(it->first, it->second));
    if (!more) break;
  }
  return absl::OkStatus();
}

std::unique_ptr<AnchorFile> NewSimAnchor(Disk* disk) { return std::make_unique<SimAnchor>(disk); }

}  // namespace assay::sim
