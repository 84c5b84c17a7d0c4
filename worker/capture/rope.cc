#include "worker/capture/rope.h"

#include <cmath>
#include <numbers>

namespace assay::capture {
namespace {

// Low frequencies are divided by the factor, high ones kept, those between interpolated. Torch
// evaluates scalar / tensor as scalar times reciprocal.
float Llama3Frequency(float omega, const RopeScaling& rope) {
  const float factor = float(rope.factor);
  const float low = float(rope.low_freq_factor);
  const float high = float(rope.high_freq_factor);
  const float length = float(rope.original_max_positions);
  const float wavelength = (1.0f / omega) * float(2.0 * std::numbers::pi);
  if (wavelength > length / low) return omega / factor;
  if (wavelength < length / high) return omega;
  const float smooth = ((1.0f / wavelength) * length - low) / (high - low);
  return ((1.0f - smooth) * omega) / factor + smooth * omega;
}

}  // namespace

std::vector<float> RopeFrequencies(const ModelConfig& config) {
  const int64_t half = config.head_dim / 2;
  std::vector<float> frequencies(half);
  for (int64_t j = 0; j < half; ++j) {
    const float exponent = float(2 * j) / float(config.head_dim);
    const float power = float(std::pow(double(float(config.rope_theta)), double(exponent)));
    float omega = 1.0f / power;
    if (config.rope.type == RopeType::kLinear) omega = omega / float(config.rope.factor);
    if (config.rope.type == RopeType::kLlama3) omega = Llama3Frequency(omega, config.rope);
    if (!config.rope.divisors.empty()) omega = omega / config.rope.divisors[j];
    frequencies[j] = omega;
  }
  return frequencies;
}

RopeTable MakeRopeTable(const std::vector<float>& frequencies, int64_t positions) {
  RopeTable table;
  table.positions = positions;
  table.cos.reserve(positions * frequencies.size());
  table.sin.reserve(positions * frequencies.size());
  for (int64_t t = 0; t < positions; ++t) {
    for (float frequency : frequencies) {
      const double angle = double(t) * double(frequency);
      table.cos.push_back(float(std::cos(angle)));
      table.sin.push_back(float(std::sin(angle)));
    }
  }
  return table;
}

}  // namespace assay::capture
