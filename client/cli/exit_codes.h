// Exit codes of the program assay. Documented in docs/errors.md; scripts depend on them.

#ifndef ASSAY_CLIENT_CLI_EXIT_CODES_H_
#define ASSAY_CLIENT_CLI_EXIT_CODES_H_

#include "absl/status/status.h"

namespace assay {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitRunFailed = 1;           // the work was accepted and failed
inline constexpr int kExitBadUsage = 2;            // the command line itself is wrong
inline constexpr int kExitRefusedInput = 3;        // a file, name or state was refused
inline constexpr int kExitPartly = 4;              // some candidates failed, the others are sealed
inline constexpr int kExitVerificationFailed = 5;  // a receipt or a file is not what it claims
inline constexpr int kExitUnknownKey = 6;          // valid, but for a key that was not given
inline constexpr int kExitBoundNotMet = 7;         // a bound of assay report check is not met
inline constexpr int kExitInterrupted = 130;

// The exit code for an error. A reason token has one class, whichever command or program finds the
// fault: those that the table in exit_codes.cc lists by their reason, all others by their code
// (INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED,
// PERMISSION_DENIED and DATA_LOSS 3; CANCELLED 130; everything else 1). OK gives 0.
int ExitCodeOf(const absl::Status& status);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_EXIT_CODES_H_
