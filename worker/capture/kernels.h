// Row-local float32 kernels of the forward pass.
//
// Each computes one row from that row's inputs alone, in an order fixed by the source: sums run
// over 16 lanes that fold in a fixed tree, exp is the polynomial of this file, nothing is
// contracted to a fused multiply-add. So the bits depend neither on thread count nor on how rows
// are grouped nor on the instruction set. Matrices are row-major float32. Work is shared over
// OpenMP threads by rows.

#ifndef ASSAY_WORKER_CAPTURE_KERNELS_H_
#define ASSAY_WORKER_CAPTURE_KERNELS_H_

#include <cstdint>
#include <span>

namespace assay::capture {

// exp(x) in float32, x <= 0 (larger values are treated as 0): relative error below 2^-22.9; 0 below
// -87.3. Exposed for tests.
float ExpNonPositive(float x);

// y[r] = w * (x[r] * (1 / sqrt(mean(x[r]^2) + eps))), the mean and root in float64, each product
// rounded once (arch-qwen-llama 1.2 without its bf16 roundings). x and y are [rows, width], may
// alias.
void RmsNormRows(const float* x, const float* w, float eps, int64_t rows, int64_t width, float* y);

// Causal softmax in place over s [rows, keys]: row r belongs to the query at key
// first_query + r % queries and sees the keys up to it, with window > 0 only the last `window` of
// them, itself included. Those become exp(scale * s - max) / sum, the others 0. NaN and infinity
// in visible entries come out as NaN.
void CausalSoftmaxRows(float* s, int64_t rows, int64_t keys, int64_t queries, int64_t first_query,
                       int64_t window, float scale);

// out[r, i] = silu(g) * u with g = gu[r, i] + gate_bias[i], u = gu[r, width + i] + up_bias[i] and
// silu(g) = g / (1 + exp(-g)). gu is [rows, 2 * width], out [rows, width]; biases may be null.
void SwiGluRows(const float* gu, const float* gate_bias, const float* up_bias, int64_t rows,
                int64_t width, float* out);

// out[r] = ((p0[r] + p1[r]) + p2[r]) + ... (+ bias): pieces lie one after another, [count, rows,
// width].
void SumPieces(const float* pieces, int64_t count, int64_t rows, int64_t width, const float* bias,
               float* out);

// The shape of a batch of equally long contexts, token t of context c being row c * tokens + t.
struct BatchShape {
  int64_t contexts = 0;
  int64_t tokens = 0;
  int64_t rows() const { return contexts * tokens; }
};

// Where the vectors of one head lie. Heads that share keys and values are kept together so that one
// matrix product serves them: positions are cut into blocks of `block`, and a block starting at
// position s, q positions long, is the dense array [contexts, members, q, dim] at
// base + contexts * members * dim * s.
struct HeadSlot {
  float* base = nullptr;
  int64_t members = 1;          // heads in the array
  int64_t member = 0;           // which of them
  int64_t block = 0;            // at least `tokens` for a single block
  int64_t column = 0;           // first column of the head in the row-major matrix
  const float* norm = nullptr;  // RMSNorm weights [dim] while splitting, before RoPE; may be null
  bool rotate = false;          // RoPE while splitting (queries and keys)
};

// Cuts x [rows, ld] into heads of `dim`: adds `bias` [ld] (may be null), normalises and rotates
// where asked (RmsNormRows over the head with `eps`; half-split RoPE, arch-qwen-llama 1.5, cos and
// sin are [tokens, dim / 2]) and stores.
void SplitHeads(const float* x, int64_t ld, const float* bias, float eps, const float* cos,
                const float* sin, const BatchShape& shape, int64_t dim,
                std::span<const HeadSlot> slots);

// The inverse without bias and rotation: y [rows, ld].
void MergeHeads(std::span<const HeadSlot> slots, const BatchShape& shape, int64_t dim, int64_t ld,
                float* y);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_KERNELS_H_
