#include "server/maintain/repair.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>

#include "server/core/apply.h"
#include "server/engine/restore.h"
#include "server/engine/seal_inputs.h"
#include "server/engine/suite_cache.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/catalogue.h"
#include "storage/report/positions.h"
#include "storage/report/report.h"
#include "storage/seal/receipt.h"

namespace assay {
namespace {

bool Has(const Examination& found, Repair repair) {
  return std::any_of(found.damages.begin(), found.damages.end(),
                     [&](const Damage& damage) { return damage.repair == repair; });
}

// What a stored receipt says of itself.
struct StoredReceipt {
  ReceiptRow row;
  std::string checkpoint;
};

// Every receipt among the blobs, by id.
absl::StatusOr<std::map<std::string, StoredReceipt>> FindReceipts(const FileBlobStore& blobs) {
  constexpr std::string_view kStart = R"({"envelope":)";
  std::map<std::string, StoredReceipt> out;
  ASSAY_RETURN_IF_ERROR(blobs.List([&](const BlobInfo& info) -> absl::Status {
    if (info.bytes < kStart.size() || info.bytes > kReceiptBytesMax) return absl::OkStatus();
    ASSAY_ASSIGN_OR_RETURN(const auto reader, blobs.Read(info.sha256));
    std::string start(kStart.size(), '\0');
    ASSAY_RETURN_IF_ERROR(
        reader->ReadAt(0, {reinterpret_cast<uint8_t*>(start.data()), start.size()}));
    if (start != kStart) return absl::OkStatus();
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, GetBlob(blobs, info.sha256, kReceiptBytesMax));
    const auto id = ReceiptId(bytes);
    const auto json = ParseJson(bytes, "receipt");
    if (!id.ok() || !json.ok()) return absl::OkStatus();
    StoredReceipt& found = out[*id];
    found.row.id = *id;
    found.row.receipt_sha256 = info.sha256;
    found.row.receipt_bytes = info.bytes;
    found.row.leaf_index = json->at("log").at("leaf_index").get<uint64_t>();
    found.row.key_id = json->at("key_id").get<std::string>();
    found.checkpoint = json->at("log").at("checkpoint").get<std::string>();
    return absl::OkStatus();
  }));
  return out;
}

uint64_t LastEpoch(const State& state) {
  uint64_t last = state.meta.epoch;
  for (const auto& [id, unit] : state.units) {
    for (const AttemptRow& attempt : unit.attempts)
      last = std::max<uint64_t>(last, std::strtoull(attempt.lease.c_str(), nullptr, 10));
  }
  return last;
}

MetaRow MakeMeta(const StoredRows& rows, const std::map<std::string, StoredReceipt>& receipts) {
  const State& s = rows.state;
  MetaRow meta = s.meta;
  meta.epoch = LastEpoch(s) + kRestoredEpochs;
  uint64_t last = 0;
  for (const auto& [serial, run] : s.run_order) last = std::max(last, serial);
  if (!s.units.empty()) last = std::max(last, s.units.rbegin()->first);
  meta.next_serial = std::max(meta.next_serial, last + 1);
  meta.removed_serials = meta.next_serial - 1 - (s.runs.size() + s.units.size());
  meta.next_revision = std::max(meta.next_revision, rows.last_revision + 1);
  meta.removed_revisions = meta.next_revision - 1 - rows.events;
  meta.log_size = s.receipts.size();
  meta.checkpoint.clear();
  for (const auto& [id, receipt] : s.receipts) {
    const auto it = receipts.find(id);
    if (receipt.leaf_index + 1 == meta.log_size && it != receipts.end())
      meta.checkpoint = it->second.checkpoint;
  }
  return meta;
}

class Rows {
 public:
  Rows(const FsckOptions& options, const Examination& found, const FileBlobStore& blobs)
      : options_(options), found_(found), blobs_(blobs), rows_(found.rows) {}

  absl::Status Run() {
    if (found_.anchor_unreadable) ASSAY_RETURN_IF_ERROR(SetAnchorAside());
    ASSAY_ASSIGN_OR_RETURN(
        const auto catalogue,
        Catalogue::Open({options_.data_dir, options_.anchor_path, /*repair=*/true}));
    if (Has(found_, Repair::kReceipts) || Has(found_, Repair::kMeta)) {
      ASSAY_ASSIGN_OR_RETURN(receipts_, FindReceipts(blobs_));
    }
    if (Has(found_, Repair::kReceipts)) MakeReceipts();
    if (Has(found_, Repair::kRequests)) MakeRequests();
    if (Has(found_, Repair::kMeta)) Put(MakeMeta(rows_, receipts_));
    if (Has(found_, Repair::kLogNodes) || Has(found_, Repair::kReceipts)) {
      for (const LogNodeRow& node : NodesFromReceipts(rows_.state)) Put(node);
    }
    for (const Family family : {Family::kLog, Family::kRequest}) {
      if (found_.unreadable.count(family) != 0) ASSAY_RETURN_IF_ERROR(catalogue->MakeAnew(family));
    }
    return catalogue->Commit(made_);
  }

 private:
  void Put(const Row& row) {
    made_.push_back(row);
    rows_.state.Absorb(row);
  }

  absl::Status SetAnchorAside() {
    const std::string path = AnchorPath({options_.data_dir, options_.anchor_path});
    if (std::rename(path.c_str(), (path + ".damaged").c_str()) != 0)
      return ErrnoError(errno, "setting aside " + path);
    return SyncDirectory(DirName(path));
  }

  void MakeReceipts() {
    const State& s = rows_.state;
    std::vector<ReceiptRow> made;
    for (const auto& [id, report] : s.reports) {
      const auto it = receipts_.find(report.receipt);
      if (s.receipts.count(report.receipt) != 0 || it == receipts_.end()) continue;
      ReceiptRow row = it->second.row;
      row.report = id;
      row.create_ms = report.create_ms;
      made.push_back(row);
    }
    for (const ReceiptRow& row : made) Put(row);
  }

  void MakeRequests() {
    std::vector<RequestIdRow> made;
    for (const auto& [id, run] : rows_.state.runs)
      made.push_back({RequestKey(run), run.spec_sha256, id, run.create_ms});
    for (const RequestIdRow& row : made) Put(row);
  }

  const FsckOptions& options_;
  const Examination& found_;
  const FileBlobStore& blobs_;
  StoredRows rows_;
  std::map<std::string, StoredReceipt> receipts_;
  std::vector<Row> made_;
};

// The report and its arrays as they were sealed, or nothing: the bytes must have the digests
// sealed.
absl::Status MakeReport(const State& state, const std::string& id, const std::string& data_dir,
                        FileBlobStore* blobs) {
  const ReportRow& report = state.reports.at(id);
  const auto run = state.runs.find(report.run);
  if (run == state.runs.end()) return absl::OkStatus();
  SuiteCache suites(blobs, JoinPath(data_dir, "suites"));
  ASSAY_ASSIGN_OR_RETURN(const auto suite, suites.Get(run->second.suite));
  for (size_t i = 0; i < run->second.candidates.size(); ++i) {
    if (run->second.candidates[i].report != id) continue;
    ASSAY_ASSIGN_OR_RETURN(const ReportInputs inputs,
                           MakeReportInputs(CopySealRows(state, report.run, i), *suite, *blobs));
    ASSAY_ASSIGN_OR_RETURN(const Json json, BuildReport(inputs));
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReportBytes(json));
    if (Sha256Hex(bytes) != id) continue;
    ASSAY_RETURN_IF_ERROR(PutBlob(*blobs, bytes).status());
    for (const auto& [head, result] : inputs.heads) {
      for (size_t k = 0; k < kF64Outputs.size(); ++k)
        ASSAY_RETURN_IF_ERROR(PutBlob(*blobs, F64Bytes(result.arrays.f64[k])).status());
      for (size_t k = 0; k < kI32Outputs.size(); ++k)
        ASSAY_RETURN_IF_ERROR(PutBlob(*blobs, I32Bytes(result.arrays.i32[k])).status());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RepairStore(const FsckOptions& options, const Examination& found,
                         FileBlobStore* blobs) {
  std::set<std::string> reports;
  for (const Damage& damage : found.damages) {
    if (damage.repair == Repair::kBlob && !damage.subject.empty())
      ASSAY_RETURN_IF_ERROR(blobs->Quarantine(damage.subject));
    if (damage.repair == Repair::kReport) reports.insert(damage.subject);
  }
  const bool rows = Has(found, Repair::kAnchor) || Has(found, Repair::kLogNodes) ||
                    Has(found, Repair::kReceipts) || Has(found, Repair::kRequests) ||
                    Has(found, Repair::kMeta);
  if (rows && found.rows_trusted) ASSAY_RETURN_IF_ERROR(Rows(options, found, *blobs).Run());
  for (const std::string& id : reports) {
    // One that cannot be made again is found again, and said to be left. Rows that it was made of
    // may be collected by now, which the functions for sealing do not expect.
    try {
      (void)MakeReport(found.rows.state, id, options.data_dir, blobs);
    } catch (const std::exception&) {
      continue;
    }
  }
  return absl::OkStatus();
}

}  // namespace assay
