#include "storage/db/catalogue.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "storage/base/files.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/chain.h"
#include "storage/db/chain_walk.h"

namespace assay {
namespace {

std::string HexText(const std::string& bytes) {
  return HexOf(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

std::string BigEndian64(uint64_t value) {
  std::string key(8, '\0');
  for (size_t i = 8; i-- > 0; value >>= 8) key[i] = static_cast<char>(value & 0xff);
  return key;
}

size_t TableOf(Family family) { return static_cast<size_t>(family); }

}  // namespace

Catalogue::Catalogue(std::unique_ptr<KvStore> store, std::unique_ptr<Anchor> anchor,
                     std::string where)
    : store_(std::move(store)), anchor_(std::move(anchor)), where_(std::move(where)) {}
Catalogue::~Catalogue() = default;

std::string AnchorPath(const CatalogueOptions& options) {
  return options.anchor_path.empty() ? JoinPath(options.dir, "anchor") : options.anchor_path;
}

absl::Status Catalogue::VerifyChain(bool repair) {
  ChainWalk walk(where_, anchor_->value());
  ASSAY_RETURN_IF_ERROR(store_->Scan(
      kChainTable, "", "", [&](std::string_view, std::string_view value) -> absl::StatusOr<bool> {
        ASSAY_RETURN_IF_ERROR(walk.Next(value));
        return true;
      }));
  seq_ = walk.seq();
  hash_ = walk.hash();
  const AnchorVerdict verdict = walk.Finish();
  const bool can_make =
      verdict.state == AnchorState::kMissing || verdict.state == AnchorState::kBehind;
  if (repair && can_make) return anchor_->Write({seq_, HexText(hash_)});
  ASSAY_RETURN_IF_ERROR(verdict.status);
  // A crash came between the last batch and its anchor. The anchor moves before anything else is
  // committed: after two such crashes in a row it would be taken for an old copy.
  const bool behind = seq_ > 0 && (!anchor_->value() || anchor_->value()->seq != seq_);
  return behind ? anchor_->Write({seq_, HexText(hash_)}) : absl::OkStatus();
}

// Of a catalogue whose meta row cannot be read, the size comes with the row that replaces it.
absl::Status Catalogue::ReadLogSize(bool repair) {
  const RowKey key = KeyOf(MetaRow{});
  ASSAY_ASSIGN_OR_RETURN(const auto value, store_->Get(TableOf(key.family), key.key));
  if (!value) return absl::OkStatus();
  absl::StatusOr<Row> row = DecodeRow(*value, where_ + ": the meta row");
  if (const auto* meta = row.ok() ? std::get_if<MetaRow>(&*row) : nullptr)
    log_size_ = meta->log_size;
  return repair ? absl::OkStatus() : row.status();
}

absl::StatusOr<std::unique_ptr<Catalogue>> Catalogue::Open(std::unique_ptr<KvStore> store,
                                                           std::unique_ptr<Anchor> anchor,
                                                           const std::string& where, bool repair) {
  std::unique_ptr<Catalogue> catalogue(new Catalogue(std::move(store), std::move(anchor), where));
  ASSAY_RETURN_IF_ERROR(catalogue->VerifyChain(repair));
  ASSAY_RETURN_IF_ERROR(catalogue->ReadLogSize(repair));
  return catalogue;
}

absl::Status Catalogue::Commit(const std::vector<Row>& rows, const std::vector<Row>& removed) {
  if (rows.empty() && removed.empty()) return absl::OkStatus();
  std::vector<KvPut> puts;
  puts.reserve(rows.size() + 1);
  BatchDigest digest;
  uint64_t log_size = log_size_;
  for (const Row& row : rows) {
    RowKey key = KeyOf(row);
    std::string value = EncodeRow(row);
    if (value.size() > kRowBytesMax) {
      return InternalError("STORE_WRITE_FAILED",
                           "a row of " + std::to_string(value.size()) + " bytes is too large");
    }
    digest.Add(key.key, value);
    puts.push_back({TableOf(key.family), std::move(key.key), std::move(value), false});
    if (const auto* meta = std::get_if<MetaRow>(&row)) log_size = meta->log_size;
  }
  for (const Row& row : removed) {
    RowKey key = KeyOf(row);
    digest.AddRemoval(key.key);
    puts.push_back({TableOf(key.family), std::move(key.key), "", true});
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const ChainLink link = NextLink(seq_, hash_, digest.Finish());
  puts.push_back({kChainTable, BigEndian64(link.seq), EncodeLink(link), false});
  AssayKillPoint("db:before_commit");
  ASSAY_RETURN_IF_ERROR(
      Annotate(store_->Write(puts), "committing batch " + std::to_string(link.seq)));
  AssayKillPoint("db:committed");
  seq_ = link.seq;
  hash_ = link.hash;
  log_size_ = log_size;
  ASSAY_RETURN_IF_ERROR(anchor_->Write({link.seq, HexText(link.hash)}));
  AssayKillPoint("db:anchored");
  return absl::OkStatus();
}

absl::Status Catalogue::LoadAll(const std::function<void(Row)>& sink) const {
  for (const Family family : {Family::kMeta, Family::kResource, Family::kWork, Family::kRequest,
                              Family::kEvent, Family::kLog}) {
    ASSAY_RETURN_IF_ERROR(store_->Scan(
        TableOf(family), "", "",
        [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
          const std::string hex = HexText(std::string(key));
          ASSAY_ASSIGN_OR_RETURN(
              Row row, DecodeRow(value, where_ + ": table " + std::to_string(TableOf(family)) +
                                            ", key " + hex));
          if (KeyOf(row).key != key) {
            return DataLossError("STORE_DAMAGED",
                                 where_ +
                                     ": a row lies under the key of another one; restore the "
                                     "data folder from a backup");
          }
          sink(std::move(row));
          return true;
        }));
  }
  return absl::OkStatus();
}

absl::Status Catalogue::ForEachValue(const std::function<void(std::string_view)>& sink) const {
  for (size_t table = 0; table < kChainTable; ++table) {
    ASSAY_RETURN_IF_ERROR(store_->Scan(
        table, "", "", [&](std::string_view, std::string_view value) -> absl::StatusOr<bool> {
          sink(value);
          return true;
        }));
  }
  return absl::OkStatus();
}

absl::StatusOr<CatalogueMark> Catalogue::Checkpoint(const std::string& dest) const {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(dest, 0750));
  std::lock_guard<std::mutex> lock(mutex_);
  ASSAY_RETURN_IF_ERROR(store_->Checkpoint(JoinPath(dest, "db")));
  const CatalogueMark mark{seq_, HexText(hash_), log_size_};
  ASSAY_ASSIGN_OR_RETURN(const auto anchor, Anchor::Open(JoinPath(dest, "anchor")));
  if (mark.seq > 0) ASSAY_RETURN_IF_ERROR(anchor->Write({mark.seq, mark.hash_hex}));
  return mark;
}

absl::Status Catalogue::MakeAnew(Family family) { return store_->MakeAnew(TableOf(family)); }

absl::Status Catalogue::Noted(absl::Status read) const {
  if (absl::IsDataLoss(read)) damaged_ = true;
  return read;
}

absl::StatusOr<std::vector<EventRow>> Catalogue::Events(std::string_view run, uint64_t after,
                                                        size_t limit) const {
  std::vector<EventRow> events;
  if (limit == 0) return events;
  ASSAY_RETURN_IF_ERROR(Noted(store_->Scan(
      TableOf(Family::kEvent), EventKey(run, after + 1), EventKey(run, UINT64_MAX),
      [&](std::string_view, std::string_view value) -> absl::StatusOr<bool> {
        ASSAY_ASSIGN_OR_RETURN(Row row,
                               DecodeRow(value, where_ + ": an event of run " + std::string(run)));
        if (auto* event = std::get_if<EventRow>(&row)) events.push_back(std::move(*event));
        return events.size() < limit;
      })));
  return events;
}

absl::Status Catalogue::ForEachEvidence(uint64_t first_unit,
                                        const std::function<bool(EvidenceRow)>& sink) const {
  EvidenceRow first;
  first.unit = first_unit;
  const std::string from = KeyOf(first).key;
  const std::string end(1, static_cast<char>(from[0] + 1));
  return Noted(store_->Scan(TableOf(Family::kWork), from, end,
                            [&](std::string_view, std::string_view value) -> absl::StatusOr<bool> {
                              ASSAY_ASSIGN_OR_RETURN(
                                  Row row, DecodeRow(value, where_ + ": a differing result"));
                              auto* evidence = std::get_if<EvidenceRow>(&row);
                              return evidence == nullptr || sink(std::move(*evidence));
                            }));
}

uint64_t Catalogue::size() const { return log_size_; }

absl::StatusOr<DigestBytes> Catalogue::Node(uint32_t level, uint64_t index) const {
  auto node = ReadNode(level, index);
  if (!node.ok()) return Noted(node.status());
  return node;
}

absl::StatusOr<DigestBytes> Catalogue::ReadNode(uint32_t level, uint64_t index) const {
  const std::string where =
      where_ + ": log node (" + std::to_string(level) + ", " + std::to_string(index) + ")";
  ASSAY_ASSIGN_OR_RETURN(const auto value,
                         store_->Get(TableOf(Family::kLog), LogNodeKey(level, index)));
  if (!value) return DataLossError("LOG_NODE_MISSING", where + " was never written");
  ASSAY_ASSIGN_OR_RETURN(const Row row, DecodeRow(*value, where));
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
  std::lock_guard<std::mutex> lock(mutex_);
  return seq_;
}

std::string Catalogue::head_hash() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return hash_;
}

}  // namespace assay
