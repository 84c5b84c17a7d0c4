#include "storage/llamacpp/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "storage/base/status.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr float kToolFloor = -16;  // the tool skips base columns at or below it

size_t FirstTop(std::span<const uint16_t> codes) {
  return static_cast<size_t>(std::max_element(codes.begin(), codes.end()) - codes.begin());
}

// Natural log-probabilities as coded, -inf for a probability of exactly zero.
std::vector<double> Decode(const LlamacppRow& row, LlamacppCoding coding) {
  const double scale = row.scale, base = row.base;
  const bool v2 = coding == LlamacppCoding::kV2;
  std::vector<double> out(row.codes.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const int code = row.codes[i];
    out[i] = v2 && code == 0 ? -INFINITY : scale * (v2 ? code - 1 : code) + base;
  }
  return out;
}

// Subtracts the log of the sum of exponentials; returns that sum.
double Normalize(std::vector<double>* lp) {
  const double top = *std::max_element(lp->begin(), lp->end());
  CompensatedSum sum;
  for (const double x : *lp) sum.Add(std::exp(x - top));
  const double log_sum = top + std::log(sum.Result());
  for (double& x : *lp) x -= log_sum;
  return std::exp(log_sum);
}

// exp(-x) - 1 + x: never negative, so a sum of p * phi(ln p - ln q) is a KL that is non-negative by
// construction.
double Phi(double x) {
  if (std::fabs(x) > 0.125) return std::exp(-x) - 1 + x;
  double term = 0.5 * x * x, sum = 0;
  for (int k = 3; std::fabs(term) > 1e-18 * sum && k < 32; ++k) {
    sum += term;
    term *= -x / k;
  }
  return sum;
}

// m (ln 2 - h(t)) of Jensen-Shannon for probabilities p and q (nats); p + q > 0.
double JsdTerm(double lp, double lq) {
  const double m = (std::exp(lp) + std::exp(lq)) / 2;
  const double t = std::tanh((lp - lq) / 2);
  if (std::fabs(t) == 1) return m * std::log(4.0) / 2;
  return m * ((1 + t) * std::log1p(t) + (1 - t) * std::log1p(-t)) / 2;
}

void AddRenormalised(const std::vector<double>& lp, const std::vector<double>& lq,
                     LogitsPairRow* out) {
  CompensatedSum forward, reverse, jsd;
  bool infinite = false;  // kV2: the base gives exactly zero to a token that the candidate allows
  for (size_t i = 0; i < lp.size(); ++i) {
    if (lp[i] == -INFINITY && lq[i] == -INFINITY) continue;
    if (lp[i] == -INFINITY) {
      forward.Add(std::exp(lq[i]));  // p phi(ln p - ln q) for p to 0
      infinite = true;
    } else {
      forward.Add(std::exp(lp[i]) * Phi(lp[i] - lq[i]));
      reverse.Add(std::exp(lq[i]) * Phi(lq[i] - lp[i]));
    }
    jsd.Add(JsdTerm(lp[i], lq[i]));
  }
  out->kl_renorm = forward.Result();
  out->kl_reverse_renorm = infinite ? INFINITY : reverse.Result();
  out->jsd_renorm_bits = jsd.Result() / std::log(2.0);
}

void AddCoded(const LlamacppRow& base, const LlamacppRow& cand, const std::vector<double>& lp,
              const std::vector<double>& lq, LogitsPairRow* out) {
  CompensatedSum skipping, lumped, kept_base, kept_cand;
  for (size_t i = 0; i < lp.size(); ++i) {
    const double p = std::exp(lp[i]);
    const float coded = base.scale * static_cast<float>(base.codes[i]) + base.base;
    if (coded > kToolFloor) skipping.Add(p * (lp[i] - lq[i]));
    if (base.codes[i] == 0 || cand.codes[i] == 0) continue;
    lumped.Add(p * (lp[i] - lq[i]));
    kept_base.Add(p);
    kept_cand.Add(std::exp(lq[i]));
  }
  const double rest_base = std::max(0.0, 1 - kept_base.Result());
  const double rest_cand = std::max(0.0, 1 - kept_cand.Result());
  if (rest_base > 0 && rest_cand > 0) lumped.Add(rest_base * std::log(rest_base / rest_cand));
  out->kl_skip16 = skipping.Result();
  out->kl_lumped = lumped.Result();
}

}  // namespace

LlamacppToolRow ToolRow(const LlamacppRow& base, std::span<const float> logits, int32_t target) {
  const LlamacppNormalizer norm = LlamacppNormalizerOf(logits);
  const float log_z = norm.max + norm.log_sum;
  LlamacppToolRow out;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float lp = base.scale * static_cast<float>(base.codes[i]) + base.base;
    if (!(lp > kToolFloor)) continue;
    const float term = LlamacppExp(lp) * ((lp - logits[i]) + log_z);
    out.kl += static_cast<double>(term);
  }
  const auto t = static_cast<size_t>(target);
  out.nll = log_z - logits[t];
  out.nll_base = -(base.scale * static_cast<float>(base.codes[t]) + base.base);
  out.delta_p = LlamacppExp(-out.nll) - LlamacppExp(-out.nll_base);
  // The tool compares decoded values; a larger code can't decode to a smaller value, and the first
  // wins.
  size_t top = 0;
  for (size_t i = 1; i < base.codes.size(); ++i) {
    const float at = base.scale * static_cast<float>(base.codes[i]) + base.base;
    if (at > base.scale * static_cast<float>(base.codes[top]) + base.base) top = i;
  }
  out.same_top =
      static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()) == top;
  return out;
}

absl::StatusOr<LogitsPairRow> CompareLogits(const LlamacppRow& base, const LlamacppRow& cand,
                                            LlamacppCoding coding, int32_t target) {
  LogitsPairRow out;
  std::vector<double> lp = Decode(base, coding), lq = Decode(cand, coding);
  const auto t = static_cast<size_t>(target);
  out.nll_base = -lp[t];
  out.nll_cand = -lq[t];
  out.top1_base = static_cast<int32_t>(FirstTop(base.codes));
  out.top1_cand = static_cast<int32_t>(FirstTop(cand.codes));
  for (size_t i = 0; coding == LlamacppCoding::kV2 && i < lp.size(); ++i) {
    if (lp[i] == -INFINITY || lq[i] != -INFINITY) continue;
    return PreconditionError("INFINITE_POSITION",
                             "token " + std::to_string(i) +
                                 " has probability zero in the candidate and not in the base, so "
                                 "the divergence is infinite");
  }
  AddCoded(base, cand, lp, lq, &out);
  out.mass_base = Normalize(&lp);
  out.mass_cand = Normalize(&lq);
  AddRenormalised(lp, lq, &out);
  return out;
}

}  // namespace assay
