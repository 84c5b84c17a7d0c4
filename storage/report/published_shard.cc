#include "storage/report/published_shard.h"

#include <algorithm>
#include <cmath>

#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"

namespace assay {
namespace {

const Json& At(const Json& object, const char* key) {
  static const Json* const null = new Json(nullptr);
  if (!object.is_object()) return *null;
  const auto found = object.find(key);
  return found == object.end() ? *null : *found;
}

double RelativeGap(double a, double b) {
  const double scale = std::max(std::fabs(a), std::fabs(b));
  return scale == 0 ? 0.0 : std::fabs(a - b) / scale;
}

class Reader {
 public:
  Reader(const Json& report, double tolerance, PublishedShard* shard,
         std::vector<std::string>* problems)
      : report_(report), tolerance_(tolerance), shard_(*shard), problems_(*problems) {}

  void Read() {
    if (!ReadSchema()) return;
    auto rows = ReadPublishedRows(report_, shard_.path);
    if (!rows.ok()) {
      problems_.push_back(MessageOf(rows.status()));
      return;
    }
    shard_.rows = *std::move(rows);
    Count();
    CheckHeadline();
    ReadWindow();
    if (shard_.schema.back() != '1') ReadTail();
    for (const auto& [key, value] : report_.items()) {
      const bool rows_or_what_follows = key == "per_context_all" || key == "per_context" ||
                                        key == "worst_contexts" || key == "strata";
      if (!rows_or_what_follows && key != "kld_tail") shard_.stated[key] = value;
    }
    if (!shard_.has_tail) return;
    for (const char* key : {"binning", "bin_edges"}) {
      shard_.stated["kld_tail"][key] = At(At(report_, "kld_tail"), key);
    }
  }

 private:
  void Problem(const std::string& why) { problems_.push_back(shard_.path + ": " + why); }

  bool ReadSchema() {
    const Json& schema = At(report_, "schema");
    shard_.schema = schema.is_string() ? schema.get<std::string>() : "";
    const PublishedSchema parsed = ParsePublishedSchema(shard_.schema);
    if (parsed.Is("fidelity-report") && parsed.generation <= 3) return true;
    Problem("schema \"" + shard_.schema.substr(0, 80) +
            "\" is no published replay report /1 to /3");
    return false;
  }

  void Count() {
    const auto [least, most] =
        std::minmax_element(shard_.rows.begin(), shard_.rows.end(),
                            [](const auto& a, const auto& b) { return a.index < b.index; });
    shard_.contexts = static_cast<int64_t>(shard_.rows.size());
    shard_.positions = PublishedPositions(shard_.rows);
    shard_.index_min = least->index;
    shard_.index_max = most->index;
  }

  // A stated number against what the rows give.
  double Gap(const char* key, double computed) {
    const Json& stated = At(report_, key);
    if (!stated.is_number() || stated.get<double>() < 0) {
      Problem(std::string(key) + " is no number from 0");
      return 0;
    }
    const double gap = RelativeGap(computed, stated.get<double>());
    if (gap > tolerance_) {
      Problem(std::string(key) + " is " + PythonFloat(stated.get<double>()) + ", its rows give " +
              PythonFloat(computed));
    }
    return gap;
  }

  void CheckHeadline() {
    if (At(report_, "contexts") != shard_.contexts) {
      Problem("contexts is not the number of its rows");
    }
    if (At(report_, "scored_positions") != shard_.positions) {
      Problem("scored_positions is not the sum over its rows");
    }
    shard_.token_mean_gap =
        Gap("token_mean_kld", WeightedByPositions(shard_.rows, &PublishedRow::mean_kld));
    shard_.top1_gap =
        Gap("top1_agreement", WeightedByPositions(shard_.rows, &PublishedRow::top1_agreement));
    for (const char* key : {"max_kld", "mean_jsd_bits"}) {
      if (!At(report_, key).is_number()) Problem(std::string(key) + " is no number");
    }
    if (!At(report_, "suite_token_sha256").is_string()) Problem("suite_token_sha256 is missing");
    shard_.max_kld = At(report_, "max_kld").is_number() ? At(report_, "max_kld").get<double>() : 0;
  }

  void ReadWindow() {
    const Json& window = At(report_, "scored_position_window");
    const bool windowed = shard_.schema.back() == '3';
    if (window.is_null()) {
      if (windowed) Problem("a /3 report states its scored_position_window, this one does not");
      return;
    }
    const Json& from = At(window, "score_from");
    if (!from.is_number_integer() || from.get<int64_t>() < 0) {
      return Problem("scored_position_window.score_from is no number from 0");
    }
    shard_.window_declared = true;
    shard_.score_from = from.get<int64_t>();
    if ((shard_.score_from > 0) != windowed) {
      Problem("a window is stated exactly by /3 reports; schema and score_from disagree");
    }
    shard_.positions_per_context = At(window, "positions_per_context");
    const Json& each = shard_.positions_per_context;
    if (!each.is_null() && (!each.is_number_integer() || each.get<int64_t>() <= 0)) {
      Problem("scored_position_window.positions_per_context is neither null nor a number from 1");
    }
  }

  bool SoundEdges(const Json& edges) {
    if (!edges.is_array() || edges.size() < 2) return false;
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i].is_number()) return false;
      if (i > 0 && edges[i].get<double>() <= edges[i - 1].get<double>()) return false;
    }
    return edges.back().get<double>() >= 1;  // the largest exceedance threshold
  }

  void ReadTail() {
    const Json& tail = At(report_, "kld_tail");
    const Json& edges = At(tail, "bin_edges");
    if (!SoundEdges(edges)) return Problem("kld_tail.bin_edges do not ascend to 1 or more");
    const Json& counts = At(tail, "counts");
    if (!counts.is_array() || counts.size() != edges.size() + 1) {
      return Problem("kld_tail.counts has another number of entries than its edges ask for");
    }
    int64_t total = 0;
    for (const Json& count : counts) {
      if (!count.is_number_integer() || count.get<int64_t>() < 0 ||
          __builtin_add_overflow(total, count.get<int64_t>(), &total)) {
        return Problem("kld_tail.counts holds something that is no count");
      }
      shard_.counts.push_back(count.get<int64_t>());
    }
    shard_.has_tail = true;
    shard_.min_kld = At(tail, "min_kld");
    if (total != shard_.positions || At(tail, "total_count") != total) {
      Problem("kld_tail counts " + std::to_string(total) +
              " positions, not those that were scored");
    }
    if (At(tail, "max_kld") != At(report_, "max_kld")) {
      Problem("kld_tail.max_kld is not the report's max_kld");
    }
    for (const char* name : {"p50", "p95", "p99", "p999"}) {
      if (At(At(tail, "shard_exact_quantiles"), name).is_number()) continue;
      Problem(std::string("kld_tail.shard_exact_quantiles.") + name + " is missing");
    }
  }

  const Json& report_;
  const double tolerance_;
  PublishedShard& shard_;
  std::vector<std::string>& problems_;
};

}  // namespace

PublishedShard ReadPublishedShard(const std::string& path, const std::string& sha256,
                                  const Json& report, double tolerance,
                                  std::vector<std::string>* problems) {
  PublishedShard shard;
  shard.path = path;
  shard.sha256 = sha256;
  Reader(report, tolerance, &shard, problems).Read();
  return shard;
}

}  // namespace assay
