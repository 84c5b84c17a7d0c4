// Refusals: statuses that name operand, context, position and column, in sentence and in fields.

#ifndef ASSAY_WORKER_REPLAY_REFUSAL_H_
#define ASSAY_WORKER_REPLAY_REFUSAL_H_

#include <string_view>

#include "absl/status/status.h"
#include "worker/replay/replay.h"

namespace assay {

inline constexpr std::string_view kNonFiniteInput = "NON_FINITE_INPUT";
inline constexpr std::string_view kNoFiniteColumn = "NO_FINITE_COLUMN";
inline constexpr std::string_view kTokenOutOfRange = "TOKEN_OUT_OF_RANGE";
inline constexpr std::string_view kInfinitePosition = "INFINITE_POSITION";

// INVALID_ARGUMENT with refusal.reason; `what` says what was found ("the logit is NaN or +inf").
absl::Status Refuse(const ReplayRefusal& refusal, std::string_view what);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_REFUSAL_H_
