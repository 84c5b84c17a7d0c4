// Checked 64-bit arithmetic for sizes and offsets that come from outside.

#ifndef ASSAY_STORAGE_BASE_CHECKED_H_
#define ASSAY_STORAGE_BASE_CHECKED_H_

#include <cstdint>
#include <optional>

namespace assay {

// The sum, or nothing when it does not fit in 64 unsigned bits.
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// The product, or nothing when it does not fit in 64 unsigned bits.
inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// True when [offset, offset + length) lies inside [0, size).
inline bool RangeInside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_CHECKED_H_
