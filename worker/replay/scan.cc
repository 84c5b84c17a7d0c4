#include "worker/replay/scan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "storage/base/bf16.h"

namespace assay {
namespace {

constexpr size_t kChunk = 4096;  // elements copied to aligned storage at a time

// Magnitudes of floating-point numbers are ordered like their bits without sign, and infinity
// begins `infinity`.
template <typename Bits>
ScanResult Scan(std::span<const uint8_t> bytes, Bits infinity, double (*value)(Bits)) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  ScanResult out;
  Bits best = 0;
  std::vector<Bits> chunk(kChunk);
  const size_t count = bytes.size() / sizeof(Bits);
  for (size_t at = 0; at < count; at += kChunk) {
    const size_t n = std::min(kChunk, count - at);
    std::memcpy(chunk.data(), bytes.data() + at * sizeof(Bits), n * sizeof(Bits));
    Bits top = 0;
    for (size_t i = 0; i < n; ++i) top = std::max(top, static_cast<Bits>(chunk[i] & kMagnitude));
    if (top < infinity) {
      best = std::max(best, top);
      continue;
    }
    for (size_t i = 0; i < n; ++i) {
      const Bits magnitude = chunk[i] & kMagnitude;
      if (magnitude < infinity) {
        best = std::max(best, magnitude);
      } else if (out.non_finite < 0) {
        out.non_finite = static_cast<int64_t>(at + i);
      }
    }
  }
  out.max_abs = value(best);
  return out;
}

double Bf16Value(uint16_t bits) { return Bf16ToFloat(bits); }
double F32Value(uint32_t bits) { return std::bit_cast<float>(bits); }

}  // namespace

ScanResult ScanBf16(std::span<const uint8_t> bytes) {
  return Scan<uint16_t>(bytes, 0x7f80u, Bf16Value);
}

ScanResult ScanF32(std::span<const uint8_t> bytes) {
  return Scan<uint32_t>(bytes, 0x7f800000u, F32Value);
}

}  // namespace assay
