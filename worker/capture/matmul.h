// Every matrix product of the capture engine, over oneDNN. No BLAS is reached.

#ifndef ASSAY_WORKER_CAPTURE_MATMUL_H_
#define ASSAY_WORKER_CAPTURE_MATMUL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace assay::capture {

// c[b] = a[b] x w[b] for b in [0, batch): a is [m, k], w is [k, n] and c [m, n], all float32 and
// row-major with the given strides between rows and between batches (in floats). With
// `w_transposed`, w is stored as [n, k] instead (a checkpoint's [out, in]); w_stride is then its
// row stride. Without it w must be dense (w_stride == n > 1): oneDNN 2.6 sends other layouts to a
// kernel whose bits depend on m and n. For the same reason callers keep a dense (a_stride == k),
// and batches with gaps between them are multiplied one by one.
struct MatmulShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t a_stride = 0, w_stride = 0, c_stride = 0;
  int64_t a_batch = 0, w_batch = 0, c_batch = 0;
  bool w_transposed = true;
  auto operator<=>(const MatmulShape&) const = default;
};

// Primitives kept; beyond it the cache is emptied.
inline constexpr size_t kMatmulPrimitivesMax = 256;

// Not thread-safe: one per rank. Uses the OpenMP threads of the calling thread.
class Matmul {
 public:
  Matmul();
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // A zero-sized product does nothing. CAPTURE_FAILED with oneDNN's reason and the shape.
  absl::Status Run(const MatmulShape& shape, const float* a, const float* w, float* c);

  // Sum of batch * m * n * k over all calls.
  uint64_t multiply_adds() const { return multiply_adds_; }
  // Wall time spent inside oneDNN's execution, for benches.
  double seconds() const { return seconds_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  uint64_t multiply_adds_ = 0;
  double seconds_ = 0;
};

std::string OneDnnVersion();  // "2.6.3"
std::string OneDnnIsa();      // the effective instruction set, e.g. "avx512_core_amx"

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_MATMUL_H_
