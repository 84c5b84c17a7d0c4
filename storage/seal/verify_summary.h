// Checking a run's summary.json against the candidates' folders. Internal to storage/seal.

#ifndef ASSAY_STORAGE_SEAL_VERIFY_SUMMARY_H_
#define ASSAY_STORAGE_SEAL_VERIFY_SUMMARY_H_

#include <string>

#include "storage/seal/gates.h"

namespace assay {

// Rebuilds the summary of the folder `out` from the reports and receipts that it names and compares
// it with summary.json. Not applicable when there is no summary.json.
void CheckSummaryFile(const std::string& out, GateList* gates);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_VERIFY_SUMMARY_H_
