#include "worker/replay/emit.h"

#include <cmath>
#include <string>

#include "storage/base/macros.h"
#include "worker/replay/refusal.h"

namespace assay {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

ReplayRefusal At(const TileRows& tile, std::string_view reason, const std::string& operand,
                 uint64_t row) {
  ReplayRefusal out;
  out.reason = std::string(reason);
  out.operand = operand;
  out.context = tile.job().plan->contexts[tile.context()].index;
  out.position = static_cast<int64_t>(tile.first_row() + row);
  return out;
}

const std::string& OperandOf(const Job& job, size_t source) {
  return job.plan->operands[job.sources[source].operand].id;
}

absl::Status CheckSide(const TileRows& tile, size_t source, uint64_t row, const SideRow& side) {
  const std::string& operand = OperandOf(tile.job(), source);
  if (side.bad >= 0) {
    ReplayRefusal refusal = At(tile, kNonFiniteInput, operand, row);
    refusal.column = side.bad;
    return Refuse(refusal, "the logit is NaN or +inf");
  }
  if (side.argmax < 0) {
    return Refuse(At(tile, kNoFiniteColumn, operand, row), "every logit is -inf");
  }
  return absl::OkStatus();
}

// q - p of the observed token. From the larger probability and 1 - exp(-s), so that nothing cancels
// and swapping the operands changes only the sign.
double DeltaP(const SideRow& ref, const SideRow& cand) {
  const double x = ref.observed - ref.max, y = cand.observed - cand.max;
  if (std::isinf(x) && std::isinf(y)) return 0;
  const double log_ratio = (x - y) - (ref.log_sum - cand.log_sum);
  double t, u;
  Kernels().exp_split(std::fabs(log_ratio), &t, &u);
  if (log_ratio >= 0) return 0.0 - Kernels().exp(x - ref.log_sum) * u;
  return Kernels().exp(y - cand.log_sum) * u;
}

}  // namespace

absl::Status CheckRows(const TileRows& tile, const std::vector<SideRow>& sides) {
  const Job& job = tile.job();
  for (uint64_t row = 0; row < tile.rows(); ++row) {
    for (const Comparison& c : job.comparisons) {
      for (const size_t source : {c.ref, c.cand}) {
        ASSAY_RETURN_IF_ERROR(CheckSide(tile, source, row, sides[source * tile.rows() + row]));
      }
    }
    const int64_t token = tile.observed(row);
    if (token < -1 || token >= static_cast<int64_t>(job.columns)) {
      ReplayRefusal refusal = At(tile, kTokenOutOfRange, "", row);
      refusal.column = token;
      return Refuse(refusal, "the observed token is not among the " + std::to_string(job.columns) +
                                 " columns; the suite belongs to another tokenizer or vocabulary");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInfinite(const TileRows& tile, const std::vector<PairSums>& pairs) {
  const Job& job = tile.job();
  if (job.plan->allow_infinite) return absl::OkStatus();
  for (uint64_t row = 0; row < tile.rows(); ++row) {
    for (size_t c = 0; c < job.comparisons.size(); ++c) {
      const PairSums& pair = pairs[c * tile.rows() + row];
      if (pair.cand_masked < 0) continue;
      ReplayRefusal refusal =
          At(tile, kInfinitePosition, OperandOf(job, job.comparisons[c].cand), row);
      refusal.column = pair.cand_masked;
      return Refuse(
          refusal,
          "the candidate gives no probability to a column that the reference allows, so KL "
          "is infinite; allow infinite positions to score it all the same");
    }
  }
  return absl::OkStatus();
}

void EmitRows(const TileRows& tile, const std::vector<SideRow>& sides,
              const std::vector<PairSums>& pairs, std::vector<ReplayRows*> rows) {
  const Job& job = tile.job();
  for (size_t c = 0; c < job.comparisons.size(); ++c) {
    for (uint64_t row = 0; row < tile.rows(); ++row) {
      const SideRow& ref = sides[job.comparisons[c].ref * tile.rows() + row];
      const SideRow& cand = sides[job.comparisons[c].cand * tile.rows() + row];
      const PairSums& pair = pairs[c * tile.rows() + row];
      const bool token = tile.observed(row) >= 0;
      // 1 - total variation is exactly 1 for equal rows; sum min(p, q) keeps its digits when it is
      // small.
      const double variation = 0.5 * pair.variation;
      const double f64[kReplayF64Count] = {pair.cand_masked >= 0 ? INFINITY : pair.kl_ref_cand,
                                           pair.ref_masked >= 0 ? INFINITY : pair.kl_cand_ref,
                                           pair.jsd / kLn2,
                                           token ? ref.log_sum + (ref.max - ref.observed) : NAN,
                                           token ? cand.log_sum + (cand.max - cand.observed) : NAN,
                                           ref.entropy,
                                           cand.entropy,
                                           token ? DeltaP(ref, cand) : NAN,
                                           variation < 0.5 ? 1.0 - variation : pair.accept};
      const int64_t i32[kReplayI32Count] = {ref.argmax, cand.argmax, ref.ties, cand.ties,
                                            pair.beats};
      const uint64_t at = tile.first_row() + row;
      for (int k = 0; k < kReplayF64Count; ++k) rows[c]->f64[k][at] = f64[k];
      for (int k = 0; k < kReplayI32Count; ++k) rows[c]->i32[k][at] = static_cast<int32_t>(i32[k]);
    }
  }
}

}  // namespace assay
