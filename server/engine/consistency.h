// Do the committed rows fit together, and are the sealed documents there? Asked at every start and
// by `assayd fsck`.

#ifndef ASSAY_SERVER_ENGINE_CONSISTENCY_H_
#define ASSAY_SERVER_ENGINE_CONSISTENCY_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/core/state.h"
#include "storage/blob/blob_store.h"

namespace assay {

// Everything stored, as read.
struct StoredRows {
  State state;
  std::vector<LogNodeRow> nodes;
  uint64_t events = 0, last_revision = 0;

  void Absorb(const Row& row);
};

// What can be done about a damage with nothing but the rest of the store.
enum class Repair {
  kNone,      // a backup
  kAnchor,    // written anew from the chain
  kLogNodes,  // made again from the receipts
  kReceipts,  // receipt rows, from the receipts' own bytes
  kRequests,  // request ids, from the runs
  kMeta,      // counters and checkpoint, from all other rows
  kReport,    // report.json and position arrays, from the results that they were made of
  kBlob,      // set aside; what it held is made or uploaded again when somebody needs it
};

struct Damage {
  std::string what;  // a sentence that names it
  Repair repair = Repair::kNone;
  bool serious = true;  // nothing is served with it
  std::string subject;  // of kReport: the report; of kBlob: the blob
};

// Rows that must be there because others name them, and the log's tree.
std::vector<Damage> CheckRows(const StoredRows& rows);
// Documents of sealed reports: there, and of the size that was sealed. Their bytes are not read.
std::vector<Damage> CheckSealed(const State& state, const BlobStore& blobs);
// Blobs of capture files and heads that are not there.
std::vector<std::string> MissingInputs(const State& state, const BlobStore& blobs);

// STORE_DAMAGED naming the first of the serious ones, or OK.
absl::Status RefusalOf(const std::vector<Damage>& damages, const std::string& dir);

// The log's nodes as they follow from the receipts; nothing when leaves are missing.
std::vector<LogNodeRow> NodesFromReceipts(const State& state);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_CONSISTENCY_H_
