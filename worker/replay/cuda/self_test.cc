// The start-up check of a device (RunDeviceSelfTest): as startup_check.h does for a CPU.

#include <cstring>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/cuda/device_run.h"

namespace assay {
namespace {

constexpr uint64_t kRows = 150;  // more than one tile of 128 rows
// Eight leaves, no multiple of a tile's width.
struct Shape {
  uint64_t width, columns;
};
constexpr Shape kShapes[] = {{72, 8 * 407}, {576, 8 * 407}, {2080, 8 * 407}, {5120, 8 * 67}};

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

std::span<const uint8_t> BytesOf(const std::vector<uint16_t>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 2};
}

struct Problem {
  explicit Problem(const Shape& shape)
      : width(shape.width),
        columns(shape.columns),
        hidden(MakeValues(kRows * width, 1)),
        head(MakeValues(columns * width, 2)) {
    plan.backend = ReplayBackend::kCudaBf16;
    plan.heads.push_back({"h", BytesOf(head), columns, width, "", 1, {}});
    const RowBlock block{BytesOf(hidden), RowType::kBf16, kRows, width, nullptr};
    plan.operands.push_back(
        {"o", OperandKind::kHidden, [block](size_t) -> absl::StatusOr<RowBlock> { return block; }});
    plan.contexts.push_back({0, std::vector<int32_t>(kRows, 3)});
    plan.comparisons.push_back({"c", {"o", "h"}, {"o", "h"}});
  }

  const uint64_t width, columns;
  const std::vector<uint16_t> hidden, head;
  ReplayPlan plan;
};

// The [kRows, columns] products, `rows` rows at a time, each rank of `ranks` in turn. `partials`
// receives both passes of the last tile of a single rank.
absl::StatusOr<std::vector<float>> Products(const Problem& p, uint64_t rows, int ranks,
                                            ReplayDevice& device, Sha256* hash) {
  std::vector<float> out(kRows * p.columns), part;
  for (int rank = 0; rank < ranks; ++rank) {
    ASSAY_ASSIGN_OR_RETURN(const Job job, ResolveJob(p.plan, rank, ranks));
    ASSAY_RETURN_IF_ERROR(device.Begin(job, rows));
    for (uint64_t first = 0; first < kRows; first += rows) {
      const uint64_t n = std::min(rows, kRows - first);
      std::memcpy(device.Staging(0, 0), p.hidden.data() + first * p.width, n * p.width * 2);
      ASSAY_RETURN_IF_ERROR(device.StartFirst(0, std::span(p.plan.contexts[0].observed).first(n)));
      std::vector<SideLeaf> sides;
      ASSAY_RETURN_IF_ERROR(device.FinishFirst(0, &sides));
      ASSAY_RETURN_IF_ERROR(device.ReadProducts(0, 0, &part));
      for (uint64_t row = 0; row < n; ++row) {
        std::memcpy(out.data() + (first + row) * p.columns + job.own_begin,
                    part.data() + row * job.own_columns(), job.own_columns() * 4);
      }
      if (hash == nullptr) continue;
      hash->Update(
          {reinterpret_cast<const uint8_t*>(sides.data()), sides.size() * sizeof sides[0]});
      const std::vector<PairRow> rows_of_pairs(n, {1, 2, 3, 3.5, 0.5, 11});
      std::vector<PairLeaf> pairs;
      ASSAY_RETURN_IF_ERROR(device.StartSecond(0, rows_of_pairs));
      ASSAY_RETURN_IF_ERROR(device.FinishSecond(0, &pairs));
      hash->Update(
          {reinterpret_cast<const uint8_t*>(pairs.data()), pairs.size() * sizeof pairs[0]});
    }
  }
  return out;
}

}  // namespace

std::string DescribeDevice(const DeviceIdentity& identity) {
  return identity.device + "; CUDA " + identity.driver + "; " + identity.product + " " +
         identity.algorithm + "; " + kDeviceKernelsVersion;
}

absl::StatusOr<std::string> RunDeviceSelfTest(ReplayDevice& device) {
  Sha256 hash;
  for (const Shape& shape : kShapes) {
    const Problem p(shape);
    ASSAY_ASSIGN_OR_RETURN(const std::vector<float> whole, Products(p, kRows, 1, device, &hash));
    hash.Update({reinterpret_cast<const uint8_t*>(whole.data()), whole.size() * 4});
    const std::pair<uint64_t, int> cuts[] = {{128, 1}, {64, 2}, {7, 1}, {1, 8}, {kRows, 4}};
    for (const auto& [rows, ranks] : cuts) {
      ASSAY_ASSIGN_OR_RETURN(const std::vector<float> cut,
                             Products(p, rows, ranks, device, nullptr));
      if (std::memcmp(cut.data(), whole.data(), whole.size() * 4) == 0) continue;
      return InternalError("SELF_TEST_FAILED",
                           "cuda-bf16 products of width " + std::to_string(shape.width) + " on " +
                               device.identity().device + " change bits when cut into " +
                               std::to_string(rows) + " rows and " + std::to_string(ranks) +
                               " ranks; results would depend on how work is shared");
    }
  }
  return hash.FinishHex();
}

}  // namespace assay
