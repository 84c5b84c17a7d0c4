// The JSON document of a leased unit: proto/assay/v1/worker.proto, Lease.unit_json.

#ifndef ASSAY_SERVER_CORE_UNIT_DOCUMENT_H_
#define ASSAY_SERVER_CORE_UNIT_DOCUMENT_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "server/core/state.h"
#include "storage/format/suite.h"

namespace assay {

inline constexpr uint64_t kUnitDocumentBytesMax = uint64_t{3} << 20;

// "cand3/own": the comparison of a run's candidate under a head mode.
std::string ComparisonId(size_t candidate, std::string_view mode);
inline constexpr const char* kNoiseComparison = "noise/own";

// "prepare", "capture" or "replay": how the worker sees the unit.
std::string_view LeaseKind(UnitKind kind);

// `suite` is the unit's suite (null for prepare units). UNIT_TOO_LARGE beyond
// kUnitDocumentBytesMax; CONTEXT_MISSING when the suite lacks a context.
absl::StatusOr<std::string> BuildUnitDocument(const State& state, const UnitRow& unit,
                                              const Suite* suite);

// Every blob of heads and hidden files that a replay unit reads; empty for other kinds.
std::set<std::string> BlobsOfUnit(const State& state, const UnitRow& unit);

// Id of the suite whose tokens the unit needs; "" for none.
std::string SuiteOfUnit(const State& state, const UnitRow& unit);

}  // namespace assay

#endif  // ASSAY_SERVER_CORE_UNIT_DOCUMENT_H_
