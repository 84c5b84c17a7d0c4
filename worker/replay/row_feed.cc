#include "worker/replay/row_feed.h"

#include <exception>

#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

RowFeed::~RowFeed() {
  if (reading_.valid()) reading_.wait();
}

void RowFeed::Start(size_t context) {
  reading_ = std::async(std::launch::async, [this, context]() -> absl::Status {
    try {
      return rows_[context % 2].Load(job_, context, backend_);
    } catch (const std::bad_alloc&) {
      return ExhaustedError("OUT_OF_MEMORY",
                            "the replay ran out of memory while it read a context ahead");
    } catch (const std::exception& e) {
      return InternalError("REPLAY_FAILED", e.what());
    }
  });
}

absl::StatusOr<const OperandRows*> RowFeed::Next() {
  if (next_ == 0) Start(0);
  ASSAY_RETURN_IF_ERROR(reading_.get());
  const size_t current = next_++;
  if (next_ < job_.plan->contexts.size()) Start(next_);
  return &rows_[current % 2];
}

}  // namespace assay
