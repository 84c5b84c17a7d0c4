#include "client/cli/exit_codes.h"

#include <algorithm>
#include <string_view>

#include "storage/base/status.h"

namespace assay {
namespace {

struct ReasonClass {
  std::string_view reason;
  int exit_code;
};

// Reasons whose class their code does not tell: what was typed is wrong, wherever it is noticed.
constexpr ReasonClass kByReason[] = {
    {"ADDRESS_INVALID", kExitBadUsage},
    {"BAD_USAGE", kExitBadUsage},
    {"DEVICE_INVALID", kExitBadUsage},
    {"DATA_DIR_UNKNOWN", kExitBadUsage},
    {"GROUP_OPTIONS_INVALID", kExitBadUsage},
    {"HEADS_INVALID", kExitBadUsage},
    {"LABEL_DUPLICATE", kExitBadUsage},
    {"LABEL_INVALID", kExitBadUsage},
    {"LABEL_UNKNOWN", kExitBadUsage},
    {"MODEL_NOT_LOCAL", kExitBadUsage},
    {"MODEL_SPEC_INVALID", kExitBadUsage},
    {"NAME_INVALID", kExitBadUsage},
    {"OUT_BUSY", kExitRefusedInput},
    {"POLICY_UNKNOWN", kExitBadUsage},
    {"REPLAY_BACKEND_UNKNOWN", kExitBadUsage},
    {"REPLAY_POLICY_UNKNOWN", kExitBadUsage},
    {"TLS_INVALID", kExitBadUsage},
    {"TLS_REQUIRED", kExitBadUsage},
    {"TOKEN_FILE_INVALID", kExitBadUsage},
    {"TRANSFORM_INVALID", kExitBadUsage},
};

}  // namespace

int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  const auto* row = std::find_if(std::begin(kByReason), std::end(kByReason),
                                 [&](const ReasonClass& entry) { return entry.reason == reason; });
  if (row != std::end(kByReason)) return row->exit_code;
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
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kDataLoss:
      return kExitRefusedInput;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitRunFailed;
  }
}

}  // namespace assay
