// Kind "receipts": published documents of any kind below a folder; each must be recognized, and
// nothing in it may differ from what follows from itself.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "storage/base/files.h"
#include "storage/published/examine.h"
#include "tests/golden/golden.h"

namespace assay::golden {

int RunReceipts(const Options& options) {
  Tally tally;
  std::vector<std::string> files;
  std::error_code failed;
  for (const auto& file : std::filesystem::recursive_directory_iterator(options.dir, failed)) {
    if (file.path().extension() == ".json") files.push_back(file.path().string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    const auto bytes = ReadFile(file, uint64_t{1} << 30);
    const auto examination = bytes.ok() ? ExaminePublished(*bytes, file)
                                        : absl::StatusOr<PublishedExamination>(bytes.status());
    if (!examination.ok()) {
      tally.Case(file, Describe(examination.status()));
      continue;
    }
    for (const PublishedCheck& check : examination->checks) {
      if (check.outcome == PublishedOutcome::kNotChecked) {
        printf("%s: %s is not checked: %s\n", file.c_str(), check.gate.c_str(),
               check.detail.c_str());
        continue;
      }
      tally.Case(file + " " + check.gate,
                 check.outcome == PublishedOutcome::kPass ? "" : check.detail);
    }
  }
  return tally.Finish();
}

}  // namespace assay::golden
