// assay runs disputes: results of workers that disagree, and the bytes of each.

#include "client/cli/cmd_disputes.h"

#include <memory>

#include "client/cli/session.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

struct DisputesCommand {
  SessionOptions session;
  std::string run, out;
};

// What of a result tells it apart in a list and in a folder's name.
std::string Short(const Json& result) { return result.value("sha256", "").substr(0, 12); }

// The last part of a name as one element of a path, whatever the coordinator says.
std::string Element(const std::string& name) {
  std::string out = BaseName(name);
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  if (out.empty() || out[0] == '.') out.insert(0, "_");
  return out;
}

// DIR/UNIT/WORKER-DIGEST/: result.json, of which DIGEST is the beginning of the SHA-256, and the
// files that it names, each under its own digest.
absl::Status Fetch(Client* client, const Json& dispute, const std::string& out) {
  const std::string unit = JoinPath(out, Element(dispute.value("unit", "")));
  for (const Json& result : dispute["results"]) {
    const std::string dir =
        JoinPath(unit, Element(result.value("worker", "")) + "-" + Element(Short(result)));
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(dir));
    ASSAY_ASSIGN_OR_RETURN(const std::string document, CanonicalJson(result["result"]));
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(dir, "result.json"), document));
    for (const Json& blob : result["blobs"]) {
      const std::string sha256 = blob.value("sha256", "");
      ASSAY_RETURN_IF_ERROR(client->blobs().Download(sha256, JoinPath(dir, Element(sha256))));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunDisputes(const DisputesCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay runs disputes"));
  const bool bare = !command.run.empty() && command.run.rfind("runs/", 0) != 0;
  ASSAY_ASSIGN_OR_RETURN(
      const Json disputes,
      WithListAdvice(session->client().ListDisputes((bare ? "runs/" : "") + command.run),
                     "runs list", command.session.server));
  std::vector<std::vector<std::string>> rows;
  for (const Json& dispute : disputes) {
    for (const Json& result : dispute["results"]) {
      rows.push_back({dispute.value("unit", ""), dispute.value("kind", ""),
                      dispute.value("state", ""), result.value("worker", ""), Short(result),
                      result.value("accepted", false) ? "accepted" : "differs",
                      TimeText(result.value("time", int64_t{0}))});
    }
    if (!command.out.empty()) {
      ASSAY_RETURN_IF_ERROR(Fetch(&session->client(), dispute, command.out));
    }
  }
  context.PrintJson(Json{{"disputes", disputes}});
  if (rows.empty()) {
    context.Print("no worker's result differs from another's\n");
    return kExitSuccess;
  }
  context.Print(TextTable({"UNIT", "KIND", "DISPUTE", "WORKER", "RESULT", "", "WHEN"}, rows));
  if (!command.out.empty()) {
    context.Print(fmt::format("the results and their files are in {}\n", command.out));
  }
  return kExitSuccess;
}

}  // namespace

void AddDisputesCommand(CLI::App& runs, CliContext& context) {
  auto command = std::make_shared<DisputesCommand>();
  CLI::App* sub = AddCommand(
      runs, context, "disputes",
      "List units for which workers returned different results: who returned which bytes",
      "  assay runs disputes --server coordinator:7070\n"
      "  assay runs disputes runs/1a2b --server coordinator:7070 --out evidence\n");
  sub->add_option("RUN", command->run, "runs/ID or ID; all runs without it");
  sub->add_option("--out", command->out,
                  "Fetch every result and its files: DIR/UNIT/WORKER-DIGEST/")
      ->option_text("DIR");
  AddSessionOptions(sub, &command->session);
  OnRun(sub, context, [command, &context] { return RunDisputes(*command, context); });
}

}  // namespace assay
