// Stand-in reports: the product's form, made once, with the accepted results in it.

#ifndef ASSAY_TESTS_SIM_REPORT_H_
#define ASSAY_TESTS_SIM_REPORT_H_

#include "server/core/state.h"
#include "storage/base/json.h"

namespace assay::sim {

// A function of the candidate's work and the accepted results of the run's units alone.
Json ReportOf(const State& state, const RunRow& run, size_t candidate);

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_REPORT_H_
