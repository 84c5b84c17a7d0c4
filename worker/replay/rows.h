// Rows of one context of one operand, checked and in the form that products want.

#ifndef ASSAY_WORKER_REPLAY_ROWS_H_
#define ASSAY_WORKER_REPLAY_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/replay/job.h"
#include "worker/replay/scan.h"

namespace assay {

// Memory aligned to a cache line, not initialised; large ones lie in huge pages where the system
// gives them.
class AlignedBuffer {
 public:
  void Resize(uint64_t bytes);  // contents are lost when it grows
  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Free> data_;
  uint64_t capacity_ = 0;
};

// The rows of operand `o` in context `c` as the provider gives them, with rows, width and type
// checked. SHAPE_MISMATCH.
absl::StatusOr<RowBlock> FetchRows(const Job& job, size_t operand, size_t context);

// bf16 values of a hidden block (F32 is rounded to nearest even).
void CopyAsBf16(const RowBlock& block, uint16_t* out);
// The same values widened to fp32.
void CopyAsWidened(const RowBlock& block, float* out);

// The scan of a hidden block after rounding to bf16.
ScanResult ScanHidden(const RowBlock& block);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_ROWS_H_
