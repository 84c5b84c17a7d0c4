#include "worker/capture/weights/transform.h"

#include <cmath>

namespace assay {
namespace {

// Adding and subtracting 1.5 * 2^23 rounds |x| < 2^22 to an integer, half to even, and turns -0.5
// to +0 as an integer code would; |w / s| stays near the code range. Unlike std::rint it is a
// vector operation on every x86.
inline float RoundToCode(float x) {
  constexpr float kMagic = 12582912.0f;
  return (x + kMagic) - kMagic;
}

float LargestMagnitude(const float* values, uint64_t count) {
  // Lanes of their own let the compiler use vectors; a maximum is the same in any order.
  constexpr uint64_t kLanes = 8;
  float lanes[kLanes] = {};
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (uint64_t lane = 0; lane < kLanes; ++lane) {
      const float magnitude = std::fabs(values[i + lane]);
      lanes[lane] = lanes[lane] < magnitude ? magnitude : lanes[lane];
    }
  }
  float largest = 0;
  for (; i < count; ++i) largest = std::fmax(largest, std::fabs(values[i]));
  for (float lane : lanes) largest = std::fmax(largest, lane);
  return largest;
}

}  // namespace

void RoundRowToNearest(float* row, uint64_t cols, uint64_t group, int bits) {
  const float limit = static_cast<float>((1 << (bits - 1)) - 1);
  for (float* at = row; at < row + cols; at += group) {
    const float scale = LargestMagnitude(at, group) / limit;
    if (scale == 0) {
      // All codes are 0; a NaN among zeros is kept.
      for (uint64_t i = 0; i < group; ++i) at[i] = std::isnan(at[i]) ? at[i] : 0.0f;
      continue;
    }
    for (uint64_t i = 0; i < group; ++i) {
      float code = RoundToCode(at[i] / scale);
      code = code < -limit ? -limit : code;
      code = code > limit ? limit : code;
      at[i] = code * scale;
    }
  }
}

}  // namespace assay
