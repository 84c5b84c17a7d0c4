// assay runs, watch, cancel: runs of a coordinator.

#include <memory>

#include "client/cli/cmd_disputes.h"
#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/no_worker.h"
#include "client/cli/run_display.h"
#include "client/cli/session.h"
#include "client/cli/tables.h"
#include "client/lib/proto_json.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

struct RunCommand {
  SessionOptions session;
  std::string name;
};

// "runs/ID" of ID or runs/ID.
std::string RunName(const std::string& text) {
  return text.rfind("runs/", 0) == 0 ? text : "runs/" + text;
}

// Done and all of what a run needs: models read, captures (those shared with other runs too),
// repeats and comparisons. What a coordinator counts itself are the comparisons alone.
struct UnitCount {
  int64_t done = 0, total = 0;
};

UnitCount CountUnits(const Json& units) {
  UnitCount count;
  for (const Json& unit : units) {
    const std::string state = unit.value("state", "");
    if (state == "DROPPED") continue;
    ++count.total;
    count.done += state == "DONE";
  }
  return count;
}

absl::StatusOr<UnitCount> CountUnitsOf(Client* client, const Json& run) {
  ASSAY_ASSIGN_OR_RETURN(const Json units, client->ListUnits(run.value("name", "")));
  return CountUnits(units);
}

std::string RunText(const Json& run, const UnitCount& units) {
  std::string text = fmt::format("{}  {}{}\n", run.value("name", ""), run.value("state", ""),
                                 run.value("partial", false) ? " (some candidates failed)" : "");
  text += fmt::format("created {}  ended {}  units {}/{}\n",
                      TimeText(run.value("create_time", int64_t{0})),
                      TimeText(run.value("end_time", int64_t{0})), units.done, units.total);
  std::vector<std::vector<std::string>> rows;
  for (const Json& candidate : run["candidates"]) {
    const Json& error = candidate["error"];
    rows.push_back({candidate.value("label", ""), candidate.value("state", ""),
                    error.is_object() ? fmt::format("[{}] {}", error.value("reason", ""),
                                                    error.value("message", ""))
                                      : candidate.value("report", "")});
  }
  return text + TextTable({"CANDIDATE", "STATE", "REPORT OR ERROR"}, rows);
}

absl::StatusOr<int> ListRuns(const RunCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay runs list"));
  ASSAY_ASSIGN_OR_RETURN(const Json runs, session->client().List("runs"));
  std::vector<std::vector<std::string>> rows;
  for (const Json& run : runs) {
    ASSAY_ASSIGN_OR_RETURN(const UnitCount units, CountUnitsOf(&session->client(), run));
    rows.push_back({run.value("name", ""), run.value("state", ""),
                    TimeText(run.value("create_time", int64_t{0})),
                    fmt::format("{}/{}", units.done, units.total),
                    std::to_string(run["candidates"].size())});
  }
  context.PrintJson(Json{{"runs", runs}});
  context.Print(TextTable({"RUN", "STATE", "CREATED", "UNITS", "CANDIDATES"}, rows));
  return kExitSuccess;
}

absl::StatusOr<int> ShowRun(const RunCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay runs show"));
  const std::string name = RunName(command.name);
  ASSAY_ASSIGN_OR_RETURN(const Json run, WithListAdvice(session->client().GetRun(name), "runs list",
                                                        command.session.server));
  ASSAY_ASSIGN_OR_RETURN(const Json units, session->client().ListUnits(name));
  context.PrintJson(Json{{"run", run}, {"units", units}});
  context.Print(RunText(run, CountUnits(units)));
  std::vector<std::vector<std::string>> rows;
  for (const Json& unit : units) {
    rows.push_back({unit.value("name", ""), unit.value("kind", ""), unit.value("state", ""),
                    std::to_string(unit.value("attempt", int64_t{0})), unit.value("worker", "")});
  }
  if (!rows.empty()) context.Print(TextTable({"UNIT", "KIND", "STATE", "ATTEMPT", "WORKER"}, rows));
  return kExitSuccess;
}

absl::StatusOr<int> Cancel(const RunCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session, Session::OpenToRead(command.session, "assay cancel"));
  ASSAY_ASSIGN_OR_RETURN(const Json run,
                         WithListAdvice(session->client().CancelRun(RunName(command.name)),
                                        "runs list", command.session.server));
  context.PrintJson(run);
  context.Print(fmt::format("{}  {}", run.value("name", ""), run.value("state", "")));
  return kExitSuccess;
}

absl::StatusOr<int> Watch(const RunCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session, Session::Open(command.session, "assay watch", {}));
  const std::string name = RunName(command.name);
  const absl::StatusOr<Json> now = session->client().GetRun(name);
  if (now.ok() && !RunHasEnded(*now)) {
    WarnWithoutWorker(command.session, session.get(), context);
  }
  RunDisplay display(&context.progress());
  const absl::StatusOr<Json> run = session->client().WatchRun(
      name, [&](const Json& event) { display.OnEvent(event); },
      [&] { return session->CheckGoOn(); });
  if (!run.ok() && Interrupted()) {
    return InterruptedError(fmt::format("stopped watching; {} goes on", name));
  }
  if (!run.ok()) return WithListAdvice(run, "runs list", command.session.server).status();
  display.End();
  context.PrintJson(*run);
  ASSAY_ASSIGN_OR_RETURN(const UnitCount units, CountUnitsOf(&session->client(), *run));
  context.Print(RunText(*run, units));
  const std::string state = run->value("state", "");
  if (state != "SUCCEEDED") {
    const absl::Status error = StatusFromErrorJson((*run)["error"]);
    return error.ok() ? kExitRunFailed : ExitCodeOf(error);
  }
  return run->value("partial", false) ? kExitPartly : kExitSuccess;
}

CLI::App* AddOne(CLI::App& parent, CliContext& context, const std::string& name,
                 const std::string& description, const std::string& examples,
                 absl::StatusOr<int> (*run)(const RunCommand&, CliContext&), bool takes_name,
                 bool needs_server) {
  auto command = std::make_shared<RunCommand>();
  CLI::App* sub = AddCommand(parent, context, name, description, examples);
  if (takes_name) sub->add_option("RUN", command->name, "runs/ID or ID")->required();
  if (needs_server) {
    AddServerOptions(sub, &command->session)->required();
  } else {
    AddSessionOptions(sub, &command->session);
  }
  OnRun(sub, context, [command, run, &context] { return run(*command, context); });
  return sub;
}

}  // namespace

void AddRunsCommand(CLI::App& app, CliContext& context) {
  CLI::App* runs = AddOne(app, context, "runs", "List runs, newest first, or show one",
                          "  assay runs\n  assay runs --server coordinator:7070 --json\n"
                          "  assay runs show runs/1a2b --server coordinator:7070\n",
                          ListRuns, false, false);
  runs->require_subcommand(0, 1);
  AddOne(*runs, context, "list", "List runs, newest first", "  assay runs list\n", ListRuns, false,
         false);
  AddOne(*runs, context, "show", "Show a run, its candidates and units",
         "  assay runs show runs/1a2b --server coordinator:7070\n", ShowRun, true, false);
  AddDisputesCommand(*runs, context);
}

void AddWatchCommand(CLI::App& app, CliContext& context) {
  AddOne(app, context, "watch",
         "Follow a run until it ends. Exit code as for score; Ctrl-C leaves the run alone.",
         "  assay watch runs/1a2b --server coordinator:7070\n", Watch, true, true);
}

void AddCancelCommand(CLI::App& app, CliContext& context) {
  AddOne(app, context, "cancel", "Cancel a run. What it has captured so far stays for later runs.",
         "  assay cancel runs/1a2b --server coordinator:7070\n", Cancel, true, false);
}

}  // namespace assay
