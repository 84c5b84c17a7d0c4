// A run at a coordinator that nobody works for: said at once, since it would wait in silence.

#ifndef ASSAY_CLIENT_CLI_NO_WORKER_H_
#define ASSAY_CLIENT_CLI_NO_WORKER_H_

#include <string>

#include "client/cli/command.h"
#include "client/cli/session.h"
#include "storage/base/json.h"

namespace assay {

// The warning for a coordinator at `server` with these workers (client.h, List("workers")); ""
// when one of them is live.
std::string NoWorkerSentence(const Json& workers, const std::string& server);

// Warns where `options` name a coordinator without a live worker. A coordinator that cannot be
// asked is left to the next call.
void WarnWithoutWorker(const SessionOptions& options, Session* session, CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_NO_WORKER_H_
