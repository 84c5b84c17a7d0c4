#include "worker/replay/quad_reference.h"

#include <quadmath.h>

#include <cmath>
#include <vector>

namespace assay {
namespace {

struct InQuad {
  using Number = Quad;
  static Quad Exp(Quad x) { return expq(x); }
  static Quad Log(Quad x) { return logq(x); }
  static Quad Tanh(Quad x) { return tanhq(x); }
};

struct InLong {
  using Number = long double;
  static long double Exp(long double x) { return expl(x); }
  static long double Log(long double x) { return logl(x); }
  static long double Tanh(long double x) { return tanhl(x); }
};

// One operand's row: probabilities and their logarithms.
template <typename Math>
struct Side {
  using Number = typename Math::Number;
  std::vector<Number> x, p, log_p;
  Number max = -INFINITY;
  int64_t top1 = -1, ties = 0;
  Quad entropy = 0;

  Side(std::span<const double> logits, double cap) {
    for (const double logit : logits) {
      x.push_back(cap > 0 ? cap * Math::Tanh(static_cast<Number>(logit) / cap)
                          : static_cast<Number>(logit));
    }
    for (size_t v = 0; v < x.size(); ++v) {
      if (x[v] > max) {
        max = x[v];
        top1 = static_cast<int64_t>(v);
        ties = 0;
      }
      ties += x[v] == max ? 1 : 0;
    }
    Quad sum = 0;
    for (const Number v : x) sum += Math::Exp(v - max);
    const Number log_sum = Math::Log(static_cast<Number>(sum));
    for (const Number v : x) {
      log_p.push_back(v - max - log_sum);
      p.push_back(Math::Exp(log_p.back()));
      if (p.back() > 0) entropy -= static_cast<Quad>(p.back()) * log_p.back();
    }
  }
};

template <typename Math>
QuadRow Metric(std::span<const double> ref, std::span<const double> cand, double cap,
               int64_t token) {
  using Number = typename Math::Number;
  const Side<Math> a(ref, cap), b(cand, cap);
  Quad forward = 0, reverse = 0, js = 0, accept = 0;
  int64_t beats = 0;
  for (size_t v = 0; v < a.x.size(); ++v) {
    const Number p = a.p[v], q = b.p[v];
    const Number difference = a.log_p[v] - b.log_p[v];
    if (std::isinf(static_cast<double>(a.x[v])) && std::isinf(static_cast<double>(b.x[v]))) {
      continue;
    }
    if (p > 0 || std::isfinite(static_cast<double>(a.x[v]))) {
      forward += std::isinf(static_cast<double>(b.x[v])) ? Quad{INFINITY}
                                                         : static_cast<Quad>(p) * difference;
    }
    if (q > 0 || std::isfinite(static_cast<double>(b.x[v]))) {
      reverse -= std::isinf(static_cast<double>(a.x[v])) ? -Quad{INFINITY}
                                                         : static_cast<Quad>(q) * difference;
    }
    const Number middle = (p + q) / 2;
    if (p > 0) js += static_cast<Quad>(p) * Math::Log(p / middle) / 2;
    if (q > 0) js += static_cast<Quad>(q) * Math::Log(q / middle) / 2;
    accept += p < q ? p : q;
    const Number threshold = b.x[static_cast<size_t>(a.top1)];
    beats +=
        b.x[v] > threshold || (b.x[v] == threshold && static_cast<int64_t>(v) < a.top1) ? 1 : 0;
  }
  const auto at = static_cast<size_t>(token);
  const Quad none = nanq("");
  return {{forward, reverse, js / logq(2), token < 0 ? none : -static_cast<Quad>(a.log_p[at]),
           token < 0 ? none : -static_cast<Quad>(b.log_p[at]), a.entropy, b.entropy,
           token < 0 ? none : static_cast<Quad>(b.p[at]) - static_cast<Quad>(a.p[at]), accept},
          {a.top1, b.top1, a.ties, b.ties, beats}};
}

}  // namespace

Quad QuadExp(Quad x) { return expq(x); }
Quad QuadExpm1(Quad x) { return expm1q(x); }
Quad QuadLog(Quad x) { return logq(x); }
Quad QuadLog1p(Quad x) { return log1pq(x); }
Quad QuadTanh(Quad x) { return tanhq(x); }

double UlpError(double got, Quad want) {
  if (std::isnan(got)) return INFINITY;
  if (want == 0) return got == 0 ? 0 : INFINITY;
  int exponent;
  frexpq(want, &exponent);
  exponent = exponent < -1021 ? -1021 : exponent;
  return static_cast<double>(fabsq(static_cast<Quad>(got) - want) / ldexpq(1, exponent - 53));
}

QuadRow QuadMetric(std::span<const double> ref, std::span<const double> cand, double cap,
                   int64_t token) {
  return Metric<InQuad>(ref, cand, cap, token);
}

QuadRow LongMetric(std::span<const double> ref, std::span<const double> cand, double cap,
                   int64_t token) {
  return Metric<InLong>(ref, cand, cap, token);
}

}  // namespace assay
