// Kind "fidelity-dataset": published and broken datasets with the findings that they must give.

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/dataset/overlay.h"
#include "tests/golden/golden.h"

namespace assay::golden {

int RunDataset(const Options& options) {
  Tally tally;
  const auto overlays = ReadJsonFile(JoinPath(options.dir, "overlays.json"));
  const auto answers = ReadJsonFile(JoinPath(options.dir, "verify.json"));
  if (!overlays.ok() || !answers.ok()) {
    tally.Case("index", Describe(overlays.ok() ? answers.status() : overlays.status()));
    return tally.Finish();
  }
  for (const Json& entry : *answers) {
    tally.Case("verify " + entry.at("name").get<std::string>() + " " + entry.at("options").dump(),
               CheckVerifyAnswer(options.dir, *overlays, entry, options.work));
  }
  const auto comparisons = ReadJsonFile(JoinPath(options.dir, "compare.json"));
  if (!comparisons.ok()) tally.Case("compare", Describe(comparisons.status()));
  for (const Json& entry : comparisons.ok() ? *comparisons : Json::array()) {
    tally.Case("compare " + entry.at("name").get<std::string>(),
               CheckCompareAnswer(options.dir, entry));
  }
  return tally.Finish();
}

}  // namespace assay::golden
