#include "storage/report/numpy_random.h"

#include <array>
#include <bit>
#include <cstddef>

namespace assay {
namespace {

constexpr unsigned __int128 kMultiplier =
    (static_cast<unsigned __int128>(0x2360ED051FC65DA4u) << 64) | 0x4385DF649FCCF645u;

uint32_t Hash(uint32_t value, uint32_t multiplier, uint32_t* constant) {
  value ^= *constant;
  *constant *= multiplier;
  value *= *constant;
  return value ^ (value >> 16);
}

uint32_t Mix(uint32_t x, uint32_t y) {
  const uint32_t value = 0xca01f9ddu * x - 0x4973f715u * y;
  return value ^ (value >> 16);
}

// SeedSequence(seed).generate_state(4, uint64).
std::array<uint64_t, 4> Seeds(uint64_t seed) {
  std::array<uint32_t, 4> pool = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0,
                                  0};
  uint32_t constant = 0x43b0d7e5u;
  for (uint32_t& word : pool) word = Hash(word, 0x931e8875u, &constant);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = Mix(pool[to], Hash(pool[from], 0x931e8875u, &constant));
    }
  }
  std::array<uint64_t, 4> out;
  constant = 0x8b51f9ddu;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const uint64_t low = Hash(pool[2 * i % 4], 0x58f38dedu, &constant);
    const uint64_t high = Hash(pool[(2 * i + 1) % 4], 0x58f38dedu, &constant);
    out[i] = low | (high << 32);
  }
  return out;
}

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) {
  const auto seeds = Seeds(seed);
  const auto wide = [](uint64_t high, uint64_t low) {
    return (static_cast<unsigned __int128>(high) << 64) | low;
  };
  increment_ = (wide(seeds[2], seeds[3]) << 1) | 1;
  Step();
  state_ += wide(seeds[0], seeds[1]);
  Step();
}

void NumpyRandom::Step() { state_ = state_ * kMultiplier + increment_; }

uint64_t NumpyRandom::Word64() {
  Step();
  const auto high = static_cast<uint64_t>(state_ >> 64), low = static_cast<uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

uint32_t NumpyRandom::Word32() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const uint64_t word = Word64();
  spare_ = static_cast<uint32_t>(word >> 32);
  has_spare_ = true;
  return static_cast<uint32_t>(word);
}

uint32_t NumpyRandom::Below(uint32_t n) {
  uint64_t product = static_cast<uint64_t>(Word32()) * n;
  if (static_cast<uint32_t>(product) < n) {
    const uint32_t threshold = (0u - n) % n;
    while (static_cast<uint32_t>(product) < threshold) {
      product = static_cast<uint64_t>(Word32()) * n;
    }
  }
  return static_cast<uint32_t>(product >> 32);
}

}  // namespace assay
