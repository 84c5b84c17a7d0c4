// Sentences and options of cumulative receipts: this program's own, or those of a published one.

#include <algorithm>

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/published_cumulative.h"

namespace assay {
namespace {

constexpr int64_t kCountMax = int64_t{1} << 53;

absl::StatusOr<int> GenerationOf(const JsonFields& fields) {
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  const PublishedSchema parsed = ParsePublishedSchema(schema);
  if (parsed.Is("kld-ladder-cumulative") && (parsed.generation == 2 || parsed.generation == 3)) {
    return parsed.generation;
  }
  return InvalidError("REPORT_INVALID", fields.where() + ": schema \"" + schema.substr(0, 80) +
                                            "\" is no cumulative receipt of generation 2 or 3");
}

absl::StatusOr<std::vector<int64_t>> Numbers(const JsonFields& fields, const char* key) {
  std::vector<int64_t> out;
  if (!fields.Has(key)) return out;
  ASSAY_ASSIGN_OR_RETURN(const Json* list, fields.Array(key));
  for (const Json& value : *list) {
    if (!value.is_number_integer() || value < 0)
      return fields.Invalid(key, "must hold numbers from 0");
    out.push_back(value.get<int64_t>());
  }
  return out;
}

}  // namespace

AggregateProse OwnAggregateProse(bool tail) {
  AggregateProse out;
  out.window_policy =
      "positions of a context before score_from are not scored; all reports leave out the same";
  out.bootstrap_unit = "source_cluster";
  out.bootstrap_over = "contexts of all reports";
  out.tail_source = "sum of the reports' histograms";
  out.tail_method =
      "a quantile lies between lower and upper, the bounds of the bins that hold its neighbouring "
      "order statistics; estimate is log-linear inside the bin; exceedances are exact counts";
  out.note =
      "every figure is computed from the rows of the reports and held against their headlines";
  if (tail) {
    out.not_aggregable = {
        {"token_percentiles_exact", "the reports hold no value for each position: see tail"},
        {"jsd_percentiles", "the reports hold no histogram of JSD"}};
  } else {
    out.not_aggregable = {
        {"token_percentiles", "the reports hold neither positions nor a histogram"}};
  }
  return out;
}

absl::StatusOr<AggregateProse> AggregateProseOf(const Json& receipt, std::string_view where) {
  const JsonFields fields(receipt, std::string(where));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  const auto text = [&](const char* object, const char* key, std::string* out) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const Json* block, fields.Object(object));
    const JsonFields in(*block, fields.where() + ": " + object);
    ASSAY_ASSIGN_OR_RETURN(*out, in.String(key));
    return absl::OkStatus();
  };
  AggregateProse out;
  if (fields.Has("scored_position_window")) {
    ASSAY_RETURN_IF_ERROR(text("scored_position_window", "policy", &out.window_policy));
  }
  ASSAY_RETURN_IF_ERROR(text("bootstrap_config", "unit", &out.bootstrap_unit));
  ASSAY_RETURN_IF_ERROR(text("bootstrap_config", "over", &out.bootstrap_over));
  if (fields.Has("tail")) {
    ASSAY_RETURN_IF_ERROR(text("tail", "source", &out.tail_source));
    ASSAY_RETURN_IF_ERROR(text("tail", "method", &out.tail_method));
  }
  ASSAY_RETURN_IF_ERROR(text("consistency", "note", &out.note));
  ASSAY_ASSIGN_OR_RETURN(const Json* reasons, fields.Object("not_aggregable"));
  out.not_aggregable = *reasons;
  return out;
}

absl::StatusOr<AggregateOptions> AggregateOptionsOf(const Json& receipt, std::string_view where) {
  const JsonFields fields(receipt, std::string(where));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  AggregateOptions out;
  ASSAY_ASSIGN_OR_RETURN(out.generation, GenerationOf(fields));
  ASSAY_ASSIGN_OR_RETURN(const Json* suite, fields.Object("suite"));
  const JsonFields in_suite(*suite, fields.where() + ": suite");
  if (in_suite.Has("parent")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* parent, in_suite.Object("parent"));
    ASSAY_ASSIGN_OR_RETURN(out.parent_path,
                           JsonFields(*parent, in_suite.where() + ".parent").String("path"));
  }
  ASSAY_ASSIGN_OR_RETURN(out.shard_size, in_suite.Int("shard_size", 0, kCountMax));
  ASSAY_ASSIGN_OR_RETURN(out.shards, Numbers(in_suite, "requested_shards"));
  ASSAY_ASSIGN_OR_RETURN(const Json* bootstrap, fields.Object("bootstrap_config"));
  const JsonFields in_bootstrap(*bootstrap, fields.where() + ": bootstrap_config");
  ASSAY_ASSIGN_OR_RETURN(const int64_t samples, in_bootstrap.Int("samples", 40, 1'000'000));
  out.samples = static_cast<uint32_t>(samples);
  ASSAY_ASSIGN_OR_RETURN(const int64_t seed, in_bootstrap.Int("seed", 0, kCountMax));
  out.seed = static_cast<uint64_t>(seed);
  ASSAY_ASSIGN_OR_RETURN(const Json* consistency, fields.Object("consistency"));
  ASSAY_ASSIGN_OR_RETURN(
      out.tolerance,
      JsonFields(*consistency, fields.where() + ": consistency").Number("tolerance"));
  ASSAY_ASSIGN_OR_RETURN(out.candidate, fields.String("candidate"));
  if (fields.Has("label")) {
    ASSAY_ASSIGN_OR_RETURN(out.label, fields.String("label"));
  }
  ASSAY_ASSIGN_OR_RETURN(out.tool, fields.String("tool"));
  ASSAY_ASSIGN_OR_RETURN(out.generated_unix, fields.Int("generated_unix", 0, kCountMax));
  out.rows = fields.Has("per_context_all");
  out.allow_no_tail = !fields.Has("tail");
  return out;
}

LadderPairingOptions OwnLadderPairingOptions() {
  LadderPairingOptions out;
  out.scope = "the contexts of the aggregates";
  out.statistic =
      "mean over contexts of mean_kld(a) - mean_kld(b); below 0: a is closer to the reference";
  out.operands = "one reference and one head for all; the aggregates are named by digest";
  return out;
}

}  // namespace assay
