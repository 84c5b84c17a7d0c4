// Reading little-endian values at any alignment.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_LOAD_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_LOAD_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "storage/base/f16.h"

namespace assay {

static_assert(std::endian::native == std::endian::little, "stored values are little-endian");

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

inline float LoadF16(const uint8_t* bytes) { return F16ToFloat(Load<uint16_t>(bytes)); }

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_LOAD_H_
