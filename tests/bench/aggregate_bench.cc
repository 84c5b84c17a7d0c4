// assay_aggregate_bench: welding published shard reports, against parsing them.
//
//   assay_aggregate_bench aggregate [--candidates N] [--shards N] [--contexts N] [--repeats N]
//   assay_aggregate_bench memory    [--shards N] [--contexts N]
//
// The reports are synthetic and have the size of published ones: 512 rows, a histogram of 562
// counts; 842 documents. aggregate: one receipt for each candidate, rows and its own interval of
// 10,000 samples included, in turn with reading and parsing the same files; both on one thread.
// memory: peak of welding one candidate's shards into a receipt with its rows, written to a file.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/published_rows.h"
#include "storage/report/sums.h"
#include "storage/report/tail.h"
#include "tests/bench/bench_util.h"

namespace assay::bench {
namespace {

constexpr int64_t kPositions = 2047;
constexpr uint64_t kDocuments = 842;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) Die(std::string(value.status().message()));
  return std::move(value).value();
}

// SplitMix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Word() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double Uniform() { return static_cast<double>(Word() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

Json Report(uint64_t candidate, uint64_t shard, uint64_t contexts) {
  Random random(candidate * 1000 + shard);
  const char* strata[] = {"code", "encyclopedic", "literary", "multilingual", "scientific"};
  std::vector<PublishedRow> rows;
  std::vector<std::string> documents;  // of rows
  for (uint64_t d = 0; d < kDocuments; ++d) documents.push_back("document-" + std::to_string(d));
  double most = 0;
  for (uint64_t i = 0; i < contexts; ++i) {
    PublishedRow row;
    row.index = static_cast<int32_t>(shard * contexts + i);
    row.stratum = strata[i % 5];
    row.source_cluster = documents[random.Word() % kDocuments];
    row.positions = kPositions;
    row.mean_kld = 0.01 * random.Uniform() * random.Uniform();
    row.median_kld = row.mean_kld / 3;
    row.max_kld = 20 * row.mean_kld;
    row.mean_jsd_bits = row.mean_kld / 3;
    row.top1_agreement =
        static_cast<double>(kPositions - static_cast<int64_t>(random.Word() % 90)) / kPositions;
    most = std::max(most, row.max_kld);
    rows.push_back(std::move(row));
  }
  Json counts = Json::array();
  int64_t left = PublishedPositions(rows);
  for (int i = 0; i <= kTailEdges; ++i) {
    const int64_t count = i == 400 ? 0 : std::min<int64_t>(left, left / 200);
    counts.push_back(count);
    left -= count;
  }
  counts[400] = left;
  const std::vector<double> means = PublishedMeans(rows);
  Json out = {
      {"schema", "qwen38-fidelity-report/2"},
      {"reference", "captures/bf16"},
      {"candidate", "captures/candidate"},
      {"reference_identity", {{"model_path", "/models/bf16"}}},
      {"candidate_identity", {{"model_path", "/models/" + std::to_string(candidate)}}},
      {"head", "head/weight.safetensors"},
      {"head_sha256", Sha256Hex("head")},
      {"suite_token_sha256", Sha256Hex("suite")},
      {"filter", "all"},
      {"scored_position_window",
       {{"schema", "qwen38-scored-position-window/1"},
        {"score_from", 0},
        {"positions_per_context", kPositions}}},
      {"contexts", rows.size()},
      {"scored_positions", PublishedPositions(rows)},
      {"vocab_size", 248320},
      {"hidden_size", 5120},
      {"token_mean_kld", WeightedByPositions(rows, &PublishedRow::mean_kld)},
      {"p999_kld", most},
      {"max_kld", most},
      {"kld_tail",
       {{"binning", {{"bins", 560}}},
        {"bin_edges", TailEdges()},
        {"counts", counts},
        {"total_count", PublishedPositions(rows)},
        {"max_kld", most},
        {"min_kld", 0.0},
        {"shard_exact_quantiles", {{"p50", most}, {"p95", most}, {"p99", most}, {"p999", most}}}}},
      {"context_macro_mean_kld", ExactMean(means)},
      {"mean_jsd_bits", ExactMean(means)},
      {"top1_agreement", WeightedByPositions(rows, &PublishedRow::top1_agreement)},
      {"per_context_all", Json::array()},
      {"per_context", Json::array()},
      {"comparator", {{"vocab_chunk", 24832}, {"device", "cuda"}}}};
  for (const PublishedRow& row : rows) {
    out["per_context_all"].push_back(PublishedContextAllJson(row));
    out["per_context"].push_back(PublishedContextJson(row));
  }
  return out;
}

using Files = std::vector<std::vector<std::string>>;  // by candidate

Files Write(const std::string& folder, uint64_t candidates, uint64_t shards, uint64_t contexts) {
  std::filesystem::create_directories(folder);
  Files files(candidates);
  for (uint64_t c = 0; c < candidates; ++c) {
    for (uint64_t s = 0; s < shards; ++s) {
      files[c].push_back(folder + "/" + std::to_string(c) + "-" + std::to_string(s) + ".json");
      const auto status = WriteFile(files[c].back(), PythonPrettyJson(Report(c, s, contexts)));
      if (!status.ok()) Die(std::string(status.message()));
    }
  }
  return files;
}

void ParseAll(const Files& files) {
  for (const auto& shards : files) {
    for (const std::string& file : shards) {
      const Json document = Must(ReadJsonFile(file));
      if (!document.contains("schema")) Die("no report");
    }
  }
}

// As assay report aggregate; the receipts go to `out`, one over the other.
void Weld(const Files& files, uint64_t contexts, const std::string& out) {
  for (const auto& shards : files) {
    AggregateOptions options;
    options.shard_size = static_cast<int64_t>(contexts);
    PublishedAggregator aggregator(options);
    for (const std::string& file : shards) {
      const std::string bytes = Must(ReadFile(file, kJsonBytesMax));
      aggregator.Add({file, Sha256Hex(bytes), Must(ParseJson(bytes, file))});
    }
    std::ofstream receipt(out, std::ios::binary);
    Must(aggregator.Write(OwnAggregateProse(true), [&](std::string_view bytes) {
      receipt.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      return absl::OkStatus();
    }));
  }
}

Json AggregateRow(const Files& files, const Flags& flags, const std::string& out_file) {
  Samples parse, weld;
  for (uint64_t i = 0; i < Number(flags, "--repeats"); ++i) {
    TakeInTurn(
        &parse, [&] { ParseAll(files); }, &weld,
        [&] { Weld(files, Number(flags, "--contexts"), out_file); });
  }
  Json out = {{"parse", parse.ToJson()}, {"aggregate", weld.ToJson()}};
  out["ratio"] = Ratio(weld, parse);
  return out;
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay::bench;
  const std::string row = argc > 1 ? argv[1] : "";
  Flags flags = {
      {"--candidates", "5"}, {"--shards", "10"}, {"--contexts", "512"}, {"--repeats", "11"}};
  ReadFlags(argc, argv, 2, &flags);
  if (row != "aggregate" && row != "memory") Die("rows: aggregate, memory");
  const std::string folder = std::filesystem::temp_directory_path().string() +
                             "/assay-aggregate-bench-" + std::to_string(getpid());
  const uint64_t candidates = row == "memory" ? 1 : Number(flags, "--candidates");
  Files files(candidates);
  // In a process of its own: what it makes lies in memory.
  InChild([&]() -> assay::Json {
    Write(folder, candidates, Number(flags, "--shards"), Number(flags, "--contexts"));
    return {{"made", true}};
  });
  for (uint64_t c = 0; c < candidates; ++c) {
    for (uint64_t s = 0; s < Number(flags, "--shards"); ++s) {
      files[c].push_back(folder + "/" + std::to_string(c) + "-" + std::to_string(s) + ".json");
    }
  }
  const assay::Json result =
      row == "aggregate" ? AggregateRow(files, flags, folder + "/receipt.json")
                         : InChild([&]() -> assay::Json {
                             Weld(files, Number(flags, "--contexts"), folder + "/receipt.json");
                             return {{"peak", PeakMemory()}};
                           });
  std::filesystem::remove_all(folder);
  std::cout << result.dump() << "\n";
  return 0;
}
