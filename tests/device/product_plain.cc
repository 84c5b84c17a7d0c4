// worker/replay/product.h without oneDNN, for a program that runs where no library of Debian is:
// plain fp32 sums in the order of K. Slow, and as independent of rows and columns as the real one.

#include <cstring>

#include "storage/base/bf16.h"
#include "storage/base/status.h"
#include "worker/replay/product.h"

namespace assay {

absl::Status PinOnednn() { return absl::OkStatus(); }
std::string OnednnVersion() { return "none"; }
std::string OnednnIsa() { return "none"; }
bool HasAvx512Bf16() { return false; }

struct PackedLeaf::State {
  uint64_t columns = 0, width = 0;
  std::vector<float> weights;  // [columns, width]
};

PackedLeaf::PackedLeaf(std::unique_ptr<State> state) : state_(std::move(state)) {}
PackedLeaf::~PackedLeaf() = default;
uint64_t PackedLeaf::columns() const { return state_->columns; }
uint64_t PackedLeaf::bytes() const { return state_->weights.size() * 4; }
const uint8_t* PackedLeaf::data() const {
  return reinterpret_cast<const uint8_t*>(state_->weights.data());
}

absl::StatusOr<std::unique_ptr<PackedLeaf>> PackedLeaf::Pack(std::span<const uint8_t> rows,
                                                             uint64_t columns, uint64_t width,
                                                             ReplayBackend backend) {
  if (backend != ReplayBackend::kCpuF32) {
    return InternalError("PRODUCT_FAILED", "this program multiplies as cpu-f32 only");
  }
  auto state = std::make_unique<State>();
  state->columns = columns;
  state->width = width;
  state->weights.resize(columns * width);
  for (size_t i = 0; i < state->weights.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, rows.data() + 2 * i, 2);
    state->weights[i] = Bf16ToFloat(bits);
  }
  return std::unique_ptr<PackedLeaf>(new PackedLeaf(std::move(state)));
}

absl::Status PackedLeaf::Multiply(const void* hidden, uint64_t rows, float* out) const {
  const auto* values = static_cast<const float*>(hidden);
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t v = 0; v < state_->columns; ++v) {
      const float* w = state_->weights.data() + v * state_->width;
      float sum = 0;
      for (uint64_t k = 0; k < state_->width; ++k) sum += values[row * state_->width + k] * w[k];
      out[row * state_->columns + v] = sum;
    }
  }
  return absl::OkStatus();
}

}  // namespace assay
