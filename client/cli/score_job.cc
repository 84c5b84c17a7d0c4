#include "client/cli/score_job.h"

#include <algorithm>
#include <cstdlib>

#include "client/cli/interrupt.h"
#include "client/cli/numeric_options.h"
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
  const std::string name =
      model.remote_name.empty() ? BaseName(model.path) : "models/" + model.remote_name;
  return model.transform.empty() ? name : name + "@" + model.transform;
}

// What the request asks for, so that the same request has the same id.
absl::StatusOr<std::string> RequestDigest(const RunRequest& request) {
  Json content;
  content["suite"] = request.suite;
  content["filter"] = request.filter;
  content["reference"] = request.reference;
  content["reference_label"] = request.reference_label;
  content["candidates"] = Json::array();
  for (const RunRequest::Candidate& candidate : request.candidates) {
    content["candidates"].push_back({{"label", candidate.label}, {"model", candidate.model}});
  }
  content["heads"] = request.heads;
  content["policy"] = request.numeric_policy;
  if (!request.backend.empty()) content["backend"] = request.backend;
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
                   "Reference MODEL: a GGUF file, a Hugging Face folder or models/NAME")
      ->required();
  command
      ->add_option("--candidate", options->candidates,
                   "Candidate [LABEL=]MODEL[@TRANSFORM]; may be given several times. TRANSFORM: "
                   "rtn:bits=B[,group=N] (without group: one scale per output channel)")
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
  return inputs;
}

absl::Status ReadScoreInputs(const ScoreOptions& options, ScoreInputs* inputs,
                             CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(inputs->suite, ReadSuite(options.suite));
  ASSAY_ASSIGN_OR_RETURN(inputs->selected, SelectContexts(inputs->suite, options.filter));
  ASSAY_ASSIGN_OR_RETURN(const auto digests, DigestCache::Open(DigestCachePath()));
  std::vector<LocalModel*> models = {&inputs->reference};
  for (LabelledModel& candidate : inputs->candidates) models.push_back(&candidate.model);
  context.progress().Begin("check models", "");
  for (LocalModel* model : models) {
    if (Interrupted()) return InterruptedError("stopped while the models were checked");
    if (model->remote_name.empty()) ASSAY_RETURN_IF_ERROR(DigestModel(digests.get(), model));
  }
  context.progress().End();
  return absl::OkStatus();
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

absl::StatusOr<Json> CreateScoreRun(const ScoreOptions& options, const ScoreInputs& inputs,
                                    Session* session, CliContext& context) {
  Client& client = session->client();
  const UploadProgress uploads = [&](std::string_view what, uint64_t done, uint64_t total) {
    context.progress().Update(what, "bytes", done, total);
    return !Interrupted();
  };
  const bool upload_models = !session->embedded();
  RunRequest request;
  ASSAY_ASSIGN_OR_RETURN(request.suite,
                         RegisterSuite(&client, options.suite, inputs.suite, uploads));
  request.filter = options.filter;
  ASSAY_ASSIGN_OR_RETURN(request.reference,
                         RegisterModel(&client, inputs.reference, upload_models, uploads));
  request.reference_label = Describe(inputs.reference);
  for (const LabelledModel& candidate : inputs.candidates) {
    ASSAY_ASSIGN_OR_RETURN(const std::string name,
                           RegisterModel(&client, candidate.model, upload_models, uploads));
    request.candidates.push_back({candidate.label, name});
  }
  request.heads = options.heads;
  request.numeric_policy = options.policy;
  if (options.backend != "auto") request.backend = options.backend;
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

}  // namespace assay
