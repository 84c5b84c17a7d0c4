#include "storage/report/published_tail.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<std::pair<const char*, double>, 5> kQuantiles = {
    {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}}};
constexpr std::array<double, 5> kRequested = {1e-4, 1e-3, 1e-2, 1e-1, 1.0};

struct Histogram {
  std::vector<double> edges;
  std::vector<int64_t> counts, cumulative;
  int64_t total = 0;
  double max = 0;

  double Low(size_t bucket) const { return bucket == 0 ? 0.0 : edges[bucket - 1]; }
  double High(size_t bucket) const { return bucket < edges.size() ? edges[bucket] : kInfinity; }
  // Bucket of the k-th smallest position, k from 1.
  size_t BucketOf(int64_t k) const {
    return static_cast<size_t>(std::lower_bound(cumulative.begin(), cumulative.end(), k) -
                               cumulative.begin());
  }
};

Histogram HistogramOf(const SummedTail& sum) {
  Histogram out;
  out.edges = sum.edges;
  out.counts = sum.counts;
  out.max = sum.max;
  for (const int64_t count : out.counts) out.cumulative.push_back(out.total += count);
  return out;
}

// The exact quantile lies between order statistics k and k + 1, hence between `lower` and `upper`.
Json QuantileJson(const Histogram& all, double q) {
  const double h = static_cast<double>(all.total - 1) * q;
  const int64_t k = static_cast<int64_t>(std::floor(h)) + 1;
  const int64_t next = h == std::floor(h) ? k : std::min(k + 1, all.total);
  const size_t bin = all.BucketOf(k);
  const double low = all.Low(bin), high = all.High(bin);
  const double upper = std::min(all.High(all.BucketOf(next)), all.max);
  const int64_t below = bin > 0 ? all.cumulative[bin - 1] : 0;
  const int64_t inside = all.counts[bin];
  Json estimate = nullptr;
  const bool underflow = bin == 0, overflow = bin == all.edges.size();
  if (!underflow && !overflow) {
    const double place = h + 1.0 - static_cast<double>(below) - 0.5;
    const double share = std::clamp(place / static_cast<double>(inside), 0.0, 1.0);
    estimate = std::min(std::max(low * std::pow(high / low, share), low), upper);
  }
  return {{"quantile", q},
          {"lower", low},
          {"upper", upper},
          {"estimate", estimate},
          {"bin", bin},
          {"bin_kind", underflow  ? "underflow"
                       : overflow ? "overflow"
                                  : "log"},
          {"bin_lower", low},
          {"bin_upper", overflow ? Json(nullptr) : Json(high)},
          {"order_statistic", k},
          {"positions_below_bin", below},
          {"positions_in_bin", inside},
          {"relative_width", upper <= 0 ? Json(nullptr) : Json((upper - low) / upper)}};
}

Json ExceedanceRow(const Histogram& all, double requested) {
  const auto edge = std::lower_bound(all.edges.begin(), all.edges.end(), requested);
  const size_t index = static_cast<size_t>(edge - all.edges.begin());
  const int64_t above = all.total - all.cumulative[index];
  return {{"requested", requested},
          {"threshold", *edge},
          {"exact", *edge == requested},
          {"positions", above},
          {"fraction", static_cast<double>(above) / static_cast<double>(all.total)}};
}

}  // namespace

Json CumulativeTailJson(const SummedTail& sum, const std::string& source,
                        const std::string& method) {
  const Histogram all = HistogramOf(sum);
  Json quantiles, exceedance = Json::array();
  for (const auto& [name, q] : kQuantiles) quantiles[name] = QuantileJson(all, q);
  for (const double requested : kRequested) exceedance.push_back(ExceedanceRow(all, requested));
  return Json{{"source", source},
              {"units", "nats"},
              {"shards", sum.shards},
              {"binning", sum.binning},
              {"bin_edges", all.edges},
              {"counts", all.counts},
              {"total_count", all.total},
              {"underflow_count", all.counts.front()},
              {"overflow_count", all.counts.back()},
              {"max_kld_exact", all.max},
              {"min_kld_exact", sum.min},
              {"quantiles", std::move(quantiles)},
              {"exceedance", std::move(exceedance)},
              {"method", method}};
}

}  // namespace assay
