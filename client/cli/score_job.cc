#include "client/cli/score_job.h"

#include <algorithm>
#include <cstdlib>

#include "client/cli/interrupt.h"
#include "client/cli/numeric_options.h"
#include "client/cli/score_operands.h"
#include "client/cli/tokenizer_check.h"
#include "client/lib/channel.h"
#include "fmt/format.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/digest_cache.h"
#include "storage/report/numeric_policy.h"

namespace assay {
namespace {

constexpr int kRequestAttemptsMax = 1000;
constexpr uint64_t kDiskMarginBytes = uint64_t{512} << 20;  // store, logs, ballast
constexpr uint64_t kHiddenGuess = 1024;                     // columns, when the suite does not say
constexpr uint64_t kPositionBytes = 9 * 8 + 5 * 4;

// OK while a candidate is left; else every reason, under the token of the first.
absl::Status NoneLeft(const std::vector<LabelledModel>& candidates) {
  for (const LabelledModel& candidate : candidates) {
    if (candidate.status.ok()) return absl::OkStatus();
  }
  const absl::Status& first = candidates.front().status;
  if (candidates.size() == 1) return first;
  std::string text = fmt::format("candidate {}: {}", candidates[0].label, MessageOf(first));
  for (size_t i = 1; i < candidates.size(); ++i) {
    text += fmt::format("\n  candidate {} [{}]: {}", candidates[i].label,
                        ReasonOf(candidates[i].status), MessageOf(candidates[i].status));
  }
  return Error(first.code(), ReasonOf(first), text);
}

absl::Status CheckChoices(const ScoreOptions& options) {
  ASSAY_RETURN_IF_ERROR(CheckNumericPolicy(options.policy));
  for (const std::string& head : options.heads) {
    if (head == "own" || head == "shared") continue;
    return InvalidError("HEADS_INVALID",
                        fmt::format("\"{}\" is no head policy; --heads takes own, shared or "
                                    "own,shared",
                                    head));
  }
  return absl::OkStatus();
}

std::string Describe(const LocalModel& model) {
  const std::string name = model.remote_name.empty() ? BaseName(model.path)
                           : model.is_capture        ? "captures/" + model.remote_name
                                                     : "models/" + model.remote_name;
  return model.transform.empty() ? name : name + "@" + model.transform;
}

Json OperandJson(const RunOperand& operand) {
  if (operand.capture.empty()) return operand.model;
  return {{"capture", operand.capture},
          {"head", operand.head},
          {"origin", operand.head_origin_json},
          {"bias", operand.bias_file}};
}

// What the request asks for, so that the same request has the same id.
absl::StatusOr<std::string> RequestDigest(const RunRequest& request) {
  Json content;
  content["suite"] = request.suite;
  content["filter"] = request.filter;
  content["reference"] = OperandJson(request.reference);
  content["reference_label"] = request.reference_label;
  content["candidates"] = Json::array();
  for (const RunRequest::Candidate& candidate : request.candidates) {
    content["candidates"].push_back(
        {{"label", candidate.label}, {"model", OperandJson(candidate.source)}});
  }
  content["heads"] = request.heads;
  content["policy"] = request.numeric_policy;
  if (!request.backend.empty()) content["backend"] = request.backend;
  for (const auto& [name, value] : {std::pair("logit_scale", request.logit_scale),
                                    {"softcap", request.softcap},
                                    {"valid_vocab", static_cast<double>(request.valid_vocab)},
                                    {"score_from", static_cast<double>(request.score_from)},
                                    {"vocab_chunk", static_cast<double>(request.vocab_chunk)},
                                    {"limit", static_cast<double>(request.limit)},
                                    {"allow_infinite", request.allow_infinite ? 1.0 : 0.0}}) {
    if (value != 0) content[name] = value;
  }
  content["unit_contexts"] = request.unit_contexts;
  content["fresh"] = request.fresh;
  if (request.fresh) {
    content["nonce"] = fmt::format("{}-{}", Clock::Real()->UnixMillis(), getpid());
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string text, CanonicalJson(content));
  return Sha256Hex(text);
}

}  // namespace

// Remembered for a user, not for a data directory: models are shared.
std::string DigestCachePath() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  if (xdg != nullptr && xdg[0] == '/') {
    folder = JoinPath(xdg, "assay");
  } else if (home != nullptr && home[0] == '/') {
    folder = JoinPath(home, ".cache/assay");
  }
  if (folder.empty() || !EnsureDirectory(folder).ok()) return "";
  return JoinPath(folder, "digests.json");
}

void AddScoreOptions(CLI::App* command, ScoreOptions* options) {
  command
      ->add_option("--reference,--base", options->reference,
                   "Reference: a model (GGUF file, Hugging Face folder or models/NAME), or a "
                   "capture directory or captures/NAME with --head")
      ->required();
  command
      ->add_option("--candidate", options->candidates,
                   "Candidate [LABEL=]MODEL[@TRANSFORM] or [LABEL=]CAPTURE; may be given several "
                   "times. TRANSFORM: rtn:bits=B[,group=N] (without group: one scale per output "
                   "channel)")
      ->required()
      ->expected(1, 64);
  command->add_option("--suite", options->suite, "Suite folder (suite-manifest.json and tokens)")
      ->required();
  command->add_option("--filter", options->filter, "Contexts: all, sentinel or a partition's name")
      ->capture_default_str();
  command
      ->add_option("--heads", options->heads,
                   "own (as served), shared (body only) or own,shared; default: own, and shared "
                   "where the heads differ")
      ->delimiter(',');
  AddHeadOptions(command, &options->captured_heads);
  AddMetricOptions(command, &options->metric);
  AddNumericOptions(command, &options->policy, &options->backend);
  command
      ->add_option("--unit-contexts", options->unit_contexts,
                   "Contexts per unit of work; never changes a result (0: the default)")
      ->check(CLI::Range(0, 4096));
  command->add_flag("--fresh", options->fresh,
                    "Compute anew even when the same work is sealed already");
}

absl::StatusOr<ScoreInputs> ParseScoreInputs(const ScoreOptions& options) {
  ASSAY_RETURN_IF_ERROR(CheckChoices(options));
  ScoreInputs inputs;
  ASSAY_ASSIGN_OR_RETURN(inputs.candidates, ParseCandidates(options.candidates));
  ASSAY_ASSIGN_OR_RETURN(inputs.reference, ParseModelArgument(options.reference));
  ASSAY_RETURN_IF_ERROR(
      CheckHeadOptions(options.captured_heads, inputs.reference, inputs.candidates));
  return inputs;
}

absl::Status ReadScoreInputs(const ScoreOptions& options, ScoreInputs* inputs,
                             CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(inputs->suite, ReadSuite(options.suite));
  ASSAY_ASSIGN_OR_RETURN(inputs->selected, SelectContexts(inputs->suite, options.filter));
  inputs->limit = options.metric.limit;
  inputs->selected = LimitContexts(inputs->suite, inputs->selected, inputs->limit);
  ASSAY_ASSIGN_OR_RETURN(const auto digests, DigestCache::Open(DigestCachePath()));
  const auto read = [&](LocalModel* model) -> absl::Status {
    if (Interrupted()) return InterruptedError("stopped while the inputs were checked");
    if (!model->remote_name.empty()) return absl::OkStatus();
    if (model->is_capture) {
      return OpenScoreCapture(inputs->suite, options.filter, inputs->limit, model);
    }
    const std::string difference =
        TokenizerDifference(inputs->suite.manifest, model->path, digests.get());
    if (!difference.empty()) context.Warn(difference);
    return DigestModel(digests.get(), model);
  };
  context.progress().Begin("check inputs", "");
  ASSAY_RETURN_IF_ERROR(read(&inputs->reference));
  for (LabelledModel& candidate : inputs->candidates) {
    candidate.status = read(&candidate.model);
    if (Interrupted()) return candidate.status;
  }
  context.progress().End();
  return NoneLeft(inputs->candidates);
}

std::vector<std::string> ModelRoots(const ScoreInputs& inputs) {
  std::vector<std::string> roots;
  const auto add = [&](const LocalModel& model) {
    if (!model.root.empty() && std::find(roots.begin(), roots.end(), model.root) == roots.end()) {
      roots.push_back(model.root);
    }
  };
  add(inputs.reference);
  for (const LabelledModel& candidate : inputs.candidates) add(candidate.model);
  return roots;
}

absl::Status CheckDiskSpace(const ScoreInputs& inputs, const std::string& data_dir) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(data_dir, 0700));
  ASSAY_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(data_dir));
  const uint64_t positions =
      inputs.selected.size() * static_cast<uint64_t>(inputs.suite.context_length);
  const uint64_t hidden =
      inputs.suite.hidden_size > 0 ? static_cast<uint64_t>(inputs.suite.hidden_size) : kHiddenGuess;
  // bf16 rows of every model, in the store and in a worker's cache; two heads' position arrays,
  // as units and as arrays.
  const uint64_t models = inputs.candidates.size() + 1;
  const uint64_t needed = models * positions * hidden * 2 * 2 +
                          inputs.candidates.size() * positions * kPositionBytes * 2 * 2 +
                          kDiskMarginBytes;
  if (free >= needed) return absl::OkStatus();
  return ExhaustedError("DISK_LOW",
                        fmt::format("{} has {} free and this run needs about {}; free some space "
                                    "or give another --data DIR",
                                    data_dir, HumanBytes(free), HumanBytes(needed)));
}

std::string DescribeRun(const ScoreInputs& inputs) {
  std::string names;
  for (const LabelledModel& candidate : inputs.candidates) {
    if (!names.empty()) names += ", ";
    names += candidate.label;
  }
  return fmt::format("{} against {} over {} contexts of {} tokens", names,
                     Describe(inputs.reference), inputs.selected.size(),
                     inputs.suite.context_length);
}

ScoredPart PartOf(const ScoreOptions& options, const ScoreInputs& inputs) {
  return {options.filter, options.metric.score_from, inputs.limit,
          static_cast<int64_t>(inputs.selected.size())};
}

namespace {

absl::StatusOr<RunRequest> RegisterScoreRun(const ScoreOptions& options, ScoreInputs* inputs,
                                            Session* session, const std::string& work,
                                            CliContext& context) {
  OperandTarget target;
  target.client = &session->client();
  target.suite = &inputs->suite;
  target.filter = options.filter;
  target.upload_models = !session->embedded();
  target.work = work;
  target.progress = [&](std::string_view what, uint64_t done, uint64_t total) {
    context.progress().Update(what, "bytes", done, total);
    return !Interrupted();
  };
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(work, 0700));
  ASSAY_ASSIGN_OR_RETURN(
      const ScoreHeads heads,
      PrepareScoreHeads(options.captured_heads, inputs->reference, &inputs->candidates, work));
  ASSAY_RETURN_IF_ERROR(NoneLeft(inputs->candidates));
  RunRequest request;
  ASSAY_ASSIGN_OR_RETURN(
      request.suite, RegisterSuite(target.client, options.suite, inputs->suite, target.progress));
  target.suite_name = request.suite;
  request.filter = options.filter;
  ASSAY_ASSIGN_OR_RETURN(request.reference,
                         RegisterOperand(target, inputs->reference, heads.reference));
  request.reference_label = Describe(inputs->reference);
  for (size_t i = 0; i < inputs->candidates.size(); ++i) {
    LabelledModel& candidate = inputs->candidates[i];
    if (!candidate.status.ok()) continue;
    absl::StatusOr<RunOperand> operand =
        RegisterOperand(target, candidate.model, heads.candidates[i]);
    // Only a refusal is the candidate's own; a coordinator that is gone stops everything.
    if (!operand.ok() && IsTransient(operand.status())) return operand.status();
    candidate.status = operand.status();
    if (operand.ok()) request.candidates.push_back({candidate.label, *std::move(operand)});
  }
  ASSAY_RETURN_IF_ERROR(NoneLeft(inputs->candidates));
  return request;
}

}  // namespace

absl::StatusOr<Json> CreateScoreRun(const ScoreOptions& options, ScoreInputs* inputs,
                                    Session* session, CliContext& context) {
  Client& client = session->client();
  // Beside the store that they go to, where that is here.
  const std::string work = HeadFolder(session->embedded() ? session->data_dir() : "");
  absl::StatusOr<RunRequest> registered = RegisterScoreRun(options, inputs, session, work, context);
  RemoveTree(work).IgnoreError();
  ASSAY_ASSIGN_OR_RETURN(RunRequest request, std::move(registered));
  const MetricOptions& metric = options.metric;
  request.heads = options.heads;
  request.numeric_policy = options.policy;
  if (options.backend != "auto") request.backend = options.backend;
  request.logit_scale = metric.logit_scale.value_or(0);
  request.softcap = metric.softcap.value_or(0);
  request.valid_vocab = metric.valid_vocab.value_or(0);
  request.score_from = metric.score_from;
  request.vocab_chunk = metric.vocab_chunk.value_or(0);
  request.limit = metric.limit;
  request.allow_infinite = metric.allow_infinite;
  request.unit_contexts = options.unit_contexts;
  request.fresh = options.fresh;
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, RequestDigest(request));
  for (int attempt = 0; attempt < kRequestAttemptsMax; ++attempt) {
    const std::string id = fmt::format("score-{}-{}", digest.substr(0, 32), attempt);
    ASSAY_ASSIGN_OR_RETURN(Json run, client.CreateRun(id, request));
    const std::string state = run.value("state", "");
    // A run that an earlier command left failed or cancelled is over; one that failed right now is
    // the answer.
    const bool spent = run.value("existing", false) &&
                       (state == "FAILED" || state == "CANCELLED" || run.value("partial", false));
    if (!spent) return run;
  }
  return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_ATTEMPTS",
               "this very request has failed too often; change it or give --fresh");
}

Json WithRefused(Json run, const ScoreInputs& inputs) {
  Json all = Json::array();
  size_t next = 0;
  for (const LabelledModel& candidate : inputs.candidates) {
    if (candidate.status.ok()) {
      all.push_back(std::move(run["candidates"][next++]));
      continue;
    }
    all.push_back({{"label", candidate.label},
                   {"state", "FAILED"},
                   {"error", ErrorJson(candidate.status)["error"]}});
  }
  run["candidates"] = std::move(all);
  return run;
}

}  // namespace assay
