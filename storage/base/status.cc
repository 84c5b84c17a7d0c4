#include "storage/base/status.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/cord.h"

namespace assay {
namespace {

constexpr char kReasonUrl[] = "assay/reason";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message) {
  absl::Status status(code, View(message));
  status.SetPayload(kReasonUrl, absl::Cord(View(reason)));
  return status;
}

absl::Status InvalidError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, reason, message);
}
absl::Status NotFoundError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kNotFound, reason, message);
}
absl::Status PreconditionError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kFailedPrecondition, reason, message);
}
absl::Status DataLossError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kDataLoss, reason, message);
}
absl::Status ExhaustedError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kResourceExhausted, reason, message);
}
absl::Status UnavailableError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kUnavailable, reason, message);
}
absl::Status InternalError(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kInternal, reason, message);
}

absl::Status ErrnoError(int error_number, std::string_view what) {
  char buffer[128];
  std::string message(what);
  message += ": ";
  message += strerror_r(error_number, buffer, sizeof(buffer));
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return ExhaustedError("DISK_FULL",
                            message + "; free some space and run the same command again");
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return NotFoundError("FILE_MISSING", message + "; check the path");
    case EACCES:
    case EPERM:
    case EROFS:
      return Error(absl::StatusCode::kPermissionDenied, "FILE_DENIED", message);
    default:
      return Error(absl::StatusCode::kUnknown, "FILE_IO", message);
  }
}

std::string ReasonOf(const absl::Status& status) {
  if (status.ok()) return "";
  if (auto payload = status.GetPayload(kReasonUrl)) return std::string(*payload);
  return "UNKNOWN";
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  std::string message(context);
  message += ": ";
  message += MessageOf(status);
  absl::Status annotated(status.code(), View(message));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace assay
