#include "storage/report/tail.h"

#include <algorithm>
#include <cmath>

namespace assay {

const std::array<double, kTailEdges>& TailEdges() {
  static const std::array<double, kTailEdges> edges = [] {
    std::array<double, kTailEdges> out{};
    for (int i = 0; i < kTailEdges; ++i) {
      const double exponent = -12.0 + static_cast<double>(i) / 40.0;
      out[i] = static_cast<double>(std::pow(10.0L, static_cast<long double>(exponent)));
    }
    return out;
  }();
  return edges;
}

std::vector<uint64_t> TailCounts(std::span<const double> sorted) {
  const auto& edges = TailEdges();
  std::vector<uint64_t> counts(kTailEdges + 1, 0);
  size_t begin = 0;
  for (int i = 0; i < kTailEdges; ++i) {
    const size_t end = static_cast<size_t>(
        std::lower_bound(sorted.begin() + static_cast<ptrdiff_t>(begin), sorted.end(), edges[i]) -
        sorted.begin());
    counts[i] = end - begin;
    begin = end;
  }
  counts[kTailEdges] = sorted.size() - begin;
  return counts;
}

Json TailJson(std::span<const double> sorted) {
  Json json;
  json["units"] = "nats";
  json["log10_low"] = -12;
  json["log10_high"] = 2;
  json["bins_per_decade"] = 40;
  json["counts"] = TailCounts(sorted);
  json["total_count"] = sorted.size();
  return json;
}

Json ExceedanceJson(std::span<const double> sorted) {
  Json json = Json::array();
  for (const double threshold : kExceedanceThresholds) {
    const auto first = std::upper_bound(sorted.begin(), sorted.end(), threshold);
    const uint64_t above = static_cast<uint64_t>(sorted.end() - first);
    json.push_back(
        {{"threshold", threshold},
         {"positions", above},
         {"fraction",
          sorted.empty() ? 0.0 : static_cast<double>(above) / static_cast<double>(sorted.size())}});
  }
  return json;
}

}  // namespace assay
