#include "worker/capture/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

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

// Where the ramp from kept to divided frequencies begins and ends, as numbers of a frequency. The
// frequency that turns n times within the original length is d * ln(length / (2 pi n)) / (2 ln
// base).
std::pair<double, double> YarnRange(const ModelConfig& config) {
  const RopeScaling& rope = config.rope;
  const double dim = double(config.head_dim);
  const auto turning = [&](double turns) {
    return dim * std::log(rope.original_max_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.rope_theta));
  };
  double low = turning(rope.beta_fast), high = turning(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  return {low, high == low ? high + 0.001 : high};
}

// Not omega / factor: the product with the power is rounded before its reciprocal is.
float YarnFrequency(float omega, float power, int64_t j, double low, double high, double factor) {
  const float ramp = std::clamp((float(j) - float(low)) / float(high - low), 0.0f, 1.0f);
  const float kept = 1.0f - ramp;
  const float divided = 1.0f / (float(factor) * power);
  return divided * (1.0f - kept) + omega * kept;
}

}  // namespace

std::vector<float> RopeFrequencies(const ModelConfig& config) {
  const int64_t half = config.head_dim / 2;
  std::vector<float> frequencies(half);
  const bool yarn = config.rope.type == RopeType::kYarn;
  const auto [low, high] = yarn ? YarnRange(config) : std::pair(0.0, 0.0);
  for (int64_t j = 0; j < half; ++j) {
    const float exponent = float(2 * j) / float(config.head_dim);
    const float power = float(std::pow(double(float(config.rope_theta)), double(exponent)));
    float omega = 1.0f / power;
    if (config.rope.type == RopeType::kLinear) omega = omega / float(config.rope.factor);
    if (config.rope.type == RopeType::kLlama3) omega = Llama3Frequency(omega, config.rope);
    if (yarn) omega = YarnFrequency(omega, power, j, low, high, config.rope.factor);
    if (!config.rope.divisors.empty()) omega = omega / config.rope.divisors[j];
    frequencies[j] = omega;
  }
  return frequencies;
}

RopeTable MakeRopeTable(const std::vector<float>& frequencies, double factor, int64_t positions) {
  RopeTable table;
  table.positions = positions;
  table.cos.reserve(positions * frequencies.size());
  table.sin.reserve(positions * frequencies.size());
  for (int64_t t = 0; t < positions; ++t) {
    for (float frequency : frequencies) {
      const double angle = double(t) * double(frequency);
      table.cos.push_back(float(std::cos(angle) * factor));
      table.sin.push_back(float(std::sin(angle) * factor));
    }
  }
  return table;
}

}  // namespace assay::capture
