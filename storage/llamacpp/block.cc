#include "storage/llamacpp/block.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <vector>

namespace assay {
namespace {

struct Estimate {
  double value = 0;
  double uncertainty = 0;
};

// Mean and standard error from a sum and a sum of squares over n rows; 0 for up to ten rows.
Estimate MeanOf(double sum, double squares, double n) {
  Estimate out{sum / n, 0};
  const double variance = squares / n - out.value * out.value;
  if (variance > 0 && n > 10) out.uncertainty = std::sqrt(variance / (n - 1));
  return out;
}

// Sums that the tool keeps; squares and products are float32 where it forms them in float32.
struct Sums {
  double n = 0, nll = 0, nll2 = 0, base = 0, base2 = 0, nll_base = 0, kl = 0, kl2 = 0;
  double dp = 0, dp2 = 0, dp4 = 0, same = 0;

  void Add(const LlamacppToolRow& row) {
    n += 1;
    nll += row.nll;
    nll2 += row.nll * row.nll;
    base += row.nll_base;
    base2 += row.nll_base * row.nll_base;
    nll_base += row.nll * row.nll_base;
    kl += row.kl;
    kl2 += row.kl * row.kl;
    const double square = row.delta_p * row.delta_p;
    dp += row.delta_p;
    dp2 += square;
    dp4 += square * square;
    same += row.same_top ? 1 : 0;
  }

  Estimate Nll() const { return MeanOf(nll, nll2, n); }
  Estimate NllBase() const { return MeanOf(base, base2, n); }
  Estimate Kl() const { return MeanOf(kl, kl2, n); }
  Estimate DeltaP() const { return MeanOf(dp, dp2, n); }
  double Covariance() const {
    return n < 10 ? 0 : (nll_base / n - (nll / n) * (base / n)) / (n - 1);
  }
  Estimate LogRatio() const {
    const double a = Nll().uncertainty, b = NllBase().uncertainty;
    return {nll / n - base / n, std::sqrt(a * a + b * b - 2 * Covariance())};
  }
  Estimate RmsDeltaP() const {
    const Estimate square = MeanOf(dp2, dp4, n);
    const double rms = std::sqrt(square.value);
    return {rms, 0.5 / rms * square.uncertainty};
  }
  Estimate SameTop() const {
    const double p = same / n;
    return {p, std::sqrt(p * (1 - p) / (n - 1))};
  }
};

__attribute__((format(printf, 2, 3))) void Print(std::string* out, const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  *out += line;
}

// Linear interpolation with a position formed in float32.
float Percentile(const std::vector<float>& sorted, float fraction) {
  const float position = fraction * static_cast<float>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const float part = position - static_cast<float>(below);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return (1 - part) * sorted[below] + part * sorted[above];
}

float Median(const std::vector<float>& sorted) {
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 0 ? 0.5F * (sorted[half] + sorted[half - 1]) : sorted[half];
}

void PrintPerplexity(const Sums& sums, std::string* out) {
  const Estimate q = sums.Nll(), base = sums.NllBase(), ratio = sums.LogRatio();
  const double cov = sums.Covariance();
  const double ppl_q = std::exp(q.value), ppl_base = std::exp(base.value);
  const double u_q = ppl_q * q.uncertainty, u_base = ppl_base * base.uncertainty;
  *out += "====== Perplexity statistics ======\n";
  Print(out, "Mean PPL(Q)                   : %10.6f ± %10.6f\n", ppl_q, u_q);
  Print(out, "Mean PPL(base)                : %10.6f ± %10.6f\n", ppl_base, u_base);
  Print(out, "Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n",
        100 * cov / (q.uncertainty * base.uncertainty));
  Print(out, "Mean ln(PPL(Q)/PPL(base))     : %10.6f ± %10.6f\n", ratio.value, ratio.uncertainty);
  Print(out, "Mean PPL(Q)/PPL(base)         : %10.6f ± %10.6f\n", std::exp(ratio.value),
        std::exp(ratio.value) * ratio.uncertainty);
  Print(out, "Mean PPL(Q)-PPL(base)         : %10.6f ± %10.6f\n", ppl_q - ppl_base,
        std::sqrt(u_q * u_q + u_base * u_base - 2 * ppl_q * ppl_base * cov));
}

struct Fraction {
  const char* name;
  float at;
};

void PrintKl(const Sums& sums, std::vector<float> values, std::string* out) {
  std::sort(values.begin(), values.end());
  const Estimate mean = sums.Kl();
  *out += "\n====== KL divergence statistics ======\n";
  Print(out, "Mean    KLD: %10.6f ± %10.6f\n", mean.value, mean.uncertainty);
  Print(out, "Maximum KLD: %10.6f\n", values.back());
  for (const Fraction f :
       {Fraction{"99.9", .999F}, {"99.0", .99F}, {"95.0", .95F}, {"90.0", .9F}}) {
    Print(out, "%s%%   KLD: %10.6f\n", f.name, Percentile(values, f.at));
  }
  Print(out, "Median  KLD: %10.6f\n", Median(values));
  for (const Fraction f :
       {Fraction{"10.0", .1F}, {" 5.0", .05F}, {" 1.0", .01F}, {" 0.1", .001F}}) {
    Print(out, "%s%%   KLD: %10.6f\n", f.name, Percentile(values, f.at));
  }
  Print(out, "Minimum KLD: %10.6f\n", values.front());
}

void PrintTokens(const Sums& sums, std::vector<float> values, std::string* out) {
  std::sort(values.begin(), values.end());
  const Estimate mean = sums.DeltaP(), rms = sums.RmsDeltaP(), same = sums.SameTop();
  const auto percent = [](float value) { return 100 * static_cast<double>(value); };
  *out += "\n====== Token probability statistics ======\n";
  Print(out, "Mean    Δp: %6.3f ± %5.3f %%\n", 100 * mean.value, 100 * mean.uncertainty);
  Print(out, "Maximum Δp: %6.3f%%\n", percent(values.back()));
  for (const Fraction f :
       {Fraction{"99.9", .999F}, {"99.0", .99F}, {"95.0", .95F}, {"90.0", .9F}, {"75.0", .75F}}) {
    Print(out, "%s%%   Δp: %6.3f%%\n", f.name, percent(Percentile(values, f.at)));
  }
  Print(out, "Median  Δp: %6.3f%%\n", percent(Median(values)));
  for (const Fraction f :
       {Fraction{"25.0", .25F}, {"10.0", .1F}, {" 5.0", .05F}, {" 1.0", .01F}, {" 0.1", .001F}}) {
    Print(out, "%s%%   Δp: %6.3f%%\n", f.name, percent(Percentile(values, f.at)));
  }
  Print(out, "Minimum Δp: %6.3f%%\n", percent(values.front()));
  Print(out, "RMS Δp    : %6.3f ± %5.3f %%\n", 100 * rms.value, 100 * rms.uncertainty);
  Print(out, "Same top p: %6.3f ± %5.3f %%\n", 100 * same.value, 100 * same.uncertainty);
}

}  // namespace

std::string LlamacppChunkLines(std::span<const LlamacppToolRow> rows, size_t rows_per_chunk) {
  std::string out =
      "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence             "
      " Δp "
      "RMS            Same top p\n";
  Sums sums;
  for (size_t i = 0; i < rows.size(); ++i) {
    sums.Add(rows[i]);
    if ((i + 1) % rows_per_chunk != 0) continue;
    const Estimate q = sums.Nll(), ratio = sums.LogRatio(), kl = sums.Kl(), rms = sums.RmsDeltaP(),
                   same = sums.SameTop();
    Print(&out, "%4zu    %9.4f ± %9.4f    %10.5f ± %10.5f    %10.5f ± %10.5f",
          (i + 1) / rows_per_chunk, std::exp(q.value), std::exp(q.value) * q.uncertainty,
          ratio.value, ratio.uncertainty, kl.value, kl.uncertainty);
    Print(&out, "    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%\n", 100 * rms.value,
          100 * rms.uncertainty, 100 * same.value, 100 * same.uncertainty);
  }
  return out;
}

std::string LlamacppClosingBlock(std::span<const LlamacppToolRow> rows) {
  if (rows.size() < kLlamacppBlockRowsMin) return "";
  Sums sums;
  std::vector<float> kl, dp;
  for (const LlamacppToolRow& row : rows) {
    sums.Add(row);
    kl.push_back(static_cast<float>(row.kl));
    dp.push_back(row.delta_p);
  }
  std::string out;
  PrintPerplexity(sums, &out);
  PrintKl(sums, std::move(kl), &out);
  PrintTokens(sums, std::move(dp), &out);
  return out;
}

}  // namespace assay
