#include "storage/published/recompute.h"

#include <algorithm>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/published_report.h"

namespace assay {
namespace {

constexpr uint64_t kBytesMax = uint64_t{1} << 30;

absl::Status Missing(const std::string& what) {
  return NotFoundError("INPUT_MISSING",
                       what +
                           " is not among the inputs; give the file, or its folder, with "
                           "--inputs");
}

absl::StatusOr<PublishedSide> Side(const JsonFields& document, const char* key,
                                   const PublishedInputs& inputs) {
  ASSAY_ASSIGN_OR_RETURN(const Json* side, document.Object(key));
  const JsonFields fields(*side, document.where() + ": " + key);
  ASSAY_ASSIGN_OR_RETURN(const std::string path, fields.String("report"));
  ASSAY_ASSIGN_OR_RETURN(const double mean, fields.Number("mean"));
  ASSAY_ASSIGN_OR_RETURN(PublishedInput input, inputs.FindReport(path, mean));
  PublishedSide out{path, "", std::move(input.document)};
  if (fields.Has("label")) {
    ASSAY_ASSIGN_OR_RETURN(out.label, fields.String("label"));
  }
  return out;
}

absl::StatusOr<Json> Pair(const Json& document, const JsonFields& fields,
                          const PublishedInputs& inputs) {
  ASSAY_ASSIGN_OR_RETURN(const PublishedSide a, Side(fields, "a", inputs));
  ASSAY_ASSIGN_OR_RETURN(const PublishedSide b, Side(fields, "b", inputs));
  ASSAY_ASSIGN_OR_RETURN(const Json* bootstrap, fields.Object("bootstrap_difference"));
  PublishedPairOptions options;
  ASSAY_ASSIGN_OR_RETURN(const int64_t samples,
                         JsonFields(*bootstrap, fields.where()).Int("samples", 40, 1'000'000));
  options.samples = static_cast<uint32_t>(samples);
  options.generation = PublishedSchemaOf(document).generation;
  options.across_comparators = true;  // the published comparison was made
  return PairPublishedReports(a, b, options);
}

absl::StatusOr<Json> Aggregate(const Json& document, const JsonFields& fields,
                               const PublishedInputs& inputs, const Suite* suite) {
  ASSAY_ASSIGN_OR_RETURN(AggregateOptions options, AggregateOptionsOf(document, fields.where()));
  if (!options.parent_path.empty()) {
    if (suite == nullptr) {
      return PreconditionError("SUITE_MISSING", fields.where() +
                                                    ": its reports are views of a suite; give its "
                                                    "folder or manifest with --suite");
    }
    options.parent = suite;
  }
  ASSAY_ASSIGN_OR_RETURN(const AggregateProse prose, AggregateProseOf(document, fields.where()));
  ASSAY_ASSIGN_OR_RETURN(const Json* named, fields.Object("inputs"));
  PublishedAggregator aggregator(options);
  for (const auto& [path, digest] : named->items()) {
    if (!digest.is_string()) return fields.Invalid("inputs", "must hold digests");
    ASSAY_ASSIGN_OR_RETURN(const PublishedInput input,
                           inputs.Find(path, digest.get<std::string>()));
    aggregator.Add(input);
  }
  return aggregator.Finish(prose);
}

absl::StatusOr<Json> PairLadder(const Json& document, const JsonFields& fields,
                                const PublishedInputs& inputs) {
  LadderPairingOptions options;
  options.generation = PublishedSchemaOf(document).generation;
  ASSAY_ASSIGN_OR_RETURN(const Json* suite, fields.Object("suite"));
  ASSAY_ASSIGN_OR_RETURN(options.manifest, JsonFields(*suite, fields.where()).String("manifest"));
  ASSAY_ASSIGN_OR_RETURN(options.scope, fields.String("scope"));
  ASSAY_ASSIGN_OR_RETURN(options.generated_utc, fields.String("generated_utc"));
  ASSAY_ASSIGN_OR_RETURN(const Json* method, fields.Object("method"));
  const JsonFields in_method(*method, fields.where() + ": method");
  ASSAY_ASSIGN_OR_RETURN(options.statistic, in_method.String("statistic"));
  ASSAY_ASSIGN_OR_RETURN(options.operands, in_method.String("operands"));
  ASSAY_ASSIGN_OR_RETURN(const Json* named, fields.Object("inputs"));
  std::vector<std::pair<std::string, PublishedInput>> receipts;
  for (const auto& [label, input] : named->items()) {
    const JsonFields in(input, fields.where() + ": inputs." + label);
    ASSAY_RETURN_IF_ERROR(in.CheckObject());
    ASSAY_ASSIGN_OR_RETURN(const std::string path, in.String("path"));
    ASSAY_ASSIGN_OR_RETURN(const std::string digest, in.Sha256("sha256"));
    ASSAY_ASSIGN_OR_RETURN(PublishedInput receipt, inputs.Find(path, digest));
    receipts.emplace_back(label, std::move(receipt));
  }
  ASSAY_ASSIGN_OR_RETURN(const Json* comparisons, fields.Object("comparisons"));
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [name, row] : comparisons->items()) {
    const JsonFields in(row, fields.where() + ": comparisons." + name);
    ASSAY_RETURN_IF_ERROR(in.CheckObject());
    ASSAY_ASSIGN_OR_RETURN(std::string a, in.String("a"));
    ASSAY_ASSIGN_OR_RETURN(std::string b, in.String("b"));
    pairs.emplace_back(std::move(a), std::move(b));
  }
  return PairCumulativeReceipts(receipts, pairs, options);
}

// The first line in which two texts differ.
std::string FirstLine(const std::string& written, std::string_view bytes) {
  size_t begin = 0;
  for (size_t at = 0; at < std::min(written.size(), bytes.size()) && written[at] == bytes[at];
       ++at) {
    if (bytes[at] == '\n') begin = at + 1;
  }
  const auto line = [begin](std::string_view text) {
    text = text.substr(std::min(begin, text.size()));
    return std::string(text.substr(0, std::min<size_t>(text.find('\n'), 100)));
  };
  return "\"" + line(written) + "\" is computed, \"" + line(bytes) + "\" is stated";
}

}  // namespace

absl::Status PublishedInputs::Add(const std::string& path) {
  std::vector<std::string> files = {path};
  if (IsDirectory(path)) {
    files.clear();
    ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path));
    for (const std::string& name : names) {
      if (name.ends_with(".json")) files.push_back(JoinPath(path, name));
    }
  }
  for (const std::string& file : files) {
    ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(file));
    by_digest_.emplace(digest, file);
    means_known_ = false;
    by_mean_.clear();
  }
  return absl::OkStatus();
}

absl::StatusOr<PublishedInput> PublishedInputs::Find(const std::string& path,
                                                     const std::string& sha256) const {
  const auto found = by_digest_.find(sha256);
  if (found == by_digest_.end()) return Missing(path + " (SHA-256 " + sha256 + ")");
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(found->second, kBytesMax));
  if (Sha256Hex(bytes) != sha256) {
    return DataLossError("DIGEST_MISMATCH",
                         found->second + " changed while it was read; try again");
  }
  ASSAY_ASSIGN_OR_RETURN(Json document, ParseJson(bytes, found->second));
  return PublishedInput{path, sha256, std::move(document)};
}

absl::StatusOr<PublishedInput> PublishedInputs::FindReport(const std::string& path,
                                                           double mean) const {
  if (!means_known_) {
    for (const auto& [digest, file] : by_digest_) {
      const absl::StatusOr<Json> document = ReadJsonFile(file, kBytesMax);
      if (!document.ok() || !PublishedSchemaOf(*document).Is("fidelity-report")) continue;
      const Json stated = document->value("context_macro_mean_kld", Json());
      if (stated.is_number()) by_mean_.emplace(stated.get<double>(), digest);
    }
    means_known_ = true;
  }
  std::vector<PublishedInput> found;
  const auto [begin, end] = by_mean_.equal_range(mean);
  for (auto it = begin; it != end; ++it) {
    ASSAY_ASSIGN_OR_RETURN(PublishedInput input, Find(path, it->second));
    if (BaseName(by_digest_.at(it->second)) == BaseName(path)) return input;
    found.push_back(std::move(input));
  }
  if (found.size() == 1) return std::move(found.front());
  return Missing(path + " (a report whose context_macro_mean_kld is " + PythonFloat(mean) + ")");
}

absl::StatusOr<Json> RecomputePublished(std::string_view bytes, const std::string& where,
                                        const PublishedInputs& inputs, const Suite* suite) {
  ASSAY_ASSIGN_OR_RETURN(const Json document, ParseJson(bytes, where));
  const PublishedSchema schema = PublishedSchemaOf(document);
  const JsonFields fields(document, where);
  if (schema.Is("fidelity-report")) return RecomputePublishedReport(document, where);
  if (schema.Is("fidelity-paired")) return Pair(document, fields, inputs);
  if (schema.Is("kld-ladder-cumulative")) return Aggregate(document, fields, inputs, suite);
  if (schema.Is("kld-ladder-paired")) return PairLadder(document, fields, inputs);
  return InvalidError("PUBLISHED_UNKNOWN",
                      where +
                          ": replay reports, pairs of reports, aggregates and pairs of "
                          "aggregates are written again; other documents: report verify");
}

void AddRecomputed(std::string_view bytes, const absl::StatusOr<Json>& recomputed,
                   PublishedExamination* out) {
  if (!recomputed.ok()) {
    const std::string reason = ReasonOf(recomputed.status());
    if (reason == "INPUT_MISSING" || reason == "SUITE_MISSING" || reason == "PUBLISHED_UNKNOWN") {
      AddNotChecked(out, "recomputed", MessageOf(recomputed.status()));
    } else {
      AddCheck(out, "recomputed", false, MessageOf(recomputed.status()));
    }
    return;
  }
  const std::string written = PythonPrettyJson(*recomputed);
  // Some documents were written with a newline at the end.
  const bool equal = written == bytes || written + "\n" == bytes;
  AddCheck(out, "recomputed", equal,
           equal ? "computed again from what it names: the same bytes" : FirstLine(written, bytes));
}

}  // namespace assay
