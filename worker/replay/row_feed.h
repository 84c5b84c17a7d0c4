// Contexts in turn, the next one read while the current one is computed.

#ifndef ASSAY_WORKER_REPLAY_ROW_FEED_H_
#define ASSAY_WORKER_REPLAY_ROW_FEED_H_

#include <array>
#include <cstddef>
#include <future>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/replay/job.h"
#include "worker/replay/logits.h"

namespace assay {

// Holds the rows of at most two contexts; a thread of its own asks the providers for the second, so
// a slow disk costs time only where it is slower than the computation. `job` and what its providers
// use outlive the feed, whose end waits for a read in progress.
class RowFeed {
 public:
  RowFeed(const Job& job, ReplayBackend backend) : job_(job), backend_(backend) {}
  ~RowFeed();
  RowFeed(const RowFeed&) = delete;
  RowFeed& operator=(const RowFeed&) = delete;

  // Rows of context 0, 1, 2, ... with each call; valid until the next. Errors of a read are told
  // when its context's turn comes, so that they name the same context as without reading ahead. Not
  // to be called again after an error or the last context.
  absl::StatusOr<const OperandRows*> Next();

 private:
  void Start(size_t context);

  const Job& job_;
  const ReplayBackend backend_;
  size_t next_ = 0;
  std::array<OperandRows, 2> rows_;  // context c lies in rows_[c % 2]
  std::future<absl::Status> reading_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_ROW_FEED_H_
