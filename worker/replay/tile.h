// One row tile: the logits of every source for a few consecutive rows of one context, over this
// rank's columns.

#ifndef ASSAY_WORKER_REPLAY_TILE_H_
#define ASSAY_WORKER_REPLAY_TILE_H_

#include <cstdint>
#include <vector>

#include "worker/replay/job.h"
#include "worker/replay/rows.h"

namespace assay {

// Which rows a tile holds, without the logits: what combining and emitting need, on any backend.
class TileRows {
 public:
  void Place(const Job& job, size_t context, uint64_t first_row, uint64_t rows) {
    job_ = &job;
    context_ = context;
    first_row_ = first_row;
    rows_ = rows;
  }

  const Job& job() const { return *job_; }
  size_t context() const { return context_; }
  uint64_t first_row() const { return first_row_; }  // within the context
  uint64_t rows() const { return rows_; }
  int32_t observed(uint64_t row) const {
    return job_->plan->contexts[context_].observed[first_row_ + row];
  }

 private:
  const Job* job_ = nullptr;
  size_t context_ = 0;
  uint64_t first_row_ = 0, rows_ = 0;
};

// Storage is leaf by leaf: a leaf's block is dense [rows, leaf columns], which is what the products
// write and what the passes read. fp32, or fp64 where the job says wide.
class Tile : public TileRows {
 public:
  // Keeps the memory of an earlier, larger tile.
  void Reset(const Job& job, size_t context, uint64_t first_row, uint64_t rows) {
    Place(job, context, first_row, rows);
    logits_.resize(job.sources.size());
    const uint64_t element = wide() ? 8 : 4;
    for (AlignedBuffer& buffer : logits_) buffer.Resize(rows * job.own_columns() * element);
  }

  bool wide() const { return job().wide; }

  // Logits of `row` of this tile in own leaf number `leaf` (0 = the rank's first). T = float, or
  // double when wide().
  template <typename T>
  T* Row(size_t source, uint64_t leaf, uint64_t row) {
    const Leaf& at = job().leaves[job().own.first + leaf];
    const uint64_t offset = rows() * (at.begin - job().own_begin) + row * at.columns();
    return reinterpret_cast<T*>(logits_[source].data()) + offset;
  }

 private:
  std::vector<AlignedBuffer> logits_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_TILE_H_
