// How the work of a forward pass is cut. Pieces depend on the model alone; ranks only divide them
// among themselves, so that the sums of row-parallel products have one order for every group size.

#ifndef ASSAY_WORKER_CAPTURE_PIECES_H_
#define ASSAY_WORKER_CAPTURE_PIECES_H_

#include <cstdint>
#include <vector>

#include "worker/capture/weights/config.h"

namespace assay::capture {

inline constexpr int64_t kPieces = 8;  // and so the largest group

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Part `i` of `parts` nearly equal contiguous parts of [0, total).
inline Range PartOf(int64_t total, int64_t parts, int64_t i) {
  return {total * i / parts, total * (i + 1) / parts};
}

// Query heads [begin, end) that share one key/value head, of those a rank owns.
struct HeadGroup {
  int64_t kv_head = 0;
  Range heads;
};

// What one rank of `size` computes.
struct RankShare {
  int64_t attention_pieces = 0;   // of the model: kPieces, or one per query head
  Range own_attention;            // pieces of this rank
  int64_t heads_per_piece = 0;    // query heads
  Range heads;                    // query heads of this rank
  std::vector<HeadGroup> groups;  // of `heads`, by key/value head
  Range kv_heads;                 // key/value heads it needs (recomputed by every rank that does)
  Range own_ffn;                  // pieces of this rank, out of kPieces
  Range ffn;                      // columns of the intermediate size
  std::vector<Range> ffn_pieces;  // of this rank, within the intermediate size
};

// 0 <= rank < size <= kPieces. A rank may own no attention piece (fewer heads than ranks).
RankShare ShareOf(const ModelConfig& config, int rank, int size);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_PIECES_H_
