#include "storage/report/python_random.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace assay {
namespace {

uint32_t Temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

}  // namespace

void PythonRandom::SeedBase(uint32_t seed) {
  state_[0] = seed;
  for (int i = 1; i < kWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<uint32_t>(i);
  }
}

PythonRandom::PythonRandom(uint64_t seed) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed)};
  if (seed >> 32) key.push_back(static_cast<uint32_t>(seed >> 32));
  SeedBase(19650218u);
  int i = 1;
  size_t j = 0;
  const auto step = [&] {
    if (++i >= kWords) {
      state_[0] = state_[kWords - 1];
      i = 1;
    }
  };
  for (int k = kWords; k > 0; --k) {  // the key is shorter than the state
    const uint32_t previous = state_[i - 1] ^ (state_[i - 1] >> 30);
    state_[i] = (state_[i] ^ (previous * 1664525u)) + key[j] + static_cast<uint32_t>(j);
    if (++j >= key.size()) j = 0;
    step();
  }
  for (int k = kWords - 1; k > 0; --k) {
    const uint32_t previous = state_[i - 1] ^ (state_[i - 1] >> 30);
    state_[i] = (state_[i] ^ (previous * 1566083941u)) - static_cast<uint32_t>(i);
    step();
  }
  state_[0] = 0x80000000u;
}

void PythonRandom::Refill() {
  constexpr int kShift = 397;
  const auto twist = [this](int i, int next, int far) {
    const uint32_t y = (state_[i] & 0x80000000u) | (state_[next] & 0x7fffffffu);
    state_[i] = state_[far] ^ (y >> 1) ^ (0x9908b0dfu & -(y & 1u));
  };
  for (int i = 0; i < kWords - kShift; ++i) twist(i, i + 1, i + kShift);
  for (int i = kWords - kShift; i < kWords - 1; ++i) twist(i, i + 1, i + kShift - kWords);
  twist(kWords - 1, 0, kShift - 1);
  next_ = 0;
}

uint32_t PythonRandom::Word() {
  if (next_ >= kWords) Refill();
  return Temper(state_[next_++]);
}

uint32_t PythonRandom::GetRandBits(int k) { return Word() >> (32 - k); }

void PythonRandom::GetRandBitsEach(int k, std::span<uint32_t> out) {
  for (size_t filled = 0; filled < out.size();) {
    if (next_ >= kWords) Refill();
    const size_t count = std::min<size_t>(out.size() - filled, static_cast<size_t>(kWords - next_));
    const uint32_t* const from = &state_[static_cast<size_t>(next_)];
    uint32_t* const to = &out[filled];
    for (size_t i = 0; i < count; ++i) to[i] = Temper(from[i]) >> (32 - k);
    next_ += static_cast<int>(count);
    filled += count;
  }
}

uint32_t PythonRandom::RandBelow(uint32_t n) {
  const int bits = std::bit_width(n);  // of n, not of n - 1: powers of two reject half the draws
  uint32_t value;
  do {
    value = GetRandBits(bits);
  } while (value >= n);
  return value;
}

void PythonRandom::RandBelowEach(uint32_t n, std::span<uint32_t> out) {
  const int shift = 32 - std::bit_width(n);
  std::array<uint32_t, kWords> values;
  for (size_t filled = 0; filled < out.size();) {
    if (next_ >= kWords) Refill();
    for (int i = next_; i < kWords; ++i) values[i] = Temper(state_[i]) >> shift;
    // No branch on what is rejected, which nothing predicts.
    int at = next_;  // stores to `out` might change a member, for all that a compiler knows
    for (; at < kWords && filled < out.size(); ++at) {
      out[filled] = values[at];
      filled += values[at] < n ? 1 : 0;
    }
    next_ = at;
  }
}

double PythonRandom::Random() {
  const uint32_t a = Word() >> 5;
  const uint32_t b = Word() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

std::vector<uint32_t> PythonRandom::ChoiceIndices(uint32_t n, uint32_t k) {
  std::vector<uint32_t> out;
  out.reserve(k);
  for (uint32_t i = 0; i < k; ++i) out.push_back(static_cast<uint32_t>(Random() * n));
  return out;
}

std::vector<uint32_t> PythonRandom::SampleIndices(uint32_t n, uint32_t k) {
  // CPython copies the population when that is cheaper than a set of k positions: setsize is 21,
  // plus 4 ** ceil(log(3k, 4)) for k > 5 (the smallest power of four that is at least 3k).
  uint64_t set_size = 21;
  if (k > 5) {
    uint64_t power = 1;
    while (power < uint64_t{3} * k) power *= 4;
    set_size += power;
  }
  std::vector<uint32_t> out;
  out.reserve(k);
  if (n <= set_size) {
    std::vector<uint32_t> pool(n);
    for (uint32_t i = 0; i < n; ++i) pool[i] = i;
    for (uint32_t i = 0; i < k; ++i) {
      const uint32_t j = RandBelow(n - i);
      out.push_back(pool[j]);
      pool[j] = pool[n - i - 1];
    }
    return out;
  }
  std::unordered_set<uint32_t> used;
  for (uint32_t i = 0; i < k; ++i) {
    uint32_t j = RandBelow(n);
    while (!used.insert(j).second) j = RandBelow(n);
    out.push_back(j);
  }
  return out;
}

}  // namespace assay
