// The one place where errors become gRPC statuses.

#ifndef ASSAY_SERVER_RPC_STATUS_H_
#define ASSAY_SERVER_RPC_STATUS_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/status.h"

namespace assay::rpc {

inline constexpr const char* kReasonKey = "assay-reason";
inline constexpr const char* kResourceKey = "assay-resource";

// Same code (absl and gRPC codes are the same numbers) and message; the reason token goes into the
// trailing metadata "assay-reason", `resource` (when not empty) into "assay-resource".
grpc::Status ToGrpc(const absl::Status& status, grpc::ServerContextBase* context,
                    const std::string& resource = "");

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_STATUS_H_
