// What score and submit share: the options of a run, its inputs, and its creation.

#ifndef ASSAY_CLIENT_CLI_SCORE_JOB_H_
#define ASSAY_CLIENT_CLI_SCORE_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/cli/labels.h"
#include "client/cli/replay_options.h"
#include "client/cli/session.h"
#include "client/lib/kept_labels.h"
#include "storage/format/suite.h"

namespace assay {

struct ScoreOptions {
  std::string reference, suite, filter = "all", policy = "exact";
  std::string backend = "auto";
  std::vector<std::string> candidates, heads;
  HeadOptions captured_heads;
  MetricOptions metric;
  int64_t unit_contexts = 0;
  bool fresh = false;
  SessionOptions session;
};

// --reference, --candidate, --suite, --filter, --heads, --policy, --backend, --unit-contexts,
// --fresh, and those of replay_options.h.
void AddScoreOptions(CLI::App* command, ScoreOptions* options);

// Inputs that are read, checked and digested before any process is started or asked.
struct ScoreInputs {
  LocalModel reference;
  std::vector<LabelledModel> candidates;
  Suite suite;
  std::vector<size_t> selected;  // contexts that filter and limit keep
  int64_t limit = 0;             // as asked
};

// What the command line alone says: names, labels, choices; nothing is read yet. LABEL_*,
// MODEL_SPEC_INVALID, TRANSFORM_INVALID, HEADS_INVALID, POLICY_UNKNOWN.
absl::StatusOr<ScoreInputs> ParseScoreInputs(const ScoreOptions& options);

// Reads the suite, digests the models and verifies the captures. FILTER_*, SUITE_*, and of the
// reference MODEL_* and the errors of captures; a candidate's become its status, and are returned
// only when none is left.
absl::Status ReadScoreInputs(const ScoreOptions& options, ScoreInputs* inputs, CliContext& context);

// File of the user's DigestCache; "" where there is no home.
std::string DigestCachePath();

// Folders in which embedded workers find the local models.
std::vector<std::string> ModelRoots(const ScoreInputs& inputs);

// DISK_LOW when the data directory cannot hold the run's captures and results.
absl::Status CheckDiskSpace(const ScoreInputs& inputs, const std::string& data_dir);

// Registers suite and models and creates the run, or finds the one that the same command made
// before: the request id is a digest of what is asked, so a command that is given again resumes. A
// run of that id that failed or was cancelled is followed by a new one. A candidate that is refused
// on the way gets its status and is left out. The run's document.
absl::StatusOr<Json> CreateScoreRun(const ScoreOptions& options, ScoreInputs* inputs,
                                    Session* session, CliContext& context);

// The run with the candidates that were refused before it existed, as failed ones, in the order of
// the command line.
Json WithRefused(Json run, const ScoreInputs& inputs);

// "2 candidates against model.gguf over 56 contexts of 128 tokens".
std::string DescribeRun(const ScoreInputs& inputs);

// The part of the suite that the inputs, once read, score.
ScoredPart PartOf(const ScoreOptions& options, const ScoreInputs& inputs);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_SCORE_JOB_H_
