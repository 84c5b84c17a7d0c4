// Rotary position tables (arch-qwen-llama 1.5).

#ifndef ASSAY_WORKER_CAPTURE_ROPE_H_
#define ASSAY_WORKER_CAPTURE_ROPE_H_

#include <cstdint>
#include <vector>

#include "worker/capture/weights/config.h"

namespace assay::capture {

// head_dim / 2 frequencies in float32, each step rounded as torch rounds it: exponent, power and
// reciprocal, then linear or llama3 scaling, or the divisors that a GGUF file carries.
std::vector<float> RopeFrequencies(const ModelConfig& config);

// cos and sin of position * frequency, [positions, frequencies]: angles and functions in float64,
// rounded once. Float32 angles would be 1e-5 off at position 127 and flip bf16 roundings.
struct RopeTable {
  int64_t positions = 0;
  std::vector<float> cos, sin;
};
RopeTable MakeRopeTable(const std::vector<float>& frequencies, int64_t positions);

}  // namespace assay::capture

#endif  // ASSAY_WORKER_CAPTURE_ROPE_H_
