// Scales of a matrix, one for each block of rows and columns, and their application to a row.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_SCALE_GRID_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_SCALE_GRID_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/capture/weights/packed_tensor.h"

namespace assay {

// How many rows and columns share one scale. 0 stands for all of them.
struct ScaleBlock {
  uint64_t rows = 1;
  uint64_t cols = 0;
};

class ScaleGrid {
 public:
  // Scales in BF16, F16, F32, E4M3, or E8M0 (stored as U8), of shape [ceil(rows / block.rows),
  // ceil(cols / block.cols)]; a missing last dimension of one is accepted. Negative and zero scales
  // are. QUANTIZATION_INVALID.
  static absl::StatusOr<ScaleGrid> Make(const PackedParts& parts, ScaleBlock block);

  uint64_t groups() const { return groups_; }          // scales in a row
  uint64_t group_cols() const { return block_.cols; }  // columns of each but the last
  void Row(uint64_t row, float* out) const;            // the scales of a row, widened: groups()

 private:
  ScaleGrid(const TensorView& view, ScaleBlock block, uint64_t groups)
      : view_(view), block_(block), groups_(groups) {}
  TensorView view_;
  ScaleBlock block_;
  uint64_t groups_;
};

// Multiplies `cols` values by the scale of their group of `group_cols` columns (the last may be
// shorter), in place: one rounding each.
void ScaleRow(const float* scales, uint64_t group_cols, uint64_t cols, float* values);

// values[i] = (values[i] - zeros[g]) * scales[g] with g the group of column i: by position, or
// index[i]. Codes and zero points are small integers, so the difference is exact.
void ScaleCodes(const float* scales, const float* zeros, uint64_t group_cols, const int32_t* index,
                uint64_t cols, float* values);

// Whether a group size fits a row: 1 to cols and a divisor of it. `what` names the field.
absl::Status CheckGroupSize(const PackedParts& parts, uint64_t group);

// The group of each column as stored (I32 [cols]), checked to lie below `groups`. An index of -1
// everywhere was never set: empty, columns go by position. QUANTIZATION_INVALID.
absl::StatusOr<std::vector<int32_t>> ReadGroupIndex(const PackedParts& parts, uint64_t groups);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_SCALE_GRID_H_
