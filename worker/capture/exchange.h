// Movement of activations between the ranks of a group, by token slice.

#ifndef ASSAY_WORKER_CAPTURE_EXCHANGE_H_
#define ASSAY_WORKER_CAPTURE_EXCHANGE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "worker/capture/pieces.h"
#include "worker/collective/collective.h"

namespace assay::capture {

// For a batch of `rows` token rows of `width` values. Rank r owns rows PartOf(rows, size, r). A
// group of one copies nothing through the collective. The collective outlives the object.
class TokenExchange {
 public:
  TokenExchange(Collective& collective, int64_t rows, int64_t width);

  Range own() const { return PartOf(rows_, collective_.size(), collective_.rank()); }

  // all [rows, width] = every owner's rows in order.
  absl::Status Gather(std::span<const float> own_rows, std::span<float> all);
  absl::Status Gather(std::span<const uint16_t> own_rows, std::span<uint16_t> all);

  // `partial` holds this rank's pieces [counts[rank], rows, width], pieces being numbered across
  // the ranks in order. out [own rows, width] = piece 0 + piece 1 + ... in that order, + bias
  // [width] when not null.
  absl::Status SumPieces(const float* partial, std::span<const int64_t> counts, const float* bias,
                         std::span<float> out);

 private:
  Collective& collective_;
  int64_t rows_, width_;
  std::vector<float> send_, receive_;
};

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_EXCHANGE_H_
