#include "client/cli/no_worker.h"

#include "fmt/format.h"

namespace assay {

std::string NoWorkerSentence(const Json& workers, const std::string& server) {
  for (const Json& worker : workers) {
    if (worker.value("state", "") == "LIVE") return "";
  }
  return fmt::format(
      "no worker is connected to {}, so the run waits until one is; start one there with: "
      "assay-worker --coordinator ADDRESS --name NAME --cache DIR",
      server);
}

void WarnWithoutWorker(const SessionOptions& options, Session* session, CliContext& context) {
  if (options.server.empty()) return;
  const absl::StatusOr<Json> workers = session->client().List("workers");
  if (!workers.ok()) return;
  const std::string sentence = NoWorkerSentence(*workers, options.server);
  if (!sentence.empty()) context.Warn(sentence);
}

}  // namespace assay
