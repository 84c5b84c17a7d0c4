// A sealed run for tests: reports from the known answers of tests/data/smollm2.

#ifndef ASSAY_STORAGE_SEAL_SEAL_TEST_DATA_H_
#define ASSAY_STORAGE_SEAL_SEAL_TEST_DATA_H_

#include <memory>
#include <string>

#include "storage/report/candidate_files.h"
#include "storage/report/report_test_data.h"
#include "storage/report/summary.h"
#include "storage/seal/receipt.h"
#include "storage/seal/signer.h"

namespace assay {

inline std::unique_ptr<Signer> TestSigner(uint8_t fill = 7) {
  std::array<uint8_t, 32> seed;
  seed.fill(fill);
  return Must(Signer::FromSeed(seed));
}

inline const char* kTestExecution = R"({"schema":"assay-execution/1","started":"2026-11-30"})";

inline SealRequest TestRequest(const Json& report, const std::string& previous) {
  SealRequest request;
  request.report = Must(ReportBytes(report));
  request.execution = kTestExecution;
  request.inputs = Must(InputsOfReport(report));
  request.log_origin = "assay/test";
  request.previous_checkpoint = previous;
  return request;
}

// A log with some leaves before the first receipt, so that inclusion paths are not empty.
struct TestLog {
  MemoryLog log;
  std::string checkpoint;

  SealedBundle Seal(const Json& report, const Signer& signer) {
    SealedBundle bundle = Must(SealReport(TestRequest(report, checkpoint), signer, log));
    log.Apply(bundle.append);
    checkpoint = bundle.checkpoint;
    return bundle;
  }
};

// Writes the --out folder of a run with candidates "int8" and "int4" and returns the summary.
inline Summary WriteTestRun(const std::string& out, const Signer& signer) {
  Must(RemoveTree(out).ok() ? absl::StatusOr<int>(0) : absl::StatusOr<int>(RemoveTree(out)));
  TestLog log;
  log.Seal(Must(BuildReport(SmolInputs("q4_0"))), signer);
  std::vector<SummaryCandidate> candidates;
  for (const auto& [label, name] :
       {std::pair<std::string, std::string>{"int8", "int8-channel"}, {"int4", "int4-g32"}}) {
    const ReportInputs inputs = SmolInputs(name);
    SummaryCandidate candidate;
    candidate.label = label;
    candidate.report = Must(BuildReport(inputs));
    const SealedBundle bundle = log.Seal(candidate.report, signer);
    CandidateFiles files{Must(ReportBytes(candidate.report)),
                         kTestExecution,
                         bundle.receipt,
                         {{"own", &inputs.heads.at("own").arrays}}};
    if (!WriteCandidateFiles(out, label, files).ok()) throw std::runtime_error("writing " + label);
    candidate.report_sha256 = Sha256Hex(files.report);
    candidate.receipt_id = bundle.receipt_id;
    candidates.push_back(std::move(candidate));
  }
  Summary summary = Must(BuildSummary(candidates));
  if (!WriteSummaryFiles(out, summary, candidates, signer.public_key().pem()).ok()) {
    throw std::runtime_error("writing the summary");
  }
  return summary;
}

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_SEAL_TEST_DATA_H_
