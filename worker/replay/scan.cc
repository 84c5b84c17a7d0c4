#include "worker/replay/scan.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "storage/base/bf16.h"

namespace assay {
namespace {

constexpr size_t kChunk = 4096;  // elements copied to aligned storage at a time

}  // namespace

// Magnitudes of floating-point numbers are ordered like their bits without the sign; infinity is
// 0x7f80.
ScanResult ScanBf16(std::span<const uint8_t> bytes) {
  constexpr uint16_t kMagnitude = 0x7fff, kInfinite = 0x7f80;
  ScanResult out;
  uint16_t best = 0;
  std::vector<uint16_t> chunk(kChunk);
  const size_t count = bytes.size() / 2;
  for (size_t at = 0; at < count; at += kChunk) {
    const size_t n = std::min(kChunk, count - at);
    std::memcpy(chunk.data(), bytes.data() + at * 2, n * 2);
    uint16_t top = 0;
    for (size_t i = 0; i < n; ++i) top = std::max<uint16_t>(top, chunk[i] & kMagnitude);
    if (top < kInfinite) {
      best = std::max(best, top);
      continue;
    }
    for (size_t i = 0; i < n; ++i) {
      const uint16_t magnitude = chunk[i] & kMagnitude;
      if (magnitude < kInfinite) {
        best = std::max(best, magnitude);
      } else if (out.non_finite < 0) {
        out.non_finite = static_cast<int64_t>(at + i);
      }
    }
  }
  out.max_abs = Bf16ToFloat(best);
  return out;
}

}  // namespace assay
