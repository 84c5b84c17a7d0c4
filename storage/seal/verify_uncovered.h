// Files in a result's folder that no gate looks at. Internal to storage/seal.

#ifndef ASSAY_STORAGE_SEAL_VERIFY_UNCOVERED_H_
#define ASSAY_STORAGE_SEAL_VERIFY_UNCOVERED_H_

#include <string>

#include "storage/base/json.h"
#include "storage/seal/gates.h"

namespace assay {

// One gate "not-covered", not applicable, that lists what lies in a candidate's folder beside
// report.json, execution.json, `receipt_name`, key.pub and the arrays that `report` names. None
// when there is nothing else. `report` is null when it could not be read: then every array is
// listed. A gate "page", not applicable, where there is a report.html: it can be made again.
void ListUncoveredOfCandidate(const std::string& folder, const std::string& receipt_name,
                              const Json& report, const std::string& subject, GateList* gates);

// The same for the --out folder of a run: everything but its candidates' folders, key.pub, and the
// summaries where summary.json is there to check them against; index.html as report.html above.
void ListUncoveredOfRun(const std::string& out, GateList* gates);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_VERIFY_UNCOVERED_H_
