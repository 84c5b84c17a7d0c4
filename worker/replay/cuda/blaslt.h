// bf16 matrix products with fp32 output through cuBLASLt, always by one pinned algorithm.
//
// The algorithm is asked for once, at a canonical shape, and used for every shape: no split along
// K, no workspace (so nothing can be added up later), no choice left to heuristics that look at the
// number of rows. Its description is part of the kernel identity. The library is opened at run
// time: a program that holds this starts on machines without it.

#ifndef ASSAY_WORKER_REPLAY_CUDA_BLASLT_H_
#define ASSAY_WORKER_REPLAY_CUDA_BLASLT_H_

#include <cublasLt.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::cuda {

// Sides of products are padded to these; the padding is zeros (width, columns) or ignored (rows).
inline constexpr uint64_t kPadWidth = 64, kPadColumns = 32, kPadRows = 64;

inline uint64_t Padded(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

struct LtFunctions;

class BlasLt {
 public:
  // For the current device. BACKEND_UNAVAILABLE (no library; says where it was looked for),
  // KERNEL_NOT_INVARIANT (no algorithm without split K), DEVICE_FAILED.
  static absl::StatusOr<std::unique_ptr<BlasLt>> Open();
  ~BlasLt();

  const std::string& version() const { return version_; }
  const std::string& algorithm() const { return algorithm_text_; }

  // out [rows, columns] fp32 = hidden [rows, width] x head [columns, width]^T, all dense, row-major
  // and padded as above, in device memory. KERNEL_NOT_INVARIANT when the pinned algorithm cannot.
  absl::Status Multiply(const void* hidden, const void* head, float* out, uint64_t rows,
                        uint64_t columns, uint64_t width, cudaStream_t stream);

 private:
  struct Shape;
  BlasLt() = default;
  absl::Status Pin();
  absl::StatusOr<const Shape*> ShapeFor(uint64_t rows, uint64_t columns, uint64_t width);

  const LtFunctions* lt_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::string version_, algorithm_text_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, std::unique_ptr<Shape>> shapes_;
};

}  // namespace assay::cuda

#endif  // ASSAY_WORKER_REPLAY_CUDA_BLASLT_H_
