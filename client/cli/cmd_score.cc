// assay score: from models and a suite to sealed reports.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/run_display.h"
#include "client/cli/score_job.h"
#include "client/lib/proto_json.h"
#include "client/lib/results.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/numeric_policy.h"

namespace assay {
namespace {

struct ScoreCommand {
  ScoreOptions options;
  std::string out;
};

// What to say, and do, when Ctrl-C has ended the watch.
absl::Status Interrupt(const ScoreCommand& command, const std::string& run, Session* session) {
  if (!session->embedded()) {
    return InterruptedError(fmt::format(
        "stopped watching; {0} goes on at {1}. Run the same command again to fetch its results, "
        "or: assay cancel {0} --server {1}",
        run, session->client().address()));
  }
  session->client().CancelRun(run).status().IgnoreError();
  session->Stop();
  return InterruptedError(
      fmt::format("stopped; run the same command again to go on, the finished "
                  "captures are kept in {}",
                  session->data_dir()));
}

Json ResultDocument(const Json& run, const std::string& out, const FetchedRun& fetched) {
  Json document;
  document["run"] = run.value("name", "");
  document["state"] = run.value("state", "");
  document["partial"] = run.value("partial", false);
  document["out"] = out;
  document["candidates"] = Json::array();
  for (size_t i = 0; i < fetched.candidates.size(); ++i) {
    const SummaryCandidate& candidate = fetched.candidates[i];
    Json row;
    row["label"] = candidate.label;
    row["sealed"] = fetched.statuses[i].ok();
    row["reused"] = run["candidates"][i].value("reused", false);
    row["report_sha256"] = candidate.report_sha256;
    row["receipt_id"] = candidate.receipt_id;
    row["folder"] = JoinPath(out, candidate.label);
    row["error"] =
        fetched.statuses[i].ok() ? Json(nullptr) : ErrorJson(fetched.statuses[i])["error"];
    document["candidates"].push_back(std::move(row));
  }
  document["summary"] = fetched.summary.json;
  return document;
}

void PrintWhere(const std::string& out, CliContext& context) {
  context.Print("");
  context.Print(
      fmt::format("Results  {}  (summary.json, summary.csv, summary.md, VERIFY.md)", out));
  context.Print(fmt::format("Check    assay verify {0} --key {0}/key.pub", out));
}

// Turns the ended run into output and an exit code.
absl::StatusOr<int> Finish(const ScoreCommand& command, const Json& run, Session* session,
                           CliContext& context) {
  if (run.value("state", "") == "CANCELLED") {
    return Error(absl::StatusCode::kAborted, "RUN_CANCELLED",
                 fmt::format("{} was cancelled; run the same command again to start anew",
                             run.value("name", "")));
  }
  if (run.value("state", "") == "FAILED") {
    for (const Json& candidate : run["candidates"]) {
      if (!candidate["error"].is_object()) continue;
      return Annotate(StatusFromErrorJson(candidate["error"]),
                      fmt::format("candidate {}", candidate.value("label", "")));
    }
    const absl::Status error = StatusFromErrorJson(run["error"]);
    return error.ok() ? InternalError("RUN_FAILED", "the run failed without saying why") : error;
  }
  ASSAY_ASSIGN_OR_RETURN(const FetchedRun fetched,
                         FetchRun(&session->client(), run, command.out, [&](size_t done, size_t n) {
                           context.progress().Update("fetch results", "candidates", done, n);
                         }));
  context.progress().End();
  session->Stop();
  context.PrintJson(ResultDocument(run, command.out, fetched));
  context.Print(fetched.summary.table);
  PrintWhere(command.out, context);
  for (size_t i = 0; i < fetched.statuses.size(); ++i) {
    if (fetched.statuses[i].ok()) continue;
    context.Warn(fmt::format("candidate {} failed [{}]: {}", fetched.candidates[i].label,
                             ReasonOf(fetched.statuses[i]), MessageOf(fetched.statuses[i])));
  }
  return fetched.sealed == fetched.candidates.size() ? kExitSuccess : kExitPartly;
}

absl::StatusOr<int> RunScore(const ScoreCommand& command, CliContext& context) {
  const ScoreOptions& options = command.options;
  ASSAY_ASSIGN_OR_RETURN(ScoreInputs inputs, ParseScoreInputs(options));
  std::vector<std::string> labels;
  for (const LabelledModel& candidate : inputs.candidates) labels.push_back(candidate.label);
  ASSAY_RETURN_IF_ERROR(CheckOutFolder(command.out, labels));
  ASSAY_RETURN_IF_ERROR(CheckOutPolicy(command.out, options.policy, options.backend));
  ASSAY_RETURN_IF_ERROR(ReadScoreInputs(options, &inputs, context));
  ASSAY_RETURN_IF_ERROR(CheckOutSuite(command.out, inputs.suite.suite_token_sha256));
  std::string where = options.session.server;
  if (where.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const std::string data_dir, ResolveDataDir(options.session.data));
    ASSAY_RETURN_IF_ERROR(CheckDiskSpace(inputs, data_dir));
    where = fmt::format("this machine, {} worker{} of {} rank{}, data in {}",
                        options.session.workers, options.session.workers == 1 ? "" : "s",
                        options.session.tp, options.session.tp == 1 ? "" : "s", data_dir);
  }
  context.progress().Note(fmt::format("Scoring {}\n     on {}", DescribeRun(inputs), where));
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::Open(options.session, "assay score", ModelRoots(inputs)));
  ASSAY_ASSIGN_OR_RETURN(const Json created,
                         CreateScoreRun(options, inputs, session.get(), context));
  const std::string name = created.value("name", "");
  if (RunHasEnded(created)) {
    context.progress().Note(
        fmt::format("  {} did this very work before; its results are fetched", name));
    return Finish(command, created, session.get(), context);
  }
  if (created.value("existing", false)) {
    context.progress().Note(fmt::format("  {} was asked for before and goes on", name));
  }
  ASSAY_RETURN_IF_ERROR(session->StartWorkers());
  RunDisplay display(&context.progress());
  const absl::StatusOr<Json> run = session->client().WatchRun(
      name, [&](const Json& event) { display.OnEvent(event); },
      [&] { return session->CheckGoOn(); });
  if (!run.ok() && Interrupted()) return Interrupt(command, name, session.get());
  if (!run.ok()) return run.status();
  display.End();
  return Finish(command, *run, session.get(), context);
}

}  // namespace

void AddScoreCommand(CLI::App& app, CliContext& context) {
  auto command = std::make_shared<ScoreCommand>();
  CLI::App* sub = AddCommand(
      app, context, "score",
      "Score candidates against a reference model over a suite: capture, compare, seal.\n"
      "Without --server this machine does everything; the same command again resumes, or returns\n"
      "the existing result.",
      "  assay score --reference model.gguf --candidate int4=model.gguf@rtn:bits=4,group=32 \\\n"
      "      --candidate int8=model.gguf@rtn:bits=8,group=channel --suite suite --out result\n"
      "  assay score --reference bf16-folder --candidate q4_0.gguf --suite suite --out result --tp "
      "2\n"
      "  assay score --reference models/base --candidate models/base@rtn:bits=4,group=32 \\\n"
      "      --suite suite --out result --server coordinator:7070 --json\n");
  AddScoreOptions(sub, &command->options);
  sub->add_option("--out", command->out, "Folder for the results")->required();
  SessionOptions& session = command->options.session;
  AddSessionOptions(sub, &session);
  CLI::Option* server = sub->get_option("--server");
  sub->add_option("--workers", session.workers, "Workers on this machine")
      ->check(CLI::Range(1, kEmbeddedWorkersMax))
      ->excludes(server)
      ->capture_default_str();
  sub->add_option("--tp", session.tp, "Ranks that work on a unit together: 1, 2, 4 or 8")
      ->check(CLI::IsMember({1, 2, 4, 8}))
      ->excludes(server)
      ->capture_default_str();
  sub->add_option("--threads", session.threads,
                  "Threads of each rank (0: the CPUs this process may use, shared out)")
      ->check(CLI::Range(0, 1024))
      ->excludes(server)
      ->capture_default_str();
  OnRun(sub, context, [command, &context] { return RunScore(*command, context); });
}

}  // namespace assay
