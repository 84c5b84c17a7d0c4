// assay score: from models and a suite to sealed reports.

#include <algorithm>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/device_option.h"
#include "client/cli/dry_run.h"
#include "client/cli/interrupt.h"
#include "client/cli/no_worker.h"
#include "client/cli/pages.h"
#include "client/cli/run_display.h"
#include "client/cli/score_job.h"
#include "client/cli/summary_display.h"
#include "client/lib/kept_labels.h"
#include "client/lib/proto_json.h"
#include "client/lib/results.h"
#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/numeric_policy.h"

namespace assay {
namespace {

struct ScoreCommand {
  ScoreOptions options;
  std::string device = "auto", keep_captures = "reference";
  std::string out;
  std::string versus;    // label; "" = the best candidate
  bool replace = false;  // other results under the same labels are kept aside
  ScoredPart part;       // of the suite; known once it is read
  DryRunOptions dry;
  bool no_html = false;
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

// `refetched`: the run had ended before this command, so that nothing was computed now.
Json ResultDocument(const Json& run, const std::string& out, const FetchedRun& fetched,
                    bool refetched) {
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
    row["reused"] =
        fetched.statuses[i].ok() && (refetched || run["candidates"][i].value("reused", false));
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

// Why a run without any sealed candidate failed: every candidate's reason, under the first one's
// token.
absl::Status FailureOf(const Json& run) {
  absl::Status first;
  std::string sentence;
  for (const Json& candidate : run["candidates"]) {
    if (!candidate["error"].is_object()) continue;
    const absl::Status error = StatusFromErrorJson(candidate["error"]);
    const std::string label = candidate.value("label", "");
    if (first.ok()) {
      first = Annotate(error, fmt::format("candidate {}", label));
    } else {
      sentence +=
          fmt::format("\n  candidate {} [{}]: {}", label, ReasonOf(error), MessageOf(error));
    }
  }
  if (!first.ok()) {
    return Error(first.code(), ReasonOf(first), MessageOf(first) + sentence);
  }
  const absl::Status error = StatusFromErrorJson(run["error"]);
  return error.ok() ? InternalError("RUN_FAILED", "the run failed without saying why") : error;
}

std::string IdentityOf(const LocalModel& model) {
  return model.manifest.files.empty() ? "" : model.manifest.Identity();
}

// Labels of --out that hold results of other models than those given here, as far as these are
// known before a coordinator was asked, or of more of the suite.
std::vector<ChangedLabel> ChangedByInputs(const ScoreCommand& command, const ScoreInputs& inputs) {
  std::vector<LabelledIdentity> wanted;
  for (const LabelledModel& candidate : inputs.candidates) {
    wanted.push_back({candidate.label, IdentityOf(candidate.model), IdentityOf(inputs.reference)});
  }
  return FindChangedLabels(command.out, wanted, command.part);
}

// The same of a run, whose models are named by their identity.
std::vector<ChangedLabel> ChangedByRun(const ScoreCommand& command, const Json& run) {
  const auto identity = [](const Json& operand, const char* member) {
    const std::string name = operand.value(member, "");
    const std::string id = name.rfind("models/", 0) == 0 ? name.substr(7) : "";
    return IsSha256Hex(id) ? id : "";
  };
  std::vector<LabelledIdentity> wanted;
  for (const Json& candidate : run["candidates"]) {
    wanted.push_back(
        {candidate.value("label", ""), identity(candidate, "model"),
         identity(run.value("spec", Json::object()).value("reference", Json::object()), "model")});
  }
  return FindChangedLabels(command.out, wanted, command.part);
}

// Results in --out of candidates that are none of `labels`.
std::vector<ChangedLabel> OtherResults(const std::string& out,
                                       const std::vector<std::string>& labels) {
  std::vector<ChangedLabel> others;
  const auto names = ListDirectory(out);
  if (!names.ok()) return others;
  for (const std::string& name : *names) {
    const std::string report = JoinPath(JoinPath(out, name), kReportFile);
    if (!FileExists(report) || std::find(labels.begin(), labels.end(), name) != labels.end()) {
      continue;
    }
    const auto digest = Sha256File(report);
    if (digest.ok()) others.push_back({name, *digest, "it is of another candidate"});
  }
  return others;
}

// Other results under the same labels, and with --replace those of other candidates, are moved
// aside, or refuse the run.
absl::Status MakeRoom(const ScoreCommand& command, const Json& run, CliContext& context) {
  std::vector<ChangedLabel> changed = ChangedByRun(command, run);
  if (!command.replace) return RefuseChangedLabels(command.out, changed);
  std::vector<std::string> labels;
  for (const Json& candidate : run["candidates"]) labels.push_back(candidate.value("label", ""));
  for (ChangedLabel& other : OtherResults(command.out, labels)) {
    changed.push_back(std::move(other));
  }
  ASSAY_ASSIGN_OR_RETURN(const auto kept, KeepReplaced(command.out, changed));
  for (const std::string& folder : kept) {
    context.progress().Note(fmt::format("the earlier result is kept in {}", folder));
  }
  return absl::OkStatus();
}

// Drops the hidden states of models that are not to be kept; imported captures stay, so that they
// need not be uploaded again. A result stands without them, so a failure is only said.
void DropCaptures(const ScoreCommand& command, const Json& run, Session* session,
                  CliContext& context) {
  if (command.keep_captures == "all") return;
  const std::string reference = run.value("reference_capture", "");
  std::vector<std::string> names;
  const Json spec = run.value("spec", Json::object());
  const bool captured =
      !spec.value("reference", Json::object()).value("model", std::string()).empty();
  if (command.keep_captures == "none" && captured && !reference.empty()) names.push_back(reference);
  for (const Json& candidate : run["candidates"]) {
    const std::string name = candidate.value("capture", "");
    // One that failed may be wanted again by the next try.
    const bool sealed = candidate.value("state", "") == "SEALED";
    if (candidate.value("model", "").empty()) continue;
    if (sealed && !name.empty() && name != reference) names.push_back(name);
  }
  if (names.empty()) return;
  const auto dropped = session->client().PruneCaptures(names, /*apply=*/true, /*sealed=*/true);
  if (!dropped.ok()) {
    context.Warn(fmt::format("captures were not dropped: {}", MessageOf(dropped.status())));
  }
}

// Turns the ended run into output and an exit code.
absl::StatusOr<int> Finish(const ScoreCommand& command, const Json& run, bool refetched,
                           Session* session, CliContext& context) {
  if (run.value("state", "") == "CANCELLED") {
    return Error(absl::StatusCode::kAborted, "RUN_CANCELLED",
                 fmt::format("{} was cancelled; run the same command again to start anew",
                             run.value("name", "")));
  }
  if (run.value("state", "") == "FAILED") return FailureOf(run);
  ASSAY_RETURN_IF_ERROR(MakeRoom(command, run, context));
  SummaryOptions summary;
  summary.versus = command.versus;
  ASSAY_ASSIGN_OR_RETURN(const FetchedRun fetched,
                         FetchRun(
                             &session->client(), run, command.out,
                             [&](size_t done, size_t n) {
                               context.progress().Update("fetch results", "candidates", done, n);
                             },
                             summary));
  context.progress().End();
  DropCaptures(command, run, session, context);
  session->Stop();
  context.PrintJson(ResultDocument(run, command.out, fetched, refetched));
  PrintSummaryTable(fetched.summary.json, fetched.candidates, context);
  PrintWhere(command.out, context);
  LeaveResultPages({command.out, "", command.options.suite, command.options.reference},
                   command.no_html, fetched.candidates, context);
  for (size_t i = 0; i < fetched.statuses.size(); ++i) {
    if (fetched.statuses[i].ok()) continue;
    context.Warn(fmt::format("candidate {} failed [{}]: {}", fetched.candidates[i].label,
                             ReasonOf(fetched.statuses[i]), MessageOf(fetched.statuses[i])));
  }
  return fetched.sealed == fetched.candidates.size() ? kExitSuccess : kExitPartly;
}

absl::StatusOr<int> RunScore(ScoreCommand& command, CliContext& context) {
  ASSAY_RETURN_IF_ERROR(ApplyDevice(command.device, &command.options.backend));
  const ScoreOptions& options = command.options;
  ASSAY_ASSIGN_OR_RETURN(ScoreInputs inputs, ParseScoreInputs(options));
  std::vector<std::string> labels;
  for (const LabelledModel& candidate : inputs.candidates) labels.push_back(candidate.label);
  if (!command.versus.empty()) ASSAY_RETURN_IF_ERROR(CheckLabelGiven(command.versus, labels));
  if (command.dry.asked) {
    return DryRun(options, command.dry, command.out, std::move(inputs), context);
  }
  std::vector<std::string> allowed = labels;
  if (command.replace) {
    for (const ChangedLabel& other : OtherResults(command.out, labels)) {
      allowed.push_back(other.label);
    }
  }
  ASSAY_RETURN_IF_ERROR(CheckOutFolder(command.out, allowed));
  ASSAY_RETURN_IF_ERROR(CheckOutPolicy(command.out, options.policy, options.backend));
  ASSAY_RETURN_IF_ERROR(ReadScoreInputs(options, &inputs, context));
  ASSAY_RETURN_IF_ERROR(CheckOutSuite(command.out, inputs.suite.suite_token_sha256));
  command.part = PartOf(options, inputs);
  if (!command.replace) {
    ASSAY_RETURN_IF_ERROR(RefuseChangedLabels(command.out, ChangedByInputs(command, inputs)));
  }
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
                         CreateScoreRun(options, &inputs, session.get(), context));
  const std::string name = created.value("name", "");
  const bool existing = created.value("existing", false);
  if (RunHasEnded(created)) {
    // A new run has ended already when earlier ones did all of it, or every candidate is refused.
    if (existing || created.value("state", "") == "SUCCEEDED") {
      context.progress().Note(fmt::format("  {} did this very work before; its results are fetched",
                                          existing ? name : "an earlier run"));
    }
    return Finish(command, WithRefused(created, inputs), existing, session.get(), context);
  }
  if (existing) {
    context.progress().Note(fmt::format("  {} was asked for before and goes on", name));
  }
  ASSAY_RETURN_IF_ERROR(session->StartWorkers());
  WarnWithoutWorker(options.session, session.get(), context);
  RunDisplay display(&context.progress());
  const absl::StatusOr<Json> run = session->client().WatchRun(
      name, [&](const Json& event) { display.OnEvent(event); },
      [&] { return session->CheckGoOn(); });
  if (!run.ok() && Interrupted()) return Interrupt(command, name, session.get());
  if (!run.ok()) return run.status();
  display.End();
  return Finish(command, WithRefused(*run, inputs), /*refetched=*/false, session.get(), context);
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
  sub->add_option("--versus", command->versus,
                  "Label of the candidate that the others are compared with; default: the one with "
                  "the smallest mean KLD");
  sub->add_flag(
      "--replace", command->replace,
      "Where --out holds a result of another model, or of more contexts, under the same label, or "
      "results of other candidates, keep them in OUT/replaced and write the new ones");
  AddDryRunOptions(sub, &command->dry);
  AddNoHtmlOption(sub, &command->no_html);
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
  AddDeviceOption(sub, &command->device)->excludes(server);
  sub->add_option("--keep-captures", command->keep_captures,
                  "Which of the run's hidden states the store keeps once all is sealed: reference, "
                  "all or none. What another run needs stays in any case")
      ->check(CLI::IsMember({"reference", "all", "none"}))
      ->capture_default_str();
  OnRun(sub, context, [command, &context] { return RunScore(*command, context); });
}

}  // namespace assay
