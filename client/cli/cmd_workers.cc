// assay workers: who works for a coordinator.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/session.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/macros.h"

namespace assay {
namespace {

absl::StatusOr<int> RunWorkers(const SessionOptions& options, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session, Session::OpenToRead(options, "assay workers"));
  ASSAY_ASSIGN_OR_RETURN(const Json workers, session->client().List("workers"));
  std::vector<std::vector<std::string>> rows;
  for (const Json& worker : workers) {
    rows.push_back({worker.value("name", ""), worker.value("state", ""), worker["tp"].dump(),
                    std::to_string(worker["leases"].size()),
                    worker.value("replay_identity_sha256", "").substr(0, 12),
                    worker.value("capture_identity_sha256", "").substr(0, 12),
                    TimeText(worker.value("last_seen", int64_t{0}))});
  }
  context.PrintJson(Json{{"workers", workers}});
  context.Print(TextTable(
      {"WORKER", "STATE", "RANKS", "LEASES", "REPLAY KERNELS", "CAPTURE KERNELS", "LAST SEEN"},
      rows));
  return kExitSuccess;
}

}  // namespace

void AddWorkersCommand(CLI::App& app, CliContext& context) {
  auto options = std::make_shared<SessionOptions>();
  CLI::App* command =
      AddCommand(app, context, "workers", "List the workers of a coordinator and their kernels",
                 "  assay workers --server coordinator:7070\n");
  AddServerOptions(command, options.get())->required();
  OnRun(command, context, [options, &context] { return RunWorkers(*options, context); });
}

}  // namespace assay
