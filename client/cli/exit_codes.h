// Exit codes of the program assay. Documented in docs/errors.md; scripts depend on them.

#ifndef ASSAY_CLIENT_CLI_EXIT_CODES_H_
#define ASSAY_CLIENT_CLI_EXIT_CODES_H_

#include <string_view>

#include "absl/status/status.h"

namespace assay {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitRunFailed = 1;           // the work was accepted and failed
inline constexpr int kExitBadUsage = 2;            // the command line itself is wrong
inline constexpr int kExitRefusedInput = 3;        // a file, name or state was refused
inline constexpr int kExitPartly = 4;              // some candidates failed, the others are sealed
inline constexpr int kExitVerificationFailed = 5;  // a receipt or a file is not what it claims
inline constexpr int kExitUnknownKey = 6;          // valid, but for a key that was not given
inline constexpr int kExitInterrupted = 130;

// An INVALID_ARGUMENT error about the command line: exits with kExitBadUsage instead of
// kExitRefusedInput.
absl::Status UsageError(std::string_view reason, std::string_view message);

// The exit code for an error: usage errors 2; INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS,
// FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, PERMISSION_DENIED and DATA_LOSS 3; CANCELLED
// 130; everything else 1. OK gives 0.
int ExitCodeOf(const absl::Status& status);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_EXIT_CODES_H_
