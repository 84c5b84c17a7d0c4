#include "client/html/report_set.h"

#include "client/html/numbers.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report.h"
#include "storage/report/summary.h"

namespace assay {

absl::StatusOr<Json> ReadSummary(const std::string& out) {
  const std::string path = JoinPath(out, kSummaryFile);
  if (!FileExists(path)) {
    return NotFoundError("FILE_MISSING", path +
                                             ": there is no such file; give the --out folder of "
                                             "assay score, assay replay or assay report fetch");
  }
  ASSAY_ASSIGN_OR_RETURN(Json summary, ReadJsonFile(path, kReportBytesMax));
  const JsonFields fields(summary, path);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kSummarySchema) {
    return InvalidError("SUMMARY_INVALID",
                        path + ": schema is " + schema + ", not " + std::string(kSummarySchema) +
                            "; the command that made the folder, given again with the same --out, "
                            "writes it anew");
  }
  ASSAY_RETURN_IF_ERROR(fields.Array("candidates").status());
  ASSAY_RETURN_IF_ERROR(fields.Array("pairs").status());
  return summary;
}

absl::StatusOr<Json> ReadCandidateReport(const std::string& out, const Json& entry) {
  const JsonFields fields(entry, JoinPath(out, kSummaryFile) + ": candidate");
  ASSAY_ASSIGN_OR_RETURN(const std::string label, fields.String("label"));
  ASSAY_RETURN_IF_ERROR(CheckLabel(label));
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, fields.Sha256("report_sha256"));
  const std::string path = JoinPath(JoinPath(out, label), kReportFile);
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kReportBytesMax));
  if (Sha256Hex(bytes) != digest) {
    return DataLossError("SUMMARY_MISMATCH",
                         path +
                             ": is not the report that summary.json was made from; run assay "
                             "verify " +
                             out + ", or score again");
  }
  return ParseReport(bytes, path);
}

Json WeightBytes(const Json& sizes, bool tied) {
  double bits = 0;
  bool known = true;
  for (const char* part : {"body", "embedding", "head"}) {
    if (tied && std::string_view(part) == "head") continue;
    const Json &weights = Field(sizes, {part, "weights"}),
               &per = Field(sizes, {part, "bits_per_weight"});
    known = known && weights.is_number() && per.is_number();
    if (known) bits += weights.get<double>() * per.get<double>();
  }
  if (known) return bits / 8;
  return Field(sizes, {"what_if"}) == Json(true) ? Json() : Field(sizes, {"file_bytes"});
}

Json CandidateWeightBytes(const Json& report) {
  bool tied = false;
  for (const auto& [head, entry] : report.at("heads").items()) {
    tied = tied || Field(entry, {"candidate_head", "tied"}) == Json(true);
  }
  return WeightBytes(report.at("candidate").at("sizes"), tied);
}

}  // namespace assay
