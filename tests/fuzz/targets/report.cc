// assay-report/1 from strangers: everything that the commands do with a report that was accepted.

#include "storage/report/report.h"

#include "storage/base/files.h"
#include "storage/report/comparability.h"
#include "storage/report/pairing.h"
#include "storage/report/summary.h"
#include "storage/seal/receipt.h"
#include "tests/fuzz/fuzz.h"

namespace assay {
namespace {

// A sound report to compare with.
const Json& SoundReport() {
  static const Json report = [] {
    auto read = ReadJsonFile(fuzz::SourceDir() + "/tests/fuzz/corpus/report/report.json");
    fuzz::Require(read.ok(), "the corpus holds a report");
    return *std::move(read);
  }();
  return report;
}

void Use(const Json& report) {
  (void)InputsOfReport(report);
  (void)RecheckAcrossHeads(report, "input");
  for (const char* head : {"own", "shared"}) {
    (void)RecheckHead(report, head, PositionArrays{}, "input");
    for (const Json* other : {&report, &SoundReport()}) {
      fuzz::Require(CompareReports(report, *other, head).comparable() ==
                        CompareReports(*other, report, head).comparable(),
                    "comparability has no direction");
      (void)PairReports(report, *other, head, AcrossPolicies::kAllow);
    }
  }
  const std::string sha256(64, 'a');
  for (const std::string& versus : {std::string(), std::string("b")}) {
    const auto summary = BuildSummary({{"a", report, sha256, "", "", ""},
                                       {"b", SoundReport(), sha256, "", "", ""},
                                       {"c", nullptr, "", "", "FAILED", "it failed"}},
                                      {AcrossPolicies::kAllow, versus});
    if (summary.ok()) (void)SummaryTable(summary->json, 60);
  }
}

}  // namespace

ASSAY_FUZZ_TARGET(report) {
  (void)ParseReport(input, "input");
  // Most changes of a byte leave no canonical report; what the fields mean is looked at all the
  // same.
  const auto json = ParseJson(input, "input");
  if (!json.ok()) return;
  const auto bytes = CanonicalJson(*json);
  if (!bytes.ok()) return;
  const auto report = ParseReport(*bytes, "input");
  if (!report.ok()) return;
  const auto again = ReportBytes(*report);
  fuzz::Require(again.ok() && *again == *bytes, "an accepted report is written as it was read");
  Use(*report);
}

}  // namespace assay
