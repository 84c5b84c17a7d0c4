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
  explicit PairRowLanes(const PairRow& row)
      : top_a(Set(row.max_ref)),
        top_b(Set(row.max_cand)),
        sum_a(Set(row.log_sum_ref)),
        sum_b(Set(row.log_sum_cand)),
        shift(Set(row.log_sum_ref - row.log_sum_cand)),
        half_top_a(Set(-0.5 * row.max_ref)),
        half_top_b(Set(-0.5 * row.max_cand)),
        half_shift(Set(0.5 * (row.log_sum_ref - row.log_sum_cand))) {}
  Vec8 top_a, top_b, sum_a, sum_b, shift, half_top_a, half_top_b, half_shift;
};

// Sixteen columns whose probabilities are neither 0 nor beyond what exp can tell.
inline void AddFar(Vec16 ref, Vec16 cand, const PairRowLanes& row, PairLanes* sums) {
  const Vec16 x = ref - row.top_a, y = cand - row.top_b;
  const Vec16 log_ratio = (x - y) - row.shift;  // ln p - ln q
  const Vec16 larger = ExpOfTerm(Max(x - row.sum_a, y - row.sum_b));
  sums->Add(larger, LessEqual(Set<Vec16>(0.0), log_ratio), DivergenceInRange(Abs(log_ratio)));
}

// Columns that AddFar could take; where all sixteen are close to each other, with g of near.h in
// units of exp(-(ln S_ref + ln S_cand) / 2).
template <typename T>
inline int64_t AddOrdinary(const T* ref, const T* cand, int64_t at, int64_t end,
                           const PairRowLanes& row, PairLanes* far, NearLanes* near) {
  const Vec16 half = Set<Vec16>(0.5);
  NearLanes sums = *near;
  for (; at + 16 <= end; at += 16) {
    // The block after this one, of this row or the next: looking for its range is too fast for
    // memory outside the first-level cache.
    __builtin_prefetch(ref + at + kBlockColumns);
    __builtin_prefetch(cand + at + kBlockColumns);
    const Vec16 x = Fma(Load16(ref + at), half, {row.half_top_a, row.half_top_a});
    const Vec16 y = Fma(Load16(cand + at), half, {row.half_top_b, row.half_top_b});
    const Vec16 h = (x - y) - row.half_shift, w = h * h;
    const Vec8 most = Max(w.a, w.b);
    if (AllOf(Less(most, Set(NearHalf::kLimit)))) {
      AddNear<NearHalf>(ExpOfTerm(x + y), h, w, &sums);
    } else if (AllOf(Less(most, Set(NearOne::kLimit)))) {
      AddNear<NearOne>(ExpOfTerm(x + y), h, w, &sums);
    } else {
      AddFar(Load16(ref + at), Load16(cand + at), row, far);
    }
  }
  *near = sums;
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

// What the lanes come to, in nats.
inline void AddSums(const PairLanes& far, const NearLanes& near, const PairRow& row,
                    PairLeaf* out) {
  double g[8];
  Store(g, Exp(Set(-0.5 * (row.log_sum_ref + row.log_sum_cand))));
  const double both = SumLanes(near.both), skew = SumLanes(near.skew);
  const double apart = SumLanes(near.apart);
  out->kl_ref_cand = SumLanes(far.forward) + 2.0 * g[0] * (both + skew);
  out->kl_cand_ref = SumLanes(far.reverse) + 2.0 * g[0] * (both - skew);
  out->jsd = 0.25 * SumLanes(far.js4) + 0.5 * g[0] * SumLanes(near.shape);
  out->accept = SumLanes(far.accept) + g[0] * (SumLanes(near.mean) - apart);
  out->variation = SumLanes(far.variation) + 2.0 * g[0] * apart;
}

template <typename T, bool kCap>
void Pair(const T* ref, const T* cand, int64_t columns, double softcap, const PairRow& row,
          PairLeaf* out) {
  *out = PairLeaf{0, 0, 0, 0, 0, 0, -1, -1};
  const PairRowLanes lanes(row);
  const double floor_ref = row.max_ref + row.log_sum_ref + (kExpMin + 1);
  const double floor_cand = row.max_cand + row.log_sum_cand + (kExpMin + 1);
  const int64_t below = row.threshold_column < columns ? row.threshold_column : columns;
  const Vec8 zero = Set(0.0);
  PairLanes total = {zero, zero, zero, zero, zero};
  NearLanes near_total = NearLanes::Zero();
  for (int64_t block = 0; block < columns; block += kBlockColumns) {
    const int64_t size = BlockSize(block, columns), end = block + size;
    PairLanes sums = {zero, zero, zero, zero, zero};
    NearLanes near = NearLanes::Zero();
    int64_t at = block;
    bool may_beat = true;
    if constexpr (!kCap) {
      const Range a = RangeOf(ref + block, size), b = RangeOf(cand + block, size);
      may_beat = b.max >= row.threshold;
      if (a.min >= floor_ref && b.min >= floor_cand) {
        at = AddOrdinary(ref, cand, block, end, lanes, &sums, &near);
      }
    }
    AddAny<T, kCap>(ref, cand, at, end, Set(softcap), lanes, &sums, out);
    if (may_beat) {
      out->beats += CountBeats<T, kCap>(cand, block, end, Set(softcap), row.threshold, below);
    }
    total.Add(sums);
    near_total.Add(near);
  }
  AddSums(total, near_total, row, out);
}

}  // namespace assay::ASSAY_VEC_NAMESPACE
