// Errors of Assay: an absl::Status with a stable reason token.
//
// Every error that a person or a script can meet carries a token in UPPER_SNAKE (docs/errors.md
// lists them) and a sentence that names the file, field or position and says what to do. The token
// travels as a status payload, so it survives wrapping, and is what the wire and the command line
// show. Public signatures use std:: types: Debian's absl::string_view is not std::string_view.

#ifndef ASSAY_STORAGE_BASE_STATUS_H_
#define ASSAY_STORAGE_BASE_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

// An error of `code` with `reason` (UPPER_SNAKE) and a sentence for people. `code` must not be kOk.
absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message);

// Shorthands for the common codes.
absl::Status InvalidError(std::string_view reason,
                          std::string_view message);  // kInvalidArgument: bad input
absl::Status NotFoundError(std::string_view reason, std::string_view message);  // kNotFound
absl::Status PreconditionError(std::string_view reason,
                               std::string_view message);  // kFailedPrecondition
absl::Status DataLossError(std::string_view reason,
                           std::string_view message);  // kDataLoss: stored bytes are wrong
absl::Status ExhaustedError(std::string_view reason,
                            std::string_view message);  // kResourceExhausted
absl::Status UnavailableError(std::string_view reason,
                              std::string_view message);  // kUnavailable: try again
absl::Status InternalError(std::string_view reason, std::string_view message);  // kInternal: a bug

// errno as an error: `what` says what was attempted on which file. ENOSPC and EDQUOT become
// DISK_FULL (kResourceExhausted), ENOENT FILE_MISSING, EACCES/EPERM FILE_DENIED, others FILE_IO.
absl::Status ErrnoError(int error_number, std::string_view what);

// The reason token of `status`; "" when OK, "UNKNOWN" when none was attached.
std::string ReasonOf(const absl::Status& status);

// `status` with "context: " before its message; code, reason and all other payloads stay. OK stays
// OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// The message as std::string (absl's accessor returns its own string_view type).
std::string MessageOf(const absl::Status& status);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_STATUS_H_
