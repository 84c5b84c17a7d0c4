#include "client/cli/exit_codes.h"

#include "absl/strings/cord.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr char kUsagePayload[] = "assay/usage";

}  // namespace

absl::Status UsageError(std::string_view reason, std::string_view message) {
  absl::Status status = InvalidError(reason, message);
  status.SetPayload(kUsagePayload, absl::Cord("1"));
  return status;
}

int ExitCodeOf(const absl::Status& status) {
  if (status.GetPayload(kUsagePayload).has_value()) return kExitBadUsage;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitSuccess;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
      return kExitRefusedInput;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitRunFailed;
  }
}

}  // namespace assay
