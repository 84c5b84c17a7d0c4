#include "worker/replay/logits.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "storage/base/bf16.h"
#include "storage/base/macros.h"

namespace assay {
namespace {

constexpr uint64_t kSplitRowsMin =
    16;  // tiles are split further only into pieces of at least so many rows

// A task: rows [begin, end) of one leaf of one source.
struct Piece {
  size_t source;
  uint64_t leaf, begin, end;
};

// One task per source and leaf; rows are split as well when that leaves threads idle. Sources that
// share a leaf follow each other: the later ones find its head slice nearer than memory.
std::vector<Piece> CutPieces(const Tile& tile, int threads) {
  const Job& job = tile.job();
  const uint64_t blocks = job.sources.size() * job.own.count();
  const uint64_t wanted = 4 * static_cast<uint64_t>(threads);
  uint64_t splits =
      threads > 1 && blocks > 0 && blocks < wanted ? (wanted + blocks - 1) / blocks : 1;
  splits = std::min(splits, std::max<uint64_t>(1, tile.rows() / kSplitRowsMin));
  std::vector<Piece> out;
  for (uint64_t leaf = 0; leaf < job.own.count(); ++leaf) {
    for (size_t s = 0; s < job.sources.size(); ++s) {
      for (uint64_t k = 0; k < splits; ++k) {
        out.push_back({s, leaf, tile.rows() * k / splits, tile.rows() * (k + 1) / splits});
      }
    }
  }
  return out;
}

// logits = scale * dots + bias over one leaf of a row; `dots` may be `logits`.
template <typename T>
void ApplyHead(const ReplayHead& head, const Leaf& leaf, const T* dots, double* logits) {
  for (uint64_t v = 0; v < leaf.columns(); ++v) {
    const double scaled = head.scale * static_cast<double>(dots[v]);
    logits[v] =
        head.bias.empty() ? scaled : scaled + static_cast<double>(head.bias[leaf.begin + v]);
  }
}

class TileFiller {
 public:
  TileFiller(const OperandRows& operands, const std::vector<std::shared_ptr<HeadSlice>>& heads,
             Tile* tile)
      : operands_(operands), heads_(heads), tile_(*tile), job_(tile->job()) {}

  absl::Status Fill(const Piece& piece) {
    const Source& source = job_.sources[piece.source];
    if (!source.head) {
      CopyStored(piece, source.operand);
    } else if (job_.plan->policy == ReplayPolicy::kFp64Audit) {
      MultiplyWide(piece, source);
    } else if (tile_.wide()) {
      ASSAY_RETURN_IF_ERROR(MultiplyThenWiden(piece, source));
    } else {
      ASSAY_RETURN_IF_ERROR(heads_[*source.head]->leaves[piece.leaf]->Multiply(
          operands_.Hidden(source.operand, tile_.first_row() + piece.begin),
          piece.end - piece.begin, tile_.Row<float>(piece.source, piece.leaf, piece.begin)));
    }
    if (job_.plan->policy == ReplayPolicy::kTorchBf16) RoundToBf16(piece);
    return absl::OkStatus();
  }

  // Meanwhile the head slice of `next` (may be null) comes nearer: arithmetic leaves memory idle,
  // and a narrow head's products wait for it.
  void FirstPass(const Piece& piece, const Piece* next, std::vector<SideLeaf>* partials) {
    const ReplayKernels& kernels = Kernels();
    const Leaf& leaf = LeafOf(piece);
    const auto columns = static_cast<int64_t>(leaf.columns());
    for (uint64_t row = piece.begin; row < piece.end; ++row) {
      const int64_t token = tile_.observed(row);
      const int64_t observed = token < 0 ? -1 : token - static_cast<int64_t>(leaf.begin);
      const uint8_t* const ahead = AheadOf(next, row - piece.begin, columns);
      SideLeaf* out =
          &(*partials)[(piece.source * tile_.rows() + row) * job_.own.count() + piece.leaf];
      if (tile_.wide()) {
        kernels.side_f64(tile_.Row<double>(piece.source, piece.leaf, row), columns, job_.softcap(),
                         observed, ahead, out);
      } else {
        kernels.side_f32(tile_.Row<float>(piece.source, piece.leaf, row), columns, job_.softcap(),
                         observed, ahead, out);
      }
    }
  }

 private:
  // Where the first pass over the `row`th row of a piece looks ahead.
  const uint8_t* AheadOf(const Piece* next, uint64_t row, int64_t columns) const {
    if (next == nullptr || !job_.sources[next->source].head) return nullptr;
    const HeadSlice& head = *heads_[*job_.sources[next->source].head];
    if (head.leaves.empty()) return nullptr;
    const uint64_t at = row * static_cast<uint64_t>(columns) * (tile_.wide() ? 8 : 4);
    const PackedLeaf& leaf = *head.leaves[next->leaf];
    return at < leaf.bytes() ? leaf.data() + at : nullptr;
  }

  const Leaf& LeafOf(const Piece& piece) const { return job_.leaves[job_.own.first + piece.leaf]; }

  void CopyStored(const Piece& piece, size_t operand) {
    const RowBlock& block = operands_.Logits(operand);
    const Leaf& leaf = LeafOf(piece);
    for (uint64_t row = piece.begin; row < piece.end; ++row) {
      const uint8_t* from =
          block.bytes.data() + ((tile_.first_row() + row) * block.width + leaf.begin) * 4;
      if (tile_.wide()) {
        double* out = tile_.Row<double>(piece.source, piece.leaf, row);
        for (uint64_t v = 0; v < leaf.columns(); ++v) {
          float value;
          std::memcpy(&value, from + 4 * v, 4);
          out[v] = value;
        }
      } else {
        std::memcpy(tile_.Row<float>(piece.source, piece.leaf, row), from, leaf.columns() * 4);
      }
    }
  }

  // fp32 dot products as ever, then the head's scale and bias in fp64.
  absl::Status MultiplyThenWiden(const Piece& piece, const Source& source) {
    const uint64_t columns = LeafOf(piece).columns(), rows = piece.end - piece.begin;
    thread_local AlignedBuffer dots;
    dots.Resize(rows * columns * sizeof(float));
    auto* const narrow = reinterpret_cast<float*>(dots.data());
    ASSAY_RETURN_IF_ERROR(heads_[*source.head]->leaves[piece.leaf]->Multiply(
        operands_.Hidden(source.operand, tile_.first_row() + piece.begin), rows, narrow));
    for (uint64_t row = 0; row < rows; ++row) {
      ApplyHead(job_.plan->heads[*source.head], LeafOf(piece), narrow + row * columns,
                tile_.Row<double>(piece.source, piece.leaf, piece.begin + row));
    }
    return absl::OkStatus();
  }

  // fp64-audit: plain dot products, correct before fast.
  void MultiplyWide(const Piece& piece, const Source& source) {
    const ReplayHead& head = job_.plan->heads[*source.head];
    const Leaf& leaf = LeafOf(piece);
    std::vector<uint16_t> weights(head.hidden);
    for (uint64_t v = leaf.begin; v < leaf.end; ++v) {
      std::memcpy(weights.data(), HeadRows(head, v, v + 1).data(), head.hidden * 2);
      for (uint64_t row = piece.begin; row < piece.end; ++row) {
        tile_.Row<double>(piece.source, piece.leaf, row)[v - leaf.begin] =
            Kernels().dot_bf16(operands_.HiddenBf16(source.operand, tile_.first_row() + row),
                               weights.data(), static_cast<int64_t>(head.hidden));
      }
    }
    for (uint64_t row = piece.begin; row < piece.end && head.affine(); ++row) {
      double* const logits = tile_.Row<double>(piece.source, piece.leaf, row);
      ApplyHead(head, leaf, logits, logits);
    }
  }

  void RoundToBf16(const Piece& piece) {
    float* block = tile_.Row<float>(piece.source, piece.leaf, piece.begin);
    const uint64_t count = (piece.end - piece.begin) * LeafOf(piece).columns();
    for (uint64_t i = 0; i < count; ++i) block[i] = Bf16ToFloat(FloatToBf16(block[i]));
  }

  const OperandRows& operands_;
  const std::vector<std::shared_ptr<HeadSlice>>& heads_;
  Tile& tile_;
  const Job& job_;
};

}  // namespace

absl::Status OperandRows::Load(const Job& job, size_t context, ReplayBackend backend) {
  const size_t operands = job.plan->operands.size();
  widened_ = backend == ReplayBackend::kCpuF32 && job.plan->policy != ReplayPolicy::kFp64Audit;
  blocks_.resize(operands);
  buffers_.resize(operands);
  widths_.resize(operands);
  std::vector<bool> loaded(operands);
  for (const Source& source : job.sources) {
    const size_t o = source.operand;
    if (loaded[o]) continue;
    loaded[o] = true;
    ASSAY_ASSIGN_OR_RETURN(RowBlock block, FetchRows(job, o, context));
    widths_[o] = block.width;
    if (!source.head) {
      blocks_[o] = std::move(block);
      continue;
    }
    buffers_[o].Resize(block.rows * block.width * (widened_ ? 4 : 2));
    if (widened_) {
      CopyAsWidened(block, reinterpret_cast<float*>(buffers_[o].data()));
    } else {
      CopyAsBf16(block, reinterpret_cast<uint16_t*>(buffers_[o].data()));
    }
  }
  return absl::OkStatus();
}

const void* OperandRows::Hidden(size_t operand, uint64_t row) const {
  return buffers_[operand].data() + row * widths_[operand] * (widened_ ? 4 : 2);
}

const uint16_t* OperandRows::HiddenBf16(size_t operand, uint64_t row) const {
  return reinterpret_cast<const uint16_t*>(buffers_[operand].data()) + row * widths_[operand];
}

absl::Status FillTile(const OperandRows& operands,
                      const std::vector<std::shared_ptr<HeadSlice>>& heads, ThreadPool& pool,
                      bool first_pass, Tile* tile, std::vector<SideLeaf>* partials) {
  const Job& job = tile->job();
  const std::vector<Piece> pieces = CutPieces(*tile, pool.threads());
  if (first_pass) partials->resize(job.sources.size() * tile->rows() * job.own.count());
  TileFiller filler(operands, heads, tile);
  std::mutex mutex;
  absl::Status status;
  pool.Run(static_cast<int64_t>(pieces.size()), [&](int64_t i, int) {
    // Most likely this thread's next.
    const auto after = static_cast<size_t>(i) + static_cast<size_t>(pool.threads());
    const absl::Status filled = filler.Fill(pieces[i]);
    if (filled.ok()) {
      const Piece* const next = after < pieces.size() ? &pieces[after] : nullptr;
      if (first_pass) filler.FirstPass(pieces[i], next, partials);
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    status = filled;
  });
  return status;
}

}  // namespace assay
