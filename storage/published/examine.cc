#include "storage/published/examine.h"

#include <algorithm>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/format/published_schema.h"

namespace assay {

bool PublishedExamination::ok() const {
  return std::none_of(checks.begin(), checks.end(), [](const PublishedCheck& check) {
    return check.outcome == PublishedOutcome::kFail;
  });
}

bool PublishedExamination::checked() const {
  return std::any_of(checks.begin(), checks.end(), [](const PublishedCheck& check) {
    return check.outcome == PublishedOutcome::kPass || check.outcome == PublishedOutcome::kFail;
  });
}

void AddCheck(PublishedExamination* out, std::string gate, bool equal, std::string detail) {
  out->checks.push_back({std::move(gate), equal ? PublishedOutcome::kPass : PublishedOutcome::kFail,
                         std::move(detail)});
}

void AddNotChecked(PublishedExamination* out, std::string gate, std::string detail) {
  out->checks.push_back({std::move(gate), PublishedOutcome::kNotChecked, std::move(detail)});
}

void AddNotApplicable(PublishedExamination* out, std::string gate, std::string detail) {
  out->checks.push_back({std::move(gate), PublishedOutcome::kNotApplicable, std::move(detail)});
}

void AddEqual(PublishedExamination* out, std::string gate, const Json& stated,
              const Json& computed) {
  const bool equal = stated == computed;
  const auto text = [](const Json& value) { return value.dump().substr(0, 200); };
  AddCheck(out, std::move(gate), equal,
           equal ? "recomputed, equal" : "states " + text(stated) + ", computed " + text(computed));
}

absl::StatusOr<PublishedExamination> ExaminePublished(std::string_view bytes,
                                                      const std::string& where) {
  ASSAY_ASSIGN_OR_RETURN(const Json document, ParseJson(bytes, where));
  PublishedExamination out;
  out.schema = DatasetString(DatasetMember(document, {"schema"})).value_or("");
  const auto is = [&](std::string_view prefix, const char* what) {
    if (out.schema.rfind(prefix, 0) != 0) return false;
    out.what = what;
    return true;
  };
  const PublishedSchema parsed = ParsePublishedSchema(out.schema);
  const auto kind = [&](std::string_view wanted, const char* what) {
    if (!parsed.Is(wanted)) return false;
    out.what = what;
    return true;
  };
  const bool legacy_capture = out.schema.empty() && document.is_object() &&
                              document.contains("captures") &&
                              document.contains("suite_token_sha256");
  if (kind("distribution-fidelity", "suite manifest")) {
    ExamineSuite(bytes, where, &out);
  } else if (kind("fidelity-capture", "capture manifest")) {
    ExamineCapture(document, where, &out);
  } else if (legacy_capture) {
    out.what = "capture manifest of the first generation";
    ExamineCapture(document, where, &out);
  } else if (kind("fidelity-report", "report of one candidate")) {
    ExamineReport(bytes, document, where, &out);
  } else if (kind("fidelity-paired", "paired comparison of two reports")) {
    ExaminePaired(document, &out);
  } else if (kind("kld-ladder-cumulative", "aggregate of shard reports")) {
    ExamineCumulative(document, where, &out);
  } else if (kind("kld-ladder-paired", "paired comparison of aggregates")) {
    ExamineLadderPaired(document, &out);
  } else if (ExamineControl(document, parsed, where, &out)) {
    // a control or an audit of the suites
  } else if (is("malaiwah.fidelity-dataset.v1", "dataset manifest")) {
    ExamineDataset(document, &out);
  } else if (is("malaiwah.fidelity-comparison-receipt.v1", "comparison of two datasets")) {
    ExamineComparisonReceipt(document, &out);
  } else if (is("malaiwah.glm53-joint-kld-protocol.v1", "protocol of joint measurements")) {
    ExamineProtocol(document, &out);
  } else if (is("malaiwah.", "document of a dataset") && document.contains("receipt_sha256")) {
    ExamineSealed(document, &out);
  } else {
    return InvalidError(
        "PUBLISHED_UNKNOWN",
        where + ": schema \"" + out.schema.substr(0, 80) +
            "\" is of no published kind that is known; assay verify checks Assay's own results");
  }
  if (std::all_of(out.checks.begin(), out.checks.end(), [](const PublishedCheck& check) {
        return check.outcome == PublishedOutcome::kNotApplicable;
      })) {
    AddCheck(&out, "figures", false, "the document states nothing of what its schema is for");
  }
  return out;
}

}  // namespace assay
