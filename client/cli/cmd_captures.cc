// assay captures list / prune: hidden states that a coordinator keeps.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/session.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"

namespace assay {
namespace {

struct PruneOptions {
  SessionOptions session;
  std::vector<std::string> names;
  bool apply = false, sealed = false;
};

// "56/56", or what is there instead of hidden states.
std::string Held(const Json& capture) {
  const int64_t done = capture.value("contexts_done", int64_t{0});
  const int64_t total = capture.value("contexts_total", int64_t{0});
  if (done == 0 && total > 0) return fmt::format("none of {} (dropped, or not begun)", total);
  return fmt::format("{}/{}", done, total);
}

absl::StatusOr<int> RunList(const SessionOptions& options, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session, Session::OpenToRead(options, "assay captures list"));
  ASSAY_ASSIGN_OR_RETURN(const Json captures, session->client().List("captures"));
  std::vector<std::vector<std::string>> rows;
  for (const Json& capture : captures) {
    const std::string model = capture.value("model", "");
    rows.push_back({capture.value("name", "").substr(0, 25), capture.value("origin", ""),
                    model.empty() ? "-" : model.substr(0, 23), Held(capture),
                    TimeText(capture.value("create_time", int64_t{0}))});
  }
  context.PrintJson(Json{{"captures", captures}});
  context.Print(TextTable({"CAPTURE", "ORIGIN", "MODEL", "CONTEXTS", "MADE"}, rows));
  return kExitSuccess;
}

absl::StatusOr<int> RunPrune(const PruneOptions& options, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(options.session, "assay captures prune"));
  ASSAY_ASSIGN_OR_RETURN(const Json answer, session->client().PruneCaptures(
                                                options.names, options.apply, options.sealed));
  uint64_t bytes = 0;
  std::vector<std::vector<std::string>> rows;
  for (const Json& capture : answer["captures"]) {
    const auto size = capture.value("bytes", uint64_t{0});
    bytes += size;
    rows.push_back({capture.value("name", "").substr(0, 25),
                    std::to_string(capture.value("files", int64_t{0})), HumanBytes(size)});
  }
  context.PrintJson(Json{{"applied", options.apply}, {"captures", answer["captures"]}});
  if (!rows.empty()) context.Print(TextTable({"CAPTURE", "FILES", "SIZE"}, rows));
  context.Print(fmt::format("{} of {} capture{} {}", HumanBytes(bytes), rows.size(),
                            rows.size() == 1 ? "" : "s",
                            options.apply ? "dropped" : "would be dropped; give --apply to do it"));
  return kExitSuccess;
}

}  // namespace

void AddCapturesCommand(CLI::App& app, CliContext& context) {
  CLI::App* captures = AddGroup(app, "captures", "Hidden states that a coordinator keeps",
                                "  assay captures list\n"
                                "  assay captures prune --server coordinator:7070 --apply\n");
  auto list = std::make_shared<SessionOptions>();
  CLI::App* show = AddCommand(*captures, context, "list", "List captures, oldest first",
                              "  assay captures list --server coordinator:7070\n");
  AddSessionOptions(show, list.get());
  OnRun(show, context, [list, &context] { return RunList(*list, context); });

  auto options = std::make_shared<PruneOptions>();
  CLI::App* prune = AddCommand(
      *captures, context, "prune",
      "Say which captures nobody needs, and with --apply drop their hidden states.\n"
      "What a run that has not ended needs is never dropped, nor what a receipt names unless\n"
      "--sealed is given. Whatever is dropped is captured, or imported, again when it is needed.",
      "  assay captures prune\n"
      "  assay captures prune --apply --server coordinator:7070\n");
  prune->add_option("NAME", options->names, "captures/ID; default: all");
  prune->add_flag("--apply", options->apply, "Drop them; without it nothing is changed");
  prune->add_flag("--sealed", options->sealed,
                  "Also captures that receipts name: these stay valid, but a fresh run must "
                  "capture again");
  AddSessionOptions(prune, &options->session);
  OnRun(prune, context, [options, &context] { return RunPrune(*options, context); });
}

}  // namespace assay
