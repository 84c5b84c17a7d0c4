#include "worker/capture/weights/bit_stream.h"

#include <cstring>

namespace assay {
namespace {

// Eight values lie in `kBits` whole bytes.
template <int kBits>
void Unpack(const uint8_t* bytes, uint64_t count, float* out) {
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  const auto eight = [](uint64_t packed, uint64_t n, float* to) {
    for (uint64_t k = 0; k < n; ++k) {
      to[k] = static_cast<float>(static_cast<int32_t>((packed >> (k * kBits)) & kMask));
    }
  };
  for (; count >= 8; count -= 8, bytes += kBits, out += 8) {
    uint64_t packed = 0;
    std::memcpy(&packed, bytes, kBits);
    eight(packed, 8, out);
  }
  uint64_t packed = 0;
  std::memcpy(&packed, bytes, (count * kBits + 7) / 8);
  eight(packed, count, out);
}

// The usual widths, written so that the compiler makes vectors of them.
template <>
void Unpack<4>(const uint8_t* bytes, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count / 2; ++i) {
    out[2 * i] = static_cast<float>(bytes[i] & 15);
    out[2 * i + 1] = static_cast<float>(bytes[i] >> 4);
  }
  if (count % 2 != 0) out[count - 1] = static_cast<float>(bytes[count / 2] & 15);
}

template <>
void Unpack<8>(const uint8_t* bytes, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<float>(bytes[i]);
}

}  // namespace

void UnpackBits(const uint8_t* bytes, int bits, uint64_t count, float* out) {
  switch (bits) {
    case 1:
      return Unpack<1>(bytes, count, out);
    case 2:
      return Unpack<2>(bytes, count, out);
    case 3:
      return Unpack<3>(bytes, count, out);
    case 4:
      return Unpack<4>(bytes, count, out);
    case 5:
      return Unpack<5>(bytes, count, out);
    case 6:
      return Unpack<6>(bytes, count, out);
    case 7:
      return Unpack<7>(bytes, count, out);
    default:
      return Unpack<8>(bytes, count, out);
  }
}

}  // namespace assay
