#include "storage/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "storage/base/digest.h"
#include "storage/report/bootstrap.h"
#include "storage/report/quantile.h"
#include "storage/report/sums.h"
#include "storage/report/tail.h"

namespace assay {
namespace {

constexpr std::array<std::string_view, 9> kUnits = {
    "nats", "nats", "bits", "nats", "nats", "nats", "nats", "probability", "probability"};

// One context's rows inside the arrays.
struct Slice {
  size_t begin, size;
};

std::vector<Slice> SlicesOf(const std::vector<ReportContext>& contexts) {
  std::vector<Slice> out;
  size_t begin = 0;
  for (const ReportContext& context : contexts) {
    out.push_back({begin, static_cast<size_t>(context.positions)});
    begin += static_cast<size_t>(context.positions);
  }
  return out;
}

template <typename T>
std::span<const T> Part(const std::vector<T>& values, const Slice& slice) {
  return std::span<const T>(values).subspan(slice.begin, slice.size);
}

std::vector<double> Sorted(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  std::sort(out.begin(), out.end());
  return out;
}

double MeanOrInfinity(std::span<const double> values) {
  for (const double v : values) {
    if (std::isinf(v)) return std::numeric_limits<double>::infinity();
  }
  return ExactMean(values);
}

// Mean over contexts of each context's mean (every context counts the same).
std::vector<double> ContextMeans(const std::vector<double>& values,
                                 const std::vector<Slice>& slices) {
  std::vector<double> out;
  for (const Slice& slice : slices) out.push_back(MeanOrInfinity(Part(values, slice)));
  return out;
}

Json FractionJson(uint64_t hits, uint64_t positions) {
  const Json fraction = positions == 0
                            ? Json(nullptr)
                            : Json(static_cast<double>(hits) / static_cast<double>(positions));
  return {{"hits", hits}, {"positions", positions}, {"fraction", fraction}};
}

Json DistributionJson(std::string_view unit, const std::vector<double>& values,
                      const std::vector<double>& sorted) {
  Json json;
  json["unit"] = std::string(unit);
  json["mean"] = MeanJson(values);
  json["min"] = FiniteJson(sorted.front());
  json["p50"] = FiniteJson(LinearQuantile(sorted, 0.5));
  json["p90"] = FiniteJson(LinearQuantile(sorted, 0.9));
  json["p95"] = FiniteJson(LinearQuantile(sorted, 0.95));
  json["p99"] = FiniteJson(LinearQuantile(sorted, 0.99));
  json["p999"] = FiniteJson(LinearQuantile(sorted, 0.999));
  json["max"] = FiniteJson(sorted.back());
  return json;
}

// exp of the mean NLL. The extended-precision exp rounds to the same double on every processor;
// the double one has variants with and without fused multiply-add.
Json PerplexityJson(const Json& mean) {
  if (mean.at("value").is_null()) return nullptr;
  return FiniteJson(
      static_cast<double>(std::exp(static_cast<long double>(mean.at("value").get<double>()))));
}

double RootMeanSquare(const std::vector<double>& values) {
  ExactSum sum;
  for (const double v : values) sum.Add(v * v);
  return std::sqrt(sum.Result() / static_cast<double>(values.size()));
}

Json AgreementJson(const PositionArrays& arrays) {
  const auto& rank = arrays[I32Output::kRankTop1Ref];
  const auto& ref = arrays[I32Output::kTop1Ref];
  const auto& cand = arrays[I32Output::kTop1Cand];
  const auto& ties_ref = arrays[I32Output::kTiesRef];
  const auto& ties_cand = arrays[I32Output::kTiesCand];
  uint64_t same = 0, untied = 0, untied_same = 0, tied_ref = 0, tied_cand = 0;
  std::array<uint64_t, 3> within{};
  constexpr std::array<int32_t, 3> kTop = {1, 5, 10};
  for (size_t i = 0; i < arrays.positions; ++i) {
    const bool hit = ref[i] == cand[i];
    const bool clear = ties_ref[i] == 1 && ties_cand[i] == 1;
    same += hit;
    untied += clear;
    untied_same += clear && hit;
    tied_ref += ties_ref[i] > 1;
    tied_cand += ties_cand[i] > 1;
    for (size_t k = 0; k < kTop.size(); ++k) within[k] += rank[i] < kTop[k];
  }
  Json json;
  json["same_top1"] = FractionJson(same, arrays.positions);
  json["same_top1_untied"] = FractionJson(untied_same, untied);
  for (size_t k = 0; k < kTop.size(); ++k) {
    json["ref_top1_in_cand_top" + std::to_string(kTop[k])] =
        FractionJson(within[k], arrays.positions);
  }
  json["tied_positions_ref"] = tied_ref;
  json["tied_positions_cand"] = tied_cand;
  return json;
}

Json StatisticsJson(const std::vector<ReportContext>& contexts, const PositionArrays& arrays,
                    const std::vector<Slice>& slices) {
  Json json;
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    const std::vector<double> sorted = Sorted(arrays.f64[i]);
    Json entry = DistributionJson(kUnits[i], arrays.f64[i], sorted);
    const std::vector<double> means = ContextMeans(arrays.f64[i], slices);
    entry["context_macro_mean"] = MeanJson(means);
    switch (static_cast<F64Output>(i)) {
      case F64Output::kKlRefCand: {
        std::vector<ClusterValue> values;
        for (size_t c = 0; c < contexts.size(); ++c) {
          values.push_back({contexts[c].source_cluster, means[c]});
        }
        entry["context_bootstrap"] = BootstrapJson(ClusterBootstrap(values));
        entry["tail"] = TailJson(sorted);
        entry["exceedance"] = ExceedanceJson(sorted);
        break;
      }
      case F64Output::kNllRef:
      case F64Output::kNllCand:
        entry["perplexity"] = PerplexityJson(entry["mean"]);
        break;
      case F64Output::kDeltaP:
        entry["rms"] = RootMeanSquare(arrays.f64[i]);
        break;
      default:
        break;
    }
    json[std::string(kF64Outputs[i])] = std::move(entry);
  }
  json["agreement"] = AgreementJson(arrays);
  return json;
}

uint64_t Hits(const PositionArrays& arrays, const Slice& slice) {
  uint64_t hits = 0;
  for (size_t i = slice.begin; i < slice.begin + slice.size; ++i) {
    hits += arrays[I32Output::kTop1Ref][i] == arrays[I32Output::kTop1Cand][i];
  }
  return hits;
}

constexpr std::array<F64Output, 5> kRowMeans = {F64Output::kKlRefCand, F64Output::kKlCandRef,
                                                F64Output::kJsdBits, F64Output::kNllRef,
                                                F64Output::kNllCand};

std::string MeanName(F64Output output) {
  return "mean_" + std::string(kF64Outputs[static_cast<size_t>(output)]);
}

Json ContextJson(const ReportContext& context, const PositionArrays& arrays, const Slice& slice) {
  const std::vector<double> kl = Sorted(Part(arrays[F64Output::kKlRefCand], slice));
  Json json;
  json["index"] = context.index;
  json["stratum"] = context.stratum;
  json["source_cluster"] = context.source_cluster;
  json["partition"] = context.partition;
  json["positions"] = context.positions;
  for (const F64Output output : kRowMeans) {
    json[MeanName(output)] = MeanJson(Part(arrays[output], slice));
  }
  json["median_kl_ref_cand"] = FiniteJson(LowerMedian(kl));
  json["max_kl_ref_cand"] = FiniteJson(kl.back());
  json["same_top1"] = FractionJson(Hits(arrays, slice), slice.size);
  return json;
}

Json GroupJson(const PositionArrays& arrays, const std::vector<Slice>& members) {
  Json json;
  uint64_t positions = 0, hits = 0;
  for (const Slice& slice : members) {
    positions += slice.size;
    hits += Hits(arrays, slice);
  }
  json["contexts"] = members.size();
  json["positions"] = positions;
  for (const F64Output output : kRowMeans) {
    std::vector<double> values;
    for (const Slice& slice : members) {
      const auto part = Part(arrays[output], slice);
      values.insert(values.end(), part.begin(), part.end());
    }
    json[MeanName(output)] = MeanJson(values);
    if (output != F64Output::kKlRefCand) continue;
    const std::vector<double> sorted = Sorted(values);
    json["context_macro_mean_kl_ref_cand"] = MeanJson(ContextMeans(arrays[output], members));
    json["p50_kl_ref_cand"] = FiniteJson(LinearQuantile(sorted, 0.5));
    json["p99_kl_ref_cand"] = FiniteJson(LinearQuantile(sorted, 0.99));
    json["max_kl_ref_cand"] = FiniteJson(sorted.back());
  }
  json["same_top1"] = FractionJson(hits, positions);
  return json;
}

Json GroupsJson(const std::vector<ReportContext>& contexts, const PositionArrays& arrays,
                const std::vector<Slice>& slices,
                const std::function<std::string(const ReportContext&)>& key) {
  std::map<std::string, std::vector<Slice>> groups;
  for (size_t i = 0; i < contexts.size(); ++i) groups[key(contexts[i])].push_back(slices[i]);
  Json json = Json::object();
  for (const auto& [name, members] : groups) json[name] = GroupJson(arrays, members);
  return json;
}

// Indices of the contexts with the largest mean KL, largest first; equal ones in suite order.
Json WorstJson(const std::vector<ReportContext>& contexts, const std::vector<double>& means) {
  std::vector<size_t> order(contexts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return means[a] > means[b]; });
  if (order.size() > kWorstContexts) order.resize(kWorstContexts);
  Json json = Json::array();
  for (const size_t i : order) json.push_back(contexts[i].index);
  return json;
}

Json ArraysJson(const PositionArrays& arrays) {
  Json json;
  const auto entry = [](const std::string& bytes) {
    return Json{{"bytes", bytes.size()}, {"sha256", Sha256Hex(bytes)}};
  };
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    json[PositionFileName(static_cast<F64Output>(i))] = entry(F64Bytes(arrays.f64[i]));
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    json[PositionFileName(static_cast<I32Output>(i))] = entry(I32Bytes(arrays.i32[i]));
  }
  return json;
}

}  // namespace

Json FiniteJson(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json MeanJson(std::span<const double> values) {
  const auto infinite = static_cast<uint64_t>(
      std::count_if(values.begin(), values.end(), [](double v) { return std::isinf(v); }));
  const Json value = infinite > 0 ? Json(nullptr) : Json(ExactMean(values));
  return {{"value", value}, {"infinite_count", infinite}};
}

Json HeadStatisticsJson(const std::vector<ReportContext>& contexts, const PositionArrays& arrays) {
  const std::vector<Slice> slices = SlicesOf(contexts);
  Json json;
  json["statistics"] = StatisticsJson(contexts, arrays, slices);
  json["strata"] =
      GroupsJson(contexts, arrays, slices, [](const ReportContext& c) { return c.stratum; });
  json["partitions"] =
      GroupsJson(contexts, arrays, slices, [](const ReportContext& c) { return c.partition; });
  json["worst_contexts"] = WorstJson(contexts, ContextMeans(arrays[F64Output::kKlRefCand], slices));
  json["contexts"] = Json::array();
  for (size_t i = 0; i < contexts.size(); ++i) {
    json["contexts"].push_back(ContextJson(contexts[i], arrays, slices[i]));
  }
  json["arrays"] = ArraysJson(arrays);
  return json;
}

}  // namespace assay
