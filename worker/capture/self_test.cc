#include "worker/capture/self_test.h"

#include <omp.h>

#include <cstring>
#include <span>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/kernels.h"
#include "worker/capture/matmul.h"

namespace assay::capture {
namespace {

constexpr int64_t kRows = 77;
constexpr int64_t kColumns = 136;

// Fixed values in (-1, 1) with all 24 bits of the significand in use.
std::vector<float> Values(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  uint64_t state = seed;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = float(int32_t(state >> 32)) * 0x1p-31f;
  }
  return values;
}

class ThreadCount {
 public:
  ThreadCount() : saved_(omp_get_max_threads()) {}
  ~ThreadCount() { omp_set_num_threads(saved_); }

 private:
  int saved_;
};

// One inner size: the whole product on one thread, and every cut compared with it.
class Cuts {
 public:
  Cuts(int64_t k, bool transposed)
      : k_(k),
        transposed_(transposed),
        a_(Values(kRows * k, 1)),
        w_(Values(kColumns * k, 2)),
        whole_(kRows * kColumns),
        part_(kRows * kColumns) {}

  absl::Status Whole() { return Run(0, kRows, 0, kColumns, whole_.data()); }
  std::span<const float> whole() const { return whole_; }

  absl::Status Compare(int64_t row, int64_t rows, int64_t column, int64_t columns) {
    ASSAY_RETURN_IF_ERROR(Run(row, rows, column, columns, part_.data()));
    for (int64_t r = 0; r < rows; ++r) {
      const float* expected = whole_.data() + (row + r) * kColumns + column;
      if (std::memcmp(part_.data() + r * columns, expected, columns * sizeof(float)) == 0) continue;
      return InternalError("KERNEL_NOT_INVARIANT",
                           "oneDNN " + OneDnnVersion() + " (" + OneDnnIsa() +
                               ") gives other bits for rows " + std::to_string(row) + "+" +
                               std::to_string(rows) + ", columns " + std::to_string(column) + "+" +
                               std::to_string(columns) + " of a product with K = " +
                               std::to_string(k_) + " on " + std::to_string(omp_get_max_threads()) +
                               " threads; use another oneDNN, or another ONEDNN_MAX_CPU_ISA");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Run(int64_t row, int64_t rows, int64_t column, int64_t columns, float* out) {
    MatmulShape shape{.m = rows, .n = columns, .k = k_, .a_stride = k_, .c_stride = columns};
    shape.w_transposed = transposed_;
    shape.w_stride = transposed_ ? k_ : kColumns;
    const int64_t offset = transposed_ ? column * k_ : column;
    return matmul_.Run(shape, a_.data() + row * k_, w_.data() + offset, out);
  }

  int64_t k_;
  bool transposed_;
  Matmul matmul_;
  std::vector<float> a_, w_, whole_, part_;
};

absl::Status CheckCuts(int64_t k, bool transposed, Sha256* digest) {
  ThreadCount restore;
  Cuts cuts(k, transposed);
  omp_set_num_threads(1);
  ASSAY_RETURN_IF_ERROR(cuts.Whole());
  for (int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    ASSAY_RETURN_IF_ERROR(cuts.Compare(0, kRows, 0, kColumns));
    ASSAY_RETURN_IF_ERROR(cuts.Compare(0, 1, 0, kColumns));
    ASSAY_RETURN_IF_ERROR(cuts.Compare(13, 64, 0, kColumns));
    if (!transposed) continue;  // such weights are dense: see MatmulShape
    ASSAY_RETURN_IF_ERROR(cuts.Compare(5, 2, 64, 72));
    ASSAY_RETURN_IF_ERROR(cuts.Compare(13, 64, 3, 48));
    ASSAY_RETURN_IF_ERROR(cuts.Compare(76, 1, 7, 1));
    ASSAY_RETURN_IF_ERROR(cuts.Compare(33, 31, 120, 16));
  }
  if (digest != nullptr) {
    digest->Update(std::span(reinterpret_cast<const uint8_t*>(cuts.whole().data()),
                             cuts.whole().size_bytes()));
  }
  return absl::OkStatus();
}

// Two products of 16 rows in one call against the same ones one by one.
absl::Status CheckBatch(int64_t k, bool transposed) {
  const std::vector<float> a = Values(32 * k, 3), w = Values(32 * k, 4);
  std::vector<float> together(2 * 16 * 16), alone(16 * 16);
  Matmul matmul;
  MatmulShape shape{.batch = 2,
                    .m = 16,
                    .n = 16,
                    .k = k,
                    .a_stride = k,
                    .w_stride = transposed ? k : 16,
                    .c_stride = 16,
                    .a_batch = 16 * k,
                    .w_batch = 16 * k,
                    .c_batch = 256,
                    .w_transposed = transposed};
  ASSAY_RETURN_IF_ERROR(matmul.Run(shape, a.data(), w.data(), together.data()));
  shape.batch = 1;
  for (int b = 0; b < 2; ++b) {
    ASSAY_RETURN_IF_ERROR(
        matmul.Run(shape, a.data() + b * 16 * k, w.data() + b * 16 * k, alone.data()));
    if (std::memcmp(alone.data(), together.data() + b * 256, 256 * sizeof(float)) != 0) {
      return InternalError("KERNEL_NOT_INVARIANT",
                           "oneDNN " + OneDnnVersion() + " (" + OneDnnIsa() +
                               ") gives other bits for a batch of products with K = " +
                               std::to_string(k) + "; use another oneDNN");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLayouts(int64_t k, Sha256* digest) {
  for (const bool transposed : {true, false}) {
    ASSAY_RETURN_IF_ERROR(CheckCuts(k, transposed, digest));
    ASSAY_RETURN_IF_ERROR(CheckBatch(k, transposed));
  }
  return absl::OkStatus();
}

void DigestKernels(Sha256* digest) {
  constexpr int64_t kWidth = 37, kRowCount = 5;
  const std::vector<float> x = Values(kRowCount * 2 * kWidth, 5);
  const std::vector<float> w = Values(2 * kWidth, 6);
  std::vector<float> y(kRowCount * kWidth);
  const auto add = [&] {
    digest->Update(std::span(reinterpret_cast<const uint8_t*>(y.data()), y.size() * sizeof(float)));
  };
  RmsNormRows(x.data(), w.data(), 1e-5f, kRowCount, kWidth, y.data());
  add();
  SwiGluRows(x.data(), w.data(), w.data() + kWidth, kRowCount, kWidth, y.data());
  add();
  std::memcpy(y.data(), x.data(), y.size() * sizeof(float));
  CausalSoftmaxRows(y.data(), kRowCount, kWidth, kRowCount, kWidth - kRowCount, 0, 9.0f);
  add();
}

}  // namespace

absl::Status CheckProductInvariance(int64_t k) { return CheckLayouts(k, nullptr); }

absl::StatusOr<std::string> SelfTestDigest() {
  Sha256 digest;
  for (int64_t k : {1, 7, 16, 33, 64, 192, 576}) {
    ASSAY_RETURN_IF_ERROR(CheckLayouts(k, &digest));
  }
  DigestKernels(&digest);
  return digest.FinishHex();
}

}  // namespace assay::capture
