#include "worker/capture/weights/bit_stream.h"

#include <cstring>
#include <utility>

namespace assay {
namespace {

// The eight values of kBits bytes as bytes, first value lowest. Written out, since vectors of
// 64-bit shifts are slower than the shifts.
template <int kBits, int... kIndex>
uint64_t SpreadToBytes(uint64_t packed, std::integer_sequence<int, kIndex...>) {
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  return ((((packed >> (kIndex * kBits)) & kMask) << (8 * kIndex)) | ...);
}

// Eight values lie in kBits whole bytes; conversion to float is a loop of its own, which becomes
// vectors.
template <int kBits>
void Unpack(const uint8_t* bytes, uint64_t count, float* out) {
  constexpr uint64_t kPiece = 512;
  uint8_t values[kPiece];
  while (count > 0) {
    const uint64_t now = count < kPiece ? count : kPiece;
    for (uint64_t i = 0; i < now; i += 8, bytes += kBits) {
      const uint64_t left = now - i < 8 ? now - i : 8;
      uint64_t packed = 0;
      if (left == 8) {
        std::memcpy(&packed, bytes, kBits);
      } else {
        std::memcpy(&packed, bytes, (left * kBits + 7) / 8);
      }
      packed = SpreadToBytes<kBits>(packed, std::make_integer_sequence<int, 8>());
      std::memcpy(values + i, &packed, 8);
    }
    for (uint64_t i = 0; i < now; ++i) out[i] = static_cast<float>(values[i]);
    count -= now;
    out += now;
  }
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
