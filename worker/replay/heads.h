// This rank's slice of a head: scanned, then packed leaf by leaf for the products.

#ifndef ASSAY_WORKER_REPLAY_HEADS_H_
#define ASSAY_WORKER_REPLAY_HEADS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/replay/job.h"
#include "worker/replay/product.h"
#include "worker/replay/scan.h"
#include "worker/replay/threads.h"

namespace assay {

struct HeadSlice {
  ScanResult scan;  // of this rank's rows; non_finite counts elements from the slice's beginning
  std::vector<std::unique_ptr<PackedLeaf>> leaves;  // of this rank, in order; empty for fp64-audit
};

// Slices kept between runs under (cache key, columns, rank range, backend); those that the current
// plan does not use are dropped, so memory stays at what one plan needs.
class HeadStore {
 public:
  // Scans every head of the job that is used by a source. Result by head index; unused heads stay
  // null.
  absl::StatusOr<std::vector<std::shared_ptr<HeadSlice>>> Scan(const Job& job, ThreadPool& pool);

  // Packs what is not packed yet.
  absl::Status Pack(const Job& job, ReplayBackend backend, ThreadPool& pool,
                    std::vector<std::shared_ptr<HeadSlice>>* slices);

 private:
  std::map<std::string, ScanResult> scans_;
  std::map<std::string, std::shared_ptr<HeadSlice>> packed_;
};

// bf16 bytes of rows [begin, end) of a head.
std::span<const uint8_t> HeadRows(const ReplayHead& head, uint64_t begin, uint64_t end);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_HEADS_H_
