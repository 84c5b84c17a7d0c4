#include "worker/capture/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// Row functions are compiled once per instruction set and picked at load time. They use only
// operations that IEEE 754 rounds exactly, in the order written, so every version gives the same
// bits. The OpenMP loops stay outside: their outlined bodies would not be cloned.
#if defined(__x86_64__) && !defined(ASSAY_SANITIZED)
#define ASSAY_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ASSAY_CLONES
#endif
#define ASSAY_INLINE inline __attribute__((always_inline))

// Vectors never cross a function border: every helper that takes one is inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace assay::capture {
namespace {

constexpr int64_t kLanes = 16;
typedef float V16 __attribute__((vector_size(64)));
typedef uint32_t U16 __attribute__((vector_size(64)));
typedef float V8 __attribute__((vector_size(32)));
typedef double D8 __attribute__((vector_size(64)));

ASSAY_INLINE V16 Load(const float* p) {
  V16 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
ASSAY_INLINE void Store(V16 v, float* p) { std::memcpy(p, &v, sizeof v); }
ASSAY_INLINE V16 LoadPart(const float* p, int64_t count, float fill) {
  float lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < count ? p[i] : fill;
  return Load(lanes);
}
ASSAY_INLINE void StorePart(V16 v, int64_t count, float* p) {
  float lanes[kLanes];
  Store(v, lanes);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}
ASSAY_INLINE V16 All(float x) { return V16{} + x; }

// Cody-Waite reduction by multiples of ln 2 and the degree-5 polynomial of Cephes' expf.
ASSAY_INLINE V16 Exp(V16 x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const V16 clamped = x < -87.3f ? All(-87.3f) : (x > 0.0f ? All(0.0f) : x);
  const V16 shifted = clamped * 1.44269504088896341f + kShift;
  const V16 n = shifted - kShift;
  const V16 r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  V16 p = All(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const V16 y = (p * (r * r) + r) + 1.0f;
  U16 bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127u) << 23;  // the low bits of `shifted` hold n
  V16 power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.3f ? All(0.0f) : y * power;
}

ASSAY_INLINE float FoldSum(V16 v) {
  float lanes[kLanes];
  Store(v, lanes);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

ASSAY_INLINE float FoldMax(V16 v) {
  float lanes[kLanes];
  Store(v, lanes);
  float best = lanes[0];
  for (int64_t i = 1; i < kLanes; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best;
}

ASSAY_INLINE D8 Squares(const float* p, D8 sum) {
  V8 half;
  std::memcpy(&half, p, sizeof half);
  const D8 wide = __builtin_convertvector(half, D8);
  return sum + wide * wide;
}

ASSAY_CLONES double SumOfSquares(const float* x, int64_t width) {
  D8 low{}, high{};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    low = Squares(x + i, low);
    high = Squares(x + i + 8, high);
  }
  if (i < width) {
    float tail[kLanes] = {};
    std::copy(x + i, x + width, tail);
    low = Squares(tail, low);
    high = Squares(tail + 8, high);
  }
  double lanes[8];
  const D8 both = low + high;
  std::memcpy(lanes, &both, sizeof lanes);
  for (int half = 4; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

ASSAY_CLONES void ScaleRow(const float* x, const float* w, float r, int64_t width, float* y) {
  for (int64_t i = 0; i < width; ++i) y[i] = w[i] * (x[i] * r);
}

// valid >= 1 entries take part; entries [valid, keys) become 0.
ASSAY_CLONES void SoftmaxRow(float* s, int64_t valid, int64_t keys, float scale) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const int64_t whole = valid / kLanes * kLanes;
  const int64_t rest = valid - whole;
  V16 top = All(kLowest);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const V16 v = Load(s + i) * scale;
    Store(v, s + i);
    top = v > top ? v : top;
  }
  const V16 last = LoadPart(s + whole, rest, 0.0f) * scale;
  StorePart(last, rest, s + whole);
  if (rest > 0) {
    const V16 padded = LoadPart(s + whole, rest, kLowest);
    top = padded > top ? padded : top;
  }
  const float most = FoldMax(top);
  V16 sum{};
  for (int64_t i = 0; i < whole; i += kLanes) {
    const V16 e = Exp(Load(s + i) - most);
    Store(e, s + i);
    sum = sum + e;
  }
  if (rest > 0) {
    const V16 e = Exp(LoadPart(s + whole, rest, most) - most);
    StorePart(e, rest, s + whole);
    sum = sum + LoadPart(s + whole, rest, 0.0f);
  }
  const float total = FoldSum(sum);
  for (int64_t i = 0; i < valid; ++i) s[i] = s[i] / total;
  std::fill(s + valid, s + keys, 0.0f);
}

ASSAY_INLINE V16 SwiGlu(V16 g, V16 u) {
  const V16 e = Exp(g < 0.0f ? g : -g);
  const V16 numerator = g < 0.0f ? g * e : g;
  return numerator / (e + 1.0f) * u;
}

ASSAY_CLONES void SwiGluRow(const float* g, const float* u, int64_t width, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) Store(SwiGlu(Load(g + i), Load(u + i)), out + i);
  const int64_t rest = width - i;
  if (rest > 0) {
    const V16 v = SwiGlu(LoadPart(g + i, rest, 0.0f), LoadPart(u + i, rest, 0.0f));
    StorePart(v, rest, out + i);
  }
}

ASSAY_CLONES void AddRow(const float* a, const float* b, int64_t width, float* out) {
  for (int64_t i = 0; i < width; ++i) out[i] = a[i] + b[i];
}

ASSAY_CLONES void RotateInPlace(const float* cos, const float* sin, int64_t half, float* x) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

void RmsNormRow(const float* x, const float* w, float eps, int64_t width, float* y) {
  const double mean = SumOfSquares(x, width) / double(width);
  ScaleRow(x, w, float(1.0 / std::sqrt(mean + double(eps))), width, y);
}

float* VectorOf(const HeadSlot& slot, const BatchShape& shape, int64_t dim, int64_t context,
                int64_t token) {
  const int64_t start = token / slot.block * slot.block;
  const int64_t length = std::min(slot.block, shape.tokens - start);
  const int64_t row = (context * slot.members + slot.member) * length + (token - start);
  return slot.base + (shape.contexts * slot.members * start + row) * dim;
}

}  // namespace

float ExpNonPositive(float x) {
  float lanes[kLanes];
  Store(Exp(All(x)), lanes);
  return lanes[0];
}

void RmsNormRows(const float* x, const float* w, float eps, int64_t rows, int64_t width, float* y) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) RmsNormRow(x + r * width, w, eps, width, y + r * width);
}

void CausalSoftmaxRows(float* s, int64_t rows, int64_t keys, int64_t queries, int64_t first_query,
                       int64_t window, float scale) {
#pragma omp parallel for schedule(static, 16)
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = s + r * keys;
    const int64_t end = first_query + r % queries + 1;
    const int64_t begin = window == 0 ? 0 : std::max<int64_t>(0, end - window);
    std::fill(row, row + begin, 0.0f);
    SoftmaxRow(row + begin, end - begin, keys - begin, scale);
  }
}

void SwiGluRows(const float* gu, const float* gate_bias, const float* up_bias, int64_t rows,
                int64_t width, float* out) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* g = gu + r * 2 * width;
    const float* u = g + width;
    float* y = out + r * width;
    if (gate_bias == nullptr) {
      SwiGluRow(g, u, width, y);
      continue;
    }
    constexpr int64_t kChunk = 256;
    float gb[kChunk], ub[kChunk];
    for (int64_t i = 0; i < width; i += kChunk) {
      const int64_t n = std::min(kChunk, width - i);
      AddRow(g + i, gate_bias + i, n, gb);
      AddRow(u + i, up_bias + i, n, ub);
      SwiGluRow(gb, ub, n, y + i);
    }
  }
}

void SumPieces(const float* pieces, int64_t count, int64_t rows, int64_t width, const float* bias,
               float* out) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    float* y = out + r * width;
    std::copy(pieces + r * width, pieces + (r + 1) * width, y);
    for (int64_t p = 1; p < count; ++p) AddRow(y, pieces + (p * rows + r) * width, width, y);
    if (bias != nullptr) AddRow(y, bias, width, y);
  }
}

void SplitHeads(const float* x, int64_t ld, const float* bias, float eps, const float* cos,
                const float* sin, const BatchShape& shape, int64_t dim,
                std::span<const HeadSlot> slots) {
  const int64_t half = dim / 2;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < shape.rows(); ++row) {
    const int64_t context = row / shape.tokens;
    const int64_t token = row % shape.tokens;
    for (const HeadSlot& slot : slots) {
      const float* in = x + row * ld + slot.column;
      float* out = VectorOf(slot, shape, dim, context, token);
      if (bias != nullptr) {
        AddRow(in, bias + slot.column, dim, out);
      } else {
        std::copy(in, in + dim, out);
      }
      if (slot.norm != nullptr) RmsNormRow(out, slot.norm, eps, dim, out);
      if (slot.rotate) RotateInPlace(cos + token * half, sin + token * half, half, out);
    }
  }
}

void MergeHeads(std::span<const HeadSlot> slots, const BatchShape& shape, int64_t dim, int64_t ld,
                float* y) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < shape.rows(); ++row) {
    for (const HeadSlot& slot : slots) {
      const float* in = VectorOf(slot, shape, dim, row / shape.tokens, row % shape.tokens);
      std::copy(in, in + dim, y + row * ld + slot.column);
    }
  }
}

}  // namespace assay::capture
