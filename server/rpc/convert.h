// Rows to wire messages and back. Resource names gain and lose their prefix here.

#ifndef ASSAY_SERVER_RPC_CONVERT_H_
#define ASSAY_SERVER_RPC_CONVERT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "assay/v1/capture.pb.h"
#include "assay/v1/head.pb.h"
#include "assay/v1/model.pb.h"
#include "assay/v1/report.pb.h"
#include "assay/v1/run.pb.h"
#include "assay/v1/suite.pb.h"
#include "assay/v1/worker.pb.h"
#include "server/core/state.h"

namespace assay::rpc {

// "suites/abc" -> "abc"; NAME_INVALID unless it is `collection`/ID with a plain id.
absl::StatusOr<std::string> IdOf(std::string_view name, std::string_view collection);
// As IdOf; "" stays "".
absl::StatusOr<std::string> OptionalIdOf(std::string_view name, std::string_view collection);

v1::Suite ToProto(const SuiteRow& row);
v1::Model ToProto(const ModelRow& row, bool files_in_store);
v1::Head ToProto(const HeadRow& row);
v1::Capture ToProto(const State& state, const CaptureRow& row);
v1::Run ToProto(const State& state, const RunRow& row);
v1::Unit ToProto(const UnitRow& row);
v1::Report ToProto(const ReportRow& row);
v1::Receipt ToProto(const ReceiptRow& row);
v1::Worker ToProto(const State& state, const WorkerState& row);

// Spec fields of the run; what comes from the suite is left empty.
absl::StatusOr<RunRow> FromProto(const v1::CreateRunRequest& request);

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_CONVERT_H_
