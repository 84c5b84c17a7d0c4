// First pass: maximum, its columns, and the sums of exp below it, over one leaf of one row.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

// Ranges of the first blocks of a leaf: all of those that the largest leaf has.
inline constexpr int64_t kBlocksKept = 8;

// Largest logit; NaN or +inf end the search with the first such column in *bad.
template <typename T>
double FindMax(const T* x, int64_t columns, Range (&ranges)[kBlocksKept], int64_t* bad) {
  *bad = -1;
  double max = -kInfinity;
  for (int64_t block = 0; block < columns; block += kBlockColumns) {
    const Range range = RangeOf(x + block, BlockSize(block, columns));
    if (range.bad) {
      *bad = block;
      while (x[*bad] < kInfinity) ++*bad;
      return 0;
    }
    max = range.max > max ? range.max : max;
    if (block < kBlockColumns * kBlocksKept) ranges[block / kBlockColumns] = range;
  }
  return max;
}

struct SideLanes {
  Vec8 tail, weighted;
};

// Columns that are all below `top`, by no more than exp can tell. `next` is where the next row
// lies: the search for its maximum is too fast for memory outside the first-level cache; `ahead` is
// what others want next.
template <typename T>
inline int64_t AddBelow(const T* x, const T* next, const T* ahead, int64_t at, int64_t end,
                        Vec8 top, SideLanes* sums) {
  SideLanes s = *sums;
  for (; at + 16 <= end; at += 16) {
    __builtin_prefetch(next + at);
    __builtin_prefetch(ahead + at, 0, 2);
    const Vec16 y = Load16(x + at) - top;
    const Vec16 e = ExpOfTerm(y);
    s.tail = (s.tail + e.a) + e.b;
    s.weighted = Fma(e.b, y.b, Fma(e.a, y.a, s.weighted));
  }
  *sums = s;
  return at;
}

// Any columns; those at `top` are counted in *out instead.
template <typename T, bool kCap>
void AddAny(const T* x, int64_t at, int64_t end, Vec8 top, Vec8 cap, SideLanes* sums,
            SideLeaf* out) {
  const Vec8 zero = Set(0.0), lowest = Set(kExpMin);
  for (; at < end; at += 8) {
    const Vec8 y = CappedColumns<kCap>(x, at, end, cap) - top;
    const Mask8 below = Less(y, zero);
    if (below != 0xff) {
      const unsigned hits = ~static_cast<unsigned>(below) & 0xff;
      if (out->argmax < 0) out->argmax = at + __builtin_ctz(hits);
      out->ties += __builtin_popcount(hits);
    }
    const Vec8 clamped = Max(y, lowest);
    const Mask8 counted = static_cast<Mask8>(below & LessEqual(lowest, y));
    const Vec8 e = Select(counted, ExpInRange(clamped), zero);
    sums->tail = sums->tail + e;
    sums->weighted = Fma(e, clamped, sums->weighted);
  }
}

template <typename T, bool kCap>
void Side(const T* x, int64_t columns, double softcap, int64_t observed, const void* ahead,
          SideLeaf* out) {
  *out = SideLeaf{-kInfinity, 0, 0, 0, -1, 0, -1};
  Range ranges[kBlocksKept];
  double max = FindMax(x, columns, ranges, &out->bad);
  if (out->bad >= 0) return;
  if (observed >= 0 && observed < columns) {
    const double value = static_cast<double>(x[observed]);
    out->observed = kCap ? CapOne(value, softcap) : value;
  }
  if (max == -kInfinity) return;
  if constexpr (kCap) max = CapOne(max, softcap);
  out->max = max;
  const Vec8 zero = Set(0.0);
  const T* const wanted = ahead != nullptr ? static_cast<const T*>(ahead) : x;
  SideLanes total = {zero, zero};
  for (int64_t block = 0; block < columns; block += kBlockColumns) {
    const int64_t size = BlockSize(block, columns);
    SideLanes sums = {zero, zero};
    int64_t at = block;
    if constexpr (!kCap) {
      const Range range = block < kBlockColumns * kBlocksKept ? ranges[block / kBlockColumns]
                                                              : RangeOf(x + block, size);
      if (range.max < max && range.min - max >= kExpMin) {
        at = AddBelow(x, x + columns, wanted, block, block + size, Set(max), &sums);
      }
    }
    AddAny<T, kCap>(x, at, block + size, Set(max), Set(softcap), &sums, out);
    total.tail = total.tail + sums.tail;
    total.weighted = total.weighted + sums.weighted;
  }
  out->tail = SumLanes(total.tail);
  out->weighted = 0.0 - SumLanes(total.weighted);
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
