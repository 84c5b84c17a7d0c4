// Captures as operands of a run: their heads, and what the coordinator is told of them.

#ifndef ASSAY_CLIENT_CLI_SCORE_OPERANDS_H_
#define ASSAY_CLIENT_CLI_SCORE_OPERANDS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/labels.h"
#include "client/cli/replay_options.h"
#include "client/lib/client.h"
#include "client/lib/inputs.h"
#include "storage/format/suite.h"
#include "worker/group/offline_heads.h"

namespace assay {

// Verifies a capture directory against the suite: every digest, shape, dtype and row count of the
// contexts that `filter` selects, the token digest and the cut point. With `limit` > 0 it may lack
// contexts that LimitContexts leaves out. The errors of OpenCapture, CUT_POINT_DIFFERS.
absl::Status OpenScoreCapture(const Suite& suite, const std::string& filter, int64_t limit,
                              LocalModel* capture);

// Whether head options and operands fit together: BAD_USAGE, LABEL_UNKNOWN.
absl::Status CheckHeadOptions(const HeadOptions& options, const LocalModel& reference,
                              const std::vector<LabelledModel>& candidates);

// Where PrepareScoreHeads works: below `base`, or with "" below the folder for temporary files. The
// caller makes and removes it.
std::string HeadFolder(const std::string& base);

struct ScoreHeads {
  std::optional<OfflineHead> reference;
  std::vector<std::optional<OfflineHead>> candidates;  // of each; absent = the reference's
};

// Finds the heads that `options` name for captures. Files that have to be made go to `work`. A
// candidate's refusal becomes its status; the reference's is returned.
absl::StatusOr<ScoreHeads> PrepareScoreHeads(const HeadOptions& options,
                                             const LocalModel& reference,
                                             std::vector<LabelledModel>* candidates,
                                             const std::string& work);

// Where operands are registered.
struct OperandTarget {
  Client* client = nullptr;
  const Suite* suite = nullptr;
  std::string suite_name, filter;
  bool upload_models = false;
  std::string work;
  UploadProgress progress;
};

// Registers a model, or a capture with its head, and uploads what the coordinator lacks of it.
absl::StatusOr<RunOperand> RegisterOperand(const OperandTarget& target, const LocalModel& model,
                                           const std::optional<OfflineHead>& head);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_SCORE_OPERANDS_H_
