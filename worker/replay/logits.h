// From rows to logits: fills a tile and, while a block is still in cache, takes the first pass over
// it.

#ifndef ASSAY_WORKER_REPLAY_LOGITS_H_
#define ASSAY_WORKER_REPLAY_LOGITS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/replay/heads.h"
#include "worker/replay/kernels.h"
#include "worker/replay/threads.h"
#include "worker/replay/tile.h"

namespace assay {

// The rows of one context for every operand that a source uses.
class OperandRows {
 public:
  // `backend` decides the element type of hidden rows (bf16, or widened to fp32).
  absl::Status Load(const Job& job, size_t context, ReplayBackend backend);

  // Hidden rows from `row` on, in the backend's type; 64-byte aligned at row 0.
  const void* Hidden(size_t operand, uint64_t row) const;
  const uint16_t* HiddenBf16(size_t operand, uint64_t row) const;  // for fp64-audit
  const RowBlock& Logits(size_t operand) const { return blocks_[operand]; }

 private:
  bool widened_ = false;
  std::vector<RowBlock> blocks_;        // logits operands keep their block
  std::vector<AlignedBuffer> buffers_;  // hidden operands are copied
  std::vector<uint64_t> widths_;
};

// Fills `tile` and returns in `partials` the first pass of every [source][row][own leaf].
// `operands` were loaded for the tile's context. `first_pass` false leaves `partials` alone (for
// measuring the products by themselves).
absl::Status FillTile(const OperandRows& operands,
                      const std::vector<std::shared_ptr<HeadSlice>>& heads, ThreadPool& pool,
                      bool first_pass, Tile* tile, std::vector<SideLeaf>* partials);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_LOGITS_H_
