// Published documents of other systems, recognized by what they contain (never by file name): what
// can be recomputed from the document alone is recomputed and must be equal, and what can't be is
// named.

#ifndef ASSAY_STORAGE_PUBLISHED_EXAMINE_H_
#define ASSAY_STORAGE_PUBLISHED_EXAMINE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/published_schema.h"

namespace assay {

enum class PublishedOutcome {
  kPass,
  kFail,
  kNotChecked,     // needs inputs that the document does not contain
  kNotApplicable,  // the document's form or generation has nothing of the kind
};

struct PublishedCheck {
  std::string gate;  // "seal", "rows", "interval", ...
  PublishedOutcome outcome = PublishedOutcome::kPass;
  std::string detail;  // what was compared, what differs, or what it would take
};

struct PublishedExamination {
  std::string schema;  // as the document states
  std::string what;    // for people: "report of one candidate"
  std::vector<PublishedCheck> checks;
  bool ok() const;       // no check failed
  bool checked() const;  // at least one was made
};

// PUBLISHED_UNKNOWN for a document of no known kind, JSON_INVALID and the like for one that can't
// be read. `bytes` are the file's, `where` names it in errors.
absl::StatusOr<PublishedExamination> ExaminePublished(std::string_view bytes,
                                                      const std::string& where);

// The examinations by family; each appends to `out`. The document's schema has been looked at.
void ExamineSuite(std::string_view bytes, const std::string& where, PublishedExamination* out);
void ExamineCapture(const Json& document, const std::string& where, PublishedExamination* out);
void ExamineReport(std::string_view bytes, const Json& document, const std::string& where,
                   PublishedExamination* out);
void ExaminePaired(const Json& document, PublishedExamination* out);
void ExamineCumulative(const Json& document, const std::string& where, PublishedExamination* out);
void ExamineLadderPaired(const Json& document, PublishedExamination* out);
// Qualifications, near-duplicate audits, fetch logs, determinism receipts: false, and nothing is
// added, for a document that is none of them.
bool ExamineControl(const Json& document, const PublishedSchema& schema, const std::string& where,
                    PublishedExamination* out);
void ExamineDataset(const Json& document, PublishedExamination* out);            // top manifest
void ExamineComparisonReceipt(const Json& document, PublishedExamination* out);  // of two datasets
void ExamineSealed(const Json& document,
                   PublishedExamination* out);  // other documents of a dataset
void ExamineProtocol(const Json& document, PublishedExamination* out);

// Appends a check that passes when `equal`.
void AddCheck(PublishedExamination* out, std::string gate, bool equal, std::string detail);
void AddNotChecked(PublishedExamination* out, std::string gate, std::string detail);
void AddNotApplicable(PublishedExamination* out, std::string gate, std::string detail);
// `stated` against `computed`, both named in the detail when they differ.
void AddEqual(PublishedExamination* out, std::string gate, const Json& stated,
              const Json& computed);

}  // namespace assay

#endif  // ASSAY_STORAGE_PUBLISHED_EXAMINE_H_
