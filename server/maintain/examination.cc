#include "server/maintain/examination.h"

#include <map>
#include <string>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/inspect.h"

namespace assay {
namespace {

using Part = CatalogueFinding::Part;

Repair RepairOf(const CatalogueFinding& finding) {
  if (finding.part == Part::kAnchor) {
    const bool can =
        finding.anchor == AnchorState::kMissing || finding.anchor == AnchorState::kBehind;
    return can ? Repair::kAnchor : Repair::kNone;
  }
  if (finding.part != Part::kRows) return Repair::kNone;
  if (finding.family == Family::kLog) return Repair::kLogNodes;
  if (finding.family == Family::kRequest) return Repair::kRequests;
  return finding.family == Family::kMeta ? Repair::kMeta : Repair::kNone;
}

void AddCatalogue(const FsckOptions& options, const CatalogueInspection& inspection,
                  Examination* out) {
  out->batches = inspection.seq;
  for (const CatalogueFinding& finding : inspection.findings) {
    const Repair repair = RepairOf(finding);
    out->damages.push_back({finding.what, repair, true, ""});
    if (finding.part == Part::kRows && repair != Repair::kNone)
      out->unreadable.insert(finding.family);
    if (finding.part != Part::kRows && repair == Repair::kNone) out->rows_trusted = false;
    if (finding.part == Part::kAnchor && finding.anchor == AnchorState::kMissing)
      out->anchor_unreadable = FileExists(AnchorPath({options.data_dir, options.anchor_path}));
  }
}

// Sealed documents by digest, so that a damaged one is called by its name.
std::map<std::string, Damage> Documents(const State& state) {
  std::map<std::string, Damage> out;
  for (const auto& [id, report] : state.reports) {
    const std::string of = " of reports/" + id;
    out[id] = {"report.json" + of, Repair::kReport, true, id};
    out[report.execution_sha256] = {"execution.json" + of, Repair::kNone, true, id};
    for (const ArrayRow& array : report.arrays) {
      out[array.sha256] = {"positions " + array.head + "/" + array.output + of, Repair::kReport,
                           true, id};
    }
    if (const auto it = state.receipts.find(report.receipt); it != state.receipts.end())
      out[it->second.receipt_sha256] = {"receipt.json" + of, Repair::kNone, true, id};
  }
  return out;
}

absl::Status AddBlobs(const FileBlobStore& blobs, Examination* out) {
  const std::map<std::string, Damage> documents = Documents(out->rows.state);
  return blobs.List([&](const BlobInfo& info) -> absl::Status {
    ++out->blobs;
    out->blob_bytes += info.bytes;
    const absl::Status status = blobs.Verify(info.sha256);
    if (status.ok()) return absl::OkStatus();
    Damage damage{MessageOf(status), Repair::kBlob, false, info.sha256};
    if (const auto it = documents.find(info.sha256); it != documents.end()) {
      // The blob is set aside, and its document made again where that is possible.
      Damage document = it->second;
      document.what += " (blob " + info.sha256 + "): the stored bytes have another digest";
      out->damages.push_back(document);
      damage.what = "blob " + info.sha256 + " is that document";
    }
    out->damages.push_back(damage);
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<Examination> Examine(const FsckOptions& options, const FileBlobStore& blobs) {
  Examination out;
  ASSAY_ASSIGN_OR_RETURN(
      const CatalogueInspection inspection,
      InspectCatalogue({options.data_dir, options.anchor_path}, [&](const Row& row) {
        ++out.row_count;
        out.rows.Absorb(row);
      }));
  AddCatalogue(options, inspection, &out);
  for (Damage& damage : CheckRows(out.rows)) out.damages.push_back(std::move(damage));
  for (Damage& damage : CheckSealed(out.rows.state, blobs))
    out.damages.push_back(std::move(damage));
  for (const std::string& sha256 : MissingInputs(out.rows.state, blobs)) {
    out.damages.push_back({"blob " + sha256 +
                               " of a capture or head is missing; it counts as never "
                               "made at the next start",
                           Repair::kBlob, false, ""});
  }
  ASSAY_RETURN_IF_ERROR(AddBlobs(blobs, &out));
  return out;
}

}  // namespace assay
