// Published reports or aggregates compared, all pairs of them.

#ifndef ASSAY_CLIENT_CLI_PUBLISHED_PAIR_H_
#define ASSAY_CLIENT_CLI_PUBLISHED_PAIR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command.h"

namespace assay {

// `files`: two or more published replay reports, or two or more aggregates. Of two reports the
// document is qwen38-fidelity-paired/3, of aggregates one qwen38-kld-ladder-paired/2 with every
// pair; `out` ("" = none) is its file. Of more than two reports every pair is shown, those that
// cannot be compared with every reason. NOT_COMPARABLE when kinds are mixed, and for a single pair.
absl::StatusOr<int> PairPublished(const std::vector<std::string>& files, bool across_comparators,
                                  const std::string& out, CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_PUBLISHED_PAIR_H_
