// Rotary position tables (arch-qwen-llama 1.5).

#ifndef ASSAY_WORKER_CAPTURE_ROPE_H_
#define ASSAY_WORKER_CAPTURE_ROPE_H_

#include <cstdint>
#include <vector>

#include "worker/capture/weights/config.h"

namespace assay::capture {

// head_dim / 2 frequencies in float32, each step rounded as torch rounds it: exponent, power and
// reciprocal, then linear, llama3 or yarn scaling, or the divisors that a GGUF file carries.
std::vector<float> RopeFrequencies(const ModelConfig& config);

// cos and sin of position * frequency, times `factor` (yarn's; 1 for the others), [positions,
// frequencies]: angles, functions and product in float64, rounded once. Float32 angles would be
// 1e-5 off at position 127 and flip bf16 roundings.
struct RopeTable {
  int64_t positions = 0;
  std::vector<float> cos, sin;
};
RopeTable MakeRopeTable(const std::vector<float>& frequencies, double factor, int64_t positions);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_ROPE_H_
