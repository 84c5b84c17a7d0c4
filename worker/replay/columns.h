// How a kernel reads a leaf: blocks of 512 columns, eight at a time, after the softcap.
//
// Sums run in eight lanes; after every block the lane sums go into an outer sum, so an addend
// passes at most 64 + leaf/512 additions and the relative error of a leaf's sum is below 1e-14.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

inline constexpr int64_t kBlockColumns = 8 * 64;

inline int64_t BlockSize(int64_t block, int64_t columns) {
  return columns - block < kBlockColumns ? columns - block : kBlockColumns;
}

template <typename T>
inline Vec8 LoadColumns(const T* x, int64_t at, int64_t columns) {
  return columns - at >= 8 ? Load(x + at) : LoadFirst(x + at, static_cast<int>(columns - at));
}

// Eight columns from x[at] on, after the softcap. Lanes beyond the last column are -infinity, which
// the softcap alone would turn into -cap: columns that do not exist.
template <bool kCap, typename T>
inline Vec8 CappedColumns(const T* x, int64_t at, int64_t columns, Vec8 cap) {
  const Vec8 raw = LoadColumns(x, at, columns);
  if constexpr (!kCap) {
    return raw;
  } else {
    const Vec8 capped = SoftcapOf(raw, cap);
    const int64_t left = columns - at;
    if (left >= 8) return capped;
    return Select(static_cast<Mask8>((1u << left) - 1), capped, Set(-kInfinity));
  }
}

inline double CapOne(double x, double cap) {
  double lanes[8];
  Store(lanes, SoftcapOf(Set(x), Set(cap)));
  return lanes[0];
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
