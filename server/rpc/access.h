// Which role may make which call: the one table. A method without a row may not be called by
// anybody.

#ifndef ASSAY_SERVER_RPC_ACCESS_H_
#define ASSAY_SERVER_RPC_ACCESS_H_

#include <string_view>

#include "server/auth/tokens.h"

namespace assay::rpc {

// What a call does, for limits and for the audit log.
enum class CallKind { kRead, kChange, kUpload };

constexpr unsigned Bit(Role role) { return 1u << static_cast<unsigned>(role); }
inline constexpr unsigned kR = Bit(Role::kReader), kS = Bit(Role::kSubmitter),
                          kW = Bit(Role::kWorker), kA = Bit(Role::kAdmin);

struct AccessRow {
  std::string_view method;  // below assay.v1
  unsigned roles;
  CallKind kind;
};

// Readers see everything that is no secret, submitters may also add work, workers do it and no
// more, administrators may do all of that but pose as a worker.
inline constexpr AccessRow kAccess[] = {
    {"BlobService/FindMissing", kS | kW | kA, CallKind::kRead},
    {"BlobService/QueryWriteStatus", kS | kW | kA, CallKind::kRead},
    {"BlobService/Read", kR | kS | kW | kA, CallKind::kRead},
    {"BlobService/Write", kS | kW | kA, CallKind::kUpload},
    {"CaptureService/GetCapture", kR | kS | kA, CallKind::kRead},
    {"CaptureService/Ingest", kS | kA, CallKind::kUpload},
    {"CaptureService/ListCaptureFiles", kR | kS | kA, CallKind::kRead},
    {"CaptureService/ListCaptures", kR | kS | kA, CallKind::kRead},
    {"CaptureService/PruneCaptures", kS | kA, CallKind::kChange},
    {"EvidenceService/ListDisputes", kR | kS | kA, CallKind::kRead},
    {"HeadService/CreateHead", kS | kA, CallKind::kChange},
    {"HeadService/GetHead", kR | kS | kA, CallKind::kRead},
    {"HeadService/ListHeads", kR | kS | kA, CallKind::kRead},
    {"ModelService/CreateModel", kS | kA, CallKind::kChange},
    {"ModelService/GetModel", kR | kS | kA, CallKind::kRead},
    {"ModelService/ListModels", kR | kS | kA, CallKind::kRead},
    {"ReceiptService/GetLogProof", kR | kS | kA, CallKind::kRead},
    {"ReceiptService/GetPublicKey", kR | kS | kW | kA, CallKind::kRead},
    {"ReceiptService/GetReceipt", kR | kS | kA, CallKind::kRead},
    {"ReceiptService/ListReceipts", kR | kS | kA, CallKind::kRead},
    {"ReportService/GetReport", kR | kS | kA, CallKind::kRead},
    {"ReportService/ListReports", kR | kS | kA, CallKind::kRead},
    {"RunService/CancelRun", kS | kA, CallKind::kChange},
    {"RunService/CreateRun", kS | kA, CallKind::kChange},
    {"RunService/GetRun", kR | kS | kA, CallKind::kRead},
    {"RunService/ListRuns", kR | kS | kA, CallKind::kRead},
    {"RunService/ListUnits", kR | kS | kA, CallKind::kRead},
    {"RunService/WatchRun", kR | kS | kA, CallKind::kRead},
    {"SuiteService/CreateSuite", kS | kA, CallKind::kChange},
    {"SuiteService/GetSuite", kR | kS | kA, CallKind::kRead},
    {"SuiteService/ListSuites", kR | kS | kA, CallKind::kRead},
    {"WorkerAdminService/ListWorkers", kR | kS | kA, CallKind::kRead},
    {"WorkerService/Synchronize", kW, CallKind::kRead},  // results are audited one by one
};

constexpr const AccessRow* FindAccess(std::string_view method) {
  for (const AccessRow& row : kAccess) {
    if (row.method == method) return &row;
  }
  return nullptr;
}

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_ACCESS_H_
