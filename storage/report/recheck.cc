// Reading a report back, and recomputing what it claims.

#include <set>

#include "storage/base/digest.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/json_compare.h"
#include "storage/report/report_parts.h"
#include "storage/report/statistics.h"

namespace assay {
namespace {

constexpr int64_t kExactMax = int64_t{1} << 53;

absl::Status Invalid(std::string_view where, const std::string& what) {
  return InvalidError("REPORT_INVALID", std::string(where) + ": " + what);
}

absl::StatusOr<std::vector<ReportContext>> ContextsOf(const Json& report, std::string_view head,
                                                      std::string_view where) {
  const std::string name = std::string(where) + ": heads." + std::string(head);
  ASSAY_ASSIGN_OR_RETURN(const Json* heads, JsonFields(report, std::string(where)).Object("heads"));
  ASSAY_ASSIGN_OR_RETURN(const Json* entry, JsonFields(*heads, name).Object(head));
  ASSAY_ASSIGN_OR_RETURN(const Json* rows, JsonFields(*entry, name).Array("contexts"));
  std::vector<ReportContext> contexts;
  std::set<int64_t> seen;
  uint64_t total = 0;
  for (const Json& row : *rows) {
    const JsonFields fields(row, name + ".contexts[" + std::to_string(contexts.size()) + "]");
    ReportContext context;
    ASSAY_ASSIGN_OR_RETURN(context.index, fields.Int("index", -kExactMax, kExactMax));
    ASSAY_ASSIGN_OR_RETURN(context.stratum, fields.String("stratum"));
    ASSAY_ASSIGN_OR_RETURN(context.source_cluster, fields.String("source_cluster"));
    ASSAY_ASSIGN_OR_RETURN(context.partition, fields.String("partition"));
    ASSAY_ASSIGN_OR_RETURN(const int64_t positions,
                           fields.Int("positions", 1, static_cast<int64_t>(kReportPositionsMax)));
    context.positions = static_cast<uint64_t>(positions);
    if (!seen.insert(context.index).second) return fields.Invalid("index", "appears twice");
    total += context.positions;
    if (total > kReportPositionsMax) return Invalid(name, "too many positions");
    contexts.push_back(std::move(context));
  }
  if (contexts.empty()) return Invalid(name, "no context is scored");
  return contexts;
}

absl::Status Mismatch(std::string_view where, const std::string& difference) {
  return DataLossError("REPORT_MISMATCH",
                       std::string(where) + ": " + difference +
                           " (recomputed against reported); report or arrays were changed or come "
                           "from different runs, fetch them again");
}

// `value` as it reads after a trip through canonical bytes.
absl::StatusOr<Json> Normalised(const Json& value) {
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, CanonicalJson(value));
  return ParseJson(bytes, "recomputed statistics");
}

absl::Status CheckHeadFields(const Json& report, const std::string& head, std::string_view where) {
  ASSAY_RETURN_IF_ERROR(ContextsOf(report, head, where).status());
  const std::string name = std::string(where) + ": heads." + head;
  if (head != kHeadOwn && head != kHeadShared) return Invalid(name, "is no known head");
  const JsonFields fields(report.at("heads").at(head), name);
  for (const char* key :
       {"reference_head", "candidate_head", "statistics", "strata", "partitions"}) {
    ASSAY_RETURN_IF_ERROR(fields.Object(key).status());
  }
  ASSAY_RETURN_IF_ERROR(fields.String("description").status());
  ASSAY_ASSIGN_OR_RETURN(const Json* arrays, fields.Object("arrays"));
  const auto check = [&](const std::string& file) -> absl::Status {
    const JsonFields outer(*arrays, name + ".arrays");
    ASSAY_ASSIGN_OR_RETURN(const Json* entry, outer.Object(file));
    const JsonFields inner(*entry, name + ".arrays." + file);
    ASSAY_RETURN_IF_ERROR(inner.Int("bytes", 0, kExactMax).status());
    return inner.Sha256("sha256").status();
  };
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(check(PositionFileName(static_cast<F64Output>(i))));
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(check(PositionFileName(static_cast<I32Output>(i))));
  }
  return absl::OkStatus();
}

absl::Status CheckReportFields(const Json& report, std::string_view where) {
  const JsonFields fields(report, std::string(where));
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kReportSchema) {
    return Invalid(where, "schema is \"" + schema.substr(0, 80) + "\", this program reads " +
                              std::string(kReportSchema));
  }
  for (const char* key : {"suite", "coverage", "reference", "candidate", "numeric", "noise_floor",
                          "smallest_resolvable_difference"}) {
    ASSAY_RETURN_IF_ERROR(fields.Object(key).status());
  }
  ASSAY_RETURN_IF_ERROR(fields.Array("disclosures").status());
  ASSAY_ASSIGN_OR_RETURN(const Json* heads, fields.Object("heads"));
  if (heads->empty()) return Invalid(where, "it holds no head");
  for (const auto& [head, value] : heads->items()) {
    ASSAY_RETURN_IF_ERROR(CheckHeadFields(report, head, where));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> ParseReport(std::string_view bytes, std::string_view where) {
  ASSAY_ASSIGN_OR_RETURN(Json report, ParseJson(bytes, where));
  const absl::StatusOr<std::string> canonical = CanonicalJson(report);
  if (!canonical.ok() || *canonical != bytes) {
    return InvalidError("REPORT_NOT_CANONICAL",
                        std::string(where) +
                            ": the bytes are not the canonical form (RFC 8785) of a report; use "
                            "the file exactly as it was written");
  }
  ASSAY_RETURN_IF_ERROR(CheckReportFields(report, where));
  return report;
}

absl::Status RecheckHead(const Json& report, std::string_view head, const PositionArrays& arrays,
                         std::string_view where) {
  ASSAY_ASSIGN_OR_RETURN(const auto contexts, ContextsOf(report, head, where));
  uint64_t positions = 0;
  for (const ReportContext& context : contexts) positions += context.positions;
  if (positions != arrays.positions) {
    return Mismatch(where, "heads." + std::string(head) + ": " + std::to_string(arrays.positions) +
                               " against " + std::to_string(positions) + " positions");
  }
  ASSAY_RETURN_IF_ERROR(
      CheckPositionArrays(arrays, where, report.value("numeric", Json()).contains("vocab_chunk")));
  Json expected = HeadStatisticsJson(contexts, arrays);
  const Json& reported = report.at("heads").at(std::string(head));
  expected["description"] = head == kHeadOwn ? "as served" : "body only";
  for (const char* key : {"reference_head", "candidate_head"}) expected[key] = reported.at(key);
  ASSAY_ASSIGN_OR_RETURN(expected, Normalised(expected));
  const std::string difference = FirstDifference(expected, reported, "heads." + std::string(head));
  return difference.empty() ? absl::OkStatus() : Mismatch(where, difference);
}

absl::Status RecheckAcrossHeads(const Json& report, std::string_view where) {
  try {
    Json expected;
    expected["head_difference"] = HeadDifferenceJson(report.at("heads"));
    expected["smallest_resolvable_difference"] =
        SmallestDifferenceJson(report.at("heads"), report.at("noise_floor"));
    ASSAY_ASSIGN_OR_RETURN(expected, Normalised(expected));
    for (const auto& [key, value] : expected.items()) {
      const std::string difference = FirstDifference(value, report.at(key), key);
      if (!difference.empty()) return Mismatch(where, difference);
    }
    for (const auto& [head, value] : report.at("heads").items()) {
      ASSAY_ASSIGN_OR_RETURN(const auto contexts, ContextsOf(report, head, where));
      SuiteInfo suite;
      suite.filter = report.at("coverage").at("filter").get<std::string>();
      suite.suite_contexts = report.at("suite").at("contexts").get<uint64_t>();
      suite.score_from = report.at("coverage").value("score_from", int64_t{0});
      suite.limit = report.at("coverage").value("limit", int64_t{0});
      const std::string difference =
          FirstDifference(CoverageJson(suite, contexts), report.at("coverage"), "coverage");
      if (!difference.empty()) return Mismatch(where, difference);
    }
    return absl::OkStatus();
  } catch (const nlohmann::json::exception& error) {
    return Invalid(where, std::string("a field has an unexpected form: ") + error.what());
  }
}

}  // namespace assay
