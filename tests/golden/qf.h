// Kind "qf": a suite with captures and heads, the published reports over them, and answers of an
// oracle (see the README beside the fixture). What is run and compared follows from the documents
// that the folder holds.

#ifndef ASSAY_TESTS_GOLDEN_QF_H_
#define ASSAY_TESTS_GOLDEN_QF_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/format/suite.h"
#include "storage/report/positions.h"
#include "tests/golden/golden.h"

namespace assay::golden {

// Published documents of reports/, by file name without ".json".
struct QfFolder {
  std::string dir;
  std::map<std::string, Json> documents;
  std::map<std::string, std::string> bytes;

  bool IsReport(const std::string& name) const;  // a replay report
};

absl::StatusOr<QfFolder> OpenQfFolder(const std::string& dir);

// One replay of the folder's captures.
struct QfRun {
  std::string reference, candidate;  // capture folders as reports name them
  std::string head, candidate_head;  // head files as reports name them; "" = the reference's
  std::string suite_token_sha256, filter;
  int64_t score_from = 0;
  std::string policy;
  int64_t vocab_chunk = 0;  // of torch-bf16; 0 = none

  std::string Key() const;  // equal runs have equal keys
};

// The operands and options of a published report. Reports do not say how precise their logits were.
QfRun RunOfReport(const Json& report, const std::string& policy);

struct QfResult {
  PositionArrays arrays;
  Json head;           // heads.HEAD of the product's report
  bool exact = false;  // all operands lie on a grid where fp32 sums are exact
};

// Runs replays by the product, each once.
class QfReplays {
 public:
  QfReplays(const QfFolder& folder, const Options& options) : folder_(folder), options_(options) {}
  absl::StatusOr<QfResult> Get(const QfRun& run);

 private:
  absl::StatusOr<QfResult> Make(const QfRun& run);
  absl::StatusOr<std::string> SuiteFolder(const std::string& digest) const;
  absl::StatusOr<std::string> Capture(const std::string& path, const Suite& suite);
  absl::StatusOr<bool> IsExact(const QfRun& run) const;

  const QfFolder& folder_;
  const Options& options_;
  std::map<std::string, QfResult> results_;
  int runs_ = 0;
};

// Documents against themselves and each other: bytes written again, every aggregate from its rows,
// comparisons and receipts from the reports they name.
void CheckQfDocuments(const QfFolder& folder, Tally* tally);

// Replays by the product against the peer's and the oracle's numbers.
void CheckQfReplays(const QfFolder& folder, const Options& options, Tally* tally);

}  // namespace assay::golden

#endif  // ASSAY_TESTS_GOLDEN_QF_H_
