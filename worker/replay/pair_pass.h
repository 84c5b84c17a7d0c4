// Second pass: what one leaf of one row adds to the divergences of a comparison.
//
// Blocks of ordinary logits take a short way; the long one knows columns that do not exist, -inf,
// and probabilities that are 0. Which way a block takes depends on its own logits and its row's
// sums.

#ifndef ASSAY_VEC_NAMESPACE
#error "include this through a kernels_*.cc file"
#endif

namespace assay::ASSAY_VEC_NAMESPACE {

// Columns of one vector where exactly one operand is -inf.
inline void NoteMasked(Vec8 difference, int64_t at, PairLeaf* out) {
  const unsigned cand = Equal(difference, Set(kInfinity));
  const unsigned ref = Equal(difference, Set(-kInfinity));
  if (cand != 0 && out->cand_masked < 0) out->cand_masked = at + __builtin_ctz(cand);
  if (ref != 0 && out->ref_masked < 0) out->ref_masked = at + __builtin_ctz(ref);
}

struct PairLanes {
  Vec8 forward, reverse, js4, accept, variation;

  void Add(Vec8 larger, Mask8 ref_larger, const Divergence<Vec8>& d) {
    forward = Fma(larger, Select(ref_larger, d.larger, d.smaller), forward);
    reverse = Fma(larger, Select(ref_larger, d.smaller, d.larger), reverse);
    js4 = Fma(larger, d.js4, js4);
    accept = Fma(larger, d.t, accept);
    variation = Fma(larger, d.u, variation);
  }
  void Add(Vec16 larger, Mask16 ref_larger, const Divergence<Vec16>& d) {
    Add(larger.a, ref_larger.a, {d.t.a, d.u.a, d.larger.a, d.smaller.a, d.js4.a});
    Add(larger.b, ref_larger.b, {d.t.b, d.u.b, d.larger.b, d.smaller.b, d.js4.b});
  }
  void Add(const PairLanes& o) {
    forward = forward + o.forward;
    reverse = reverse + o.reverse;
    js4 = js4 + o.js4;
    accept = accept + o.accept;
    variation = variation + o.variation;
  }
};

// The row's constants in every lane.
struct PairRowLanes {
  Vec8 top_a, top_b, sum_a, sum_b, shift;
};

// Columns whose probabilities are neither 0 nor beyond what exp can tell.
template <typename T>
inline int64_t AddOrdinary(const T* ref, const T* cand, int64_t at, int64_t end,
                           const PairRowLanes& row, PairLanes* sums) {
  PairLanes s = *sums;
  for (; at + 16 <= end; at += 16) {
    // The block after this one, of this row or the next: looking for its range is too fast for
    // memory outside the first-level cache.
    __builtin_prefetch(ref + at + kBlockColumns);
    __builtin_prefetch(cand + at + kBlockColumns);
    const Vec16 x = Load16(ref + at) - row.top_a;
    const Vec16 y = Load16(cand + at) - row.top_b;
    const Vec16 log_ratio = (x - y) - row.shift;  // ln p - ln q
    const Vec16 larger = ExpInRange(Max(x - row.sum_a, y - row.sum_b));
    const Mask16 ref_larger = LessEqual(Set<Vec16>(0.0), log_ratio);
    const Vec16 distance = Abs(log_ratio);
    if (AllOf(Less(distance, Set<Vec16>(1.0)))) {
      s.Add(larger, ref_larger, DivergenceNear(distance));
    } else {
      s.Add(larger, ref_larger, DivergenceInRange(distance));
    }
  }
  *sums = s;
  return at;
}

template <typename T, bool kCap>
void AddAny(const T* ref, const T* cand, int64_t at, int64_t end, Vec8 cap, const PairRowLanes& row,
            PairLanes* sums, PairLeaf* out) {
  const Vec8 zero = Set(0.0);
  for (; at < end; at += 8) {
    const Vec8 x = CappedColumns<kCap>(ref, at, end, cap) - row.top_a;
    const Vec8 y = CappedColumns<kCap>(cand, at, end, cap) - row.top_b;
    const Vec8 log_ratio = (x - y) - row.shift;  // NaN where both probabilities are 0
    const Mask8 ref_larger = LessEqual(zero, log_ratio);
    const Vec8 larger = Exp(Select(ref_larger, x - row.sum_a, y - row.sum_b));
    const Vec8 distance = Abs(log_ratio);
    Divergence<Vec8> d = DivergenceAny(distance);
    const Mask8 finite = Less(distance, Set(kInfinity));
    if (finite != 0xff) {
      NoteMasked(log_ratio, at, out);
      d.larger = Select(finite, d.larger, zero);  // +inf is told by cand_masked and ref_masked
      d.smaller = Select(LessEqual(distance, distance), d.smaller, zero);
      d.js4 = Select(LessEqual(distance, distance), d.js4, zero);
    }
    sums->Add(larger, ref_larger, d);
  }
}

// Columns that beat the threshold: greater, or equal and below `column`.
template <typename T, bool kCap>
int64_t CountBeats(const T* x, int64_t at, int64_t end, Vec8 cap, double threshold,
                   int64_t column) {
  int64_t count = 0;
  for (; at < end; at += 8) {
    const Vec8 v = CappedColumns<kCap>(x, at, end, cap);
    count += __builtin_popcount(static_cast<unsigned>(Less(Set(threshold), v)));
    unsigned equal = Equal(Set(threshold), v);
    for (; equal != 0; equal &= equal - 1) count += at + __builtin_ctz(equal) < column ? 1 : 0;
  }
  return count;
}

template <typename T, bool kCap>
void Pair(const T* ref, const T* cand, int64_t columns, double softcap, const PairRow& row,
          PairLeaf* out) {
  *out = PairLeaf{0, 0, 0, 0, 0, 0, -1, -1};
  const PairRowLanes lanes = {Set(row.max_ref), Set(row.max_cand), Set(row.log_sum_ref),
                              Set(row.log_sum_cand), Set(row.log_sum_ref - row.log_sum_cand)};
  const double floor_ref = row.max_ref + row.log_sum_ref + (kExpMin + 1);
  const double floor_cand = row.max_cand + row.log_sum_cand + (kExpMin + 1);
  const int64_t below = row.threshold_column < columns ? row.threshold_column : columns;
  const Vec8 zero = Set(0.0);
  PairLanes total = {zero, zero, zero, zero, zero};
  for (int64_t block = 0; block < columns; block += kBlockColumns) {
    const int64_t size = BlockSize(block, columns), end = block + size;
    PairLanes sums = {zero, zero, zero, zero, zero};
    int64_t at = block;
    bool may_beat = true;
    if constexpr (!kCap) {
      const Range a = RangeOf(ref + block, size), b = RangeOf(cand + block, size);
      may_beat = b.max >= row.threshold;
      if (a.min >= floor_ref && b.min >= floor_cand) {
        at = AddOrdinary(ref, cand, block, end, lanes, &sums);
      }
    }
    AddAny<T, kCap>(ref, cand, at, end, Set(softcap), lanes, &sums, out);
    if (may_beat) {
      out->beats += CountBeats<T, kCap>(cand, block, end, Set(softcap), row.threshold, below);
    }
    total.Add(sums);
  }
  out->kl_ref_cand = SumLanes(total.forward);
  out->kl_cand_ref = SumLanes(total.reverse);
  out->jsd = 0.25 * SumLanes(total.js4);
  out->accept = SumLanes(total.accept);
  out->variation = SumLanes(total.variation);
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
