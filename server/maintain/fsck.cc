#include "server/maintain/fsck.h"

#include <algorithm>

#include "server/maintain/examination.h"
#include "server/maintain/repair.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

const char* HowToRepair(const Damage& damage) {
  switch (damage.repair) {
    case Repair::kNone:
      return "cannot be made from the rest: restore a backup";
    case Repair::kAnchor:
      return "--repair writes the anchor from the chain; make sure that no batch after its last "
             "one was ever acknowledged";
    case Repair::kLogNodes:
      return "--repair makes the nodes again from the receipts";
    case Repair::kReceipts:
      return "--repair makes the row again from the receipt's own bytes";
    case Repair::kRequests:
      return "--repair makes the rows again from the runs";
    case Repair::kMeta:
      return "--repair makes the row again from all others";
    case Repair::kReport:
      return "--repair makes it again from the results it was made of, where they are still there";
    case Repair::kBlob:
      return damage.subject.empty()
                 ? "made or uploaded again when somebody needs it"
                 : "--repair sets the blob aside; what it held is made or uploaded again when "
                   "somebody needs it";
  }
  return "";
}

// Missing inputs repair themselves at the next start.
bool Counts(const Damage& damage) {
  return damage.repair != Repair::kBlob || !damage.subject.empty();
}

}  // namespace

std::string FsckReport::ToText() const {
  std::string out;
  for (const Damage& damage : found) {
    const bool still = std::any_of(left.begin(), left.end(),
                                   [&](const Damage& d) { return d.what == damage.what; });
    out += "damaged: " + damage.what + "\n    ";
    out += still ? HowToRepair(damage) : "repaired";
    out += "\n";
  }
  for (const Damage& damage : left) {
    const bool new_one = std::none_of(found.begin(), found.end(),
                                      [&](const Damage& d) { return d.what == damage.what; });
    if (new_one) out += "left: " + damage.what + "\n    " + HowToRepair(damage) + "\n";
  }
  out += "fsck: " + std::to_string(batches) + " batches, " + std::to_string(rows) + " rows, " +
         std::to_string(blobs) + " blobs of " + std::to_string(blob_bytes) + " bytes read; " +
         std::to_string(found.size()) + " damaged, " + std::to_string(left.size()) + " left\n";
  return out;
}

int FsckReport::ExitCode() const {
  bool any = false;
  for (const Damage& damage : left) {
    if (damage.repair == Repair::kNone) return 20;
    any = any || Counts(damage);
  }
  return any ? 23 : 0;
}

absl::StatusOr<FsckReport> Fsck(const FsckOptions& options) {
  if (!IsDirectory(JoinPath(options.data_dir, "db"))) {
    return NotFoundError("FILE_MISSING", options.data_dir +
                                             ": no data folder of a coordinator (db is missing); "
                                             "give the right --data");
  }
  FileBlobStoreOptions blob_options;
  blob_options.dir = JoinPath(options.data_dir, "blobs");
  const auto blobs = FileBlobStore::Existing(blob_options);
  ASSAY_ASSIGN_OR_RETURN(const Examination first, Examine(options, *blobs));
  FsckReport report;
  report.found = report.left = first.damages;
  report.batches = first.batches;
  report.rows = first.row_count;
  report.blobs = first.blobs;
  report.blob_bytes = first.blob_bytes;
  if (!options.repair || first.damages.empty()) return report;
  ASSAY_RETURN_IF_ERROR(RepairStore(options, first, blobs.get()));
  ASSAY_ASSIGN_OR_RETURN(const Examination second, Examine(options, *blobs));
  report.left = second.damages;
  // What was repairable in principle and is still there after the repair was not.
  for (Damage& damage : report.left) {
    if (Counts(damage)) damage.repair = Repair::kNone;
  }
  return report;
}

}  // namespace assay
