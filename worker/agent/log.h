// The agent's log: one JSON object a line on standard error.

#ifndef ASSAY_WORKER_AGENT_LOG_H_
#define ASSAY_WORKER_AGENT_LOG_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "storage/base/json.h"

namespace assay {

// {"time","level","program","msg", ...fields}. Whole lines, also when threads write at once.
// `level`: "info", "warn" or "error"; `fields` is an object or null.
void LogLine(std::string_view level, std::string_view message, const Json& fields = nullptr);

// {"code","reason","error"} of a status, to be merged into log fields.
Json LogFields(const absl::Status& status);

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_LOG_H_
