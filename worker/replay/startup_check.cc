#include "worker/replay/startup_check.h"

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/kernels.h"
#include "worker/replay/leaves.h"
#include "worker/replay/product.h"
#include "worker/replay/rows.h"

namespace assay {
namespace {

constexpr uint64_t kRows = 37, kColumns = 203;
constexpr uint64_t kWidths[] = {72, 576, 2080};  // below, at and above the kernels' K blocks
// A full row tile and the largest leaf, as replays use them.
constexpr uint64_t kTileRows = 64, kTileWidth = 576;

// bf16 values in (-1, 1) with full significands, the same everywhere.
std::vector<uint16_t> MakeValues(uint64_t count, uint64_t seed) {
  std::vector<uint16_t> out(count);
  uint64_t state = seed;
  for (uint16_t& value : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int32_t signed_value = static_cast<int32_t>(state >> 40) - (1 << 23);
    value = FloatToBf16(static_cast<float>(signed_value) * 0x1p-23f);
  }
  return out;
}

struct Problem {
  Problem(ReplayBackend b, uint64_t r, uint64_t c, uint64_t w)
      : backend(b),
        rows(r),
        columns(c),
        width(w),
        hidden(MakeValues(r * w, 1)),
        head(MakeValues(c * w, 2)) {}

  const ReplayBackend backend;
  const uint64_t rows, columns, width;
  const std::vector<uint16_t> hidden, head;

  std::span<const uint8_t> HeadBytes(uint64_t begin, uint64_t end) const {
    return {reinterpret_cast<const uint8_t*>(head.data() + begin * width),
            (end - begin) * width * 2};
  }
};

// The whole [rows, columns] product in pieces of `rows` rows and leaves of `columns` columns.
absl::Status MultiplyCut(const Problem& p, uint64_t rows, uint64_t columns,
                         std::vector<float>* out) {
  out->assign(p.rows * p.columns, 0);
  AlignedBuffer hidden;
  hidden.Resize(p.rows * p.width * 4);
  const RowBlock block{{reinterpret_cast<const uint8_t*>(p.hidden.data()), p.hidden.size() * 2},
                       RowType::kBf16,
                       p.rows,
                       p.width,
                       nullptr};
  const bool bf16 = p.backend == ReplayBackend::kCpuBf16;
  if (bf16) {
    CopyAsBf16(block, reinterpret_cast<uint16_t*>(hidden.data()));
  } else {
    CopyAsWidened(block, reinterpret_cast<float*>(hidden.data()));
  }
  std::vector<float> piece(p.rows * p.columns);
  for (uint64_t v = 0; v < p.columns; v += columns) {
    const uint64_t n = std::min(columns, p.columns - v);
    ASSAY_ASSIGN_OR_RETURN(const auto leaf,
                           PackedLeaf::Pack(p.HeadBytes(v, v + n), n, p.width, p.backend));
    for (uint64_t r = 0; r < p.rows; r += rows) {
      const uint64_t m = std::min(rows, p.rows - r);
      ASSAY_RETURN_IF_ERROR(
          leaf->Multiply(hidden.data() + r * p.width * (bf16 ? 2 : 4), m, piece.data()));
      for (uint64_t i = 0; i < m; ++i) {
        std::memcpy(out->data() + (r + i) * p.columns + v, piece.data() + i * n, n * 4);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCut(const Problem& p, uint64_t rows, uint64_t columns,
                      const std::vector<float>& whole) {
  std::vector<float> cut;
  ASSAY_RETURN_IF_ERROR(MultiplyCut(p, rows, columns, &cut));
  if (std::memcmp(cut.data(), whole.data(), whole.size() * 4) == 0) return absl::OkStatus();
  return InternalError(
      "SELF_TEST_FAILED",
      std::string(ReplayBackendName(p.backend)) + " products of width " + std::to_string(p.width) +
          " change bits when cut into " + std::to_string(rows) + " rows and " +
          std::to_string(columns) + " columns; results would depend on how work is shared" +
          (OnednnIsa() == kAmxIsa ? "; ASSAY_REPLAY_ISA=avx512_core_bf16 does without AMX" : ""));
}

absl::Status CheckThreads(const Problem& p, const std::vector<float>& whole) {
  std::vector<absl::Status> status(3);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < status.size(); ++t) {
    threads.emplace_back([&, t] { status[t] = CheckCut(p, 5 + t, 50 + t, whole); });
  }
  for (std::thread& t : threads) t.join();
  for (const absl::Status& s : status) ASSAY_RETURN_IF_ERROR(s);
  return absl::OkStatus();
}

absl::Status CheckTileSizes(ReplayBackend backend) {
  const Problem p(backend, kTileRows, kLeafColumnsMax, kTileWidth);
  std::vector<float> whole;
  ASSAY_RETURN_IF_ERROR(MultiplyCut(p, kTileRows, kLeafColumnsMax, &whole));
  ASSAY_RETURN_IF_ERROR(CheckCut(p, 1, kLeafColumnsMax, whole));
  return CheckCut(p, 33, 3072, whole);
}

void HashMetric(const std::vector<float>& logits, Sha256* hash) {
  const ReplayKernels& kernels = Kernels();
  for (uint64_t row = 0; row + 1 < kRows; ++row) {
    const float* a = logits.data() + row * kColumns;
    SideLeaf sides[2];
    for (int k = 0; k < 2; ++k)
      kernels.side_f32(a + k * kColumns, kColumns, 0, 3, nullptr, &sides[k]);
    const auto log_sum = [&](const SideLeaf& s) {
      return kernels.log1p(s.tail + static_cast<double>(s.ties - 1));
    };
    const PairRow values{sides[0].max, sides[1].max, log_sum(sides[0]), log_sum(sides[1]), 0, 7};
    PairLeaf pair;
    kernels.pair_f32(a, a + kColumns, kColumns, 0, values, &pair);
    hash->Update({reinterpret_cast<const uint8_t*>(sides), sizeof sides});
    hash->Update({reinterpret_cast<const uint8_t*>(&pair), sizeof pair});
  }
}

}  // namespace

absl::StatusOr<std::string> RunSelfTest(ReplayBackend backend) {
  ASSAY_RETURN_IF_ERROR(CheckTileSizes(backend));
  Sha256 hash;
  for (const uint64_t width : kWidths) {
    const Problem p(backend, kRows, kColumns, width);
    std::vector<float> whole;
    ASSAY_RETURN_IF_ERROR(MultiplyCut(p, kRows, kColumns, &whole));
    ASSAY_RETURN_IF_ERROR(CheckCut(p, 1, kColumns, whole));
    ASSAY_RETURN_IF_ERROR(CheckCut(p, 16, 64, whole));
    ASSAY_RETURN_IF_ERROR(CheckCut(p, 7, 25, whole));
    ASSAY_RETURN_IF_ERROR(CheckCut(p, 3, 1, whole));
    ASSAY_RETURN_IF_ERROR(CheckThreads(p, whole));
    hash.Update({reinterpret_cast<const uint8_t*>(whole.data()), whole.size() * 4});
    HashMetric(whole, &hash);
  }
  return hash.FinishHex();
}

}  // namespace assay
