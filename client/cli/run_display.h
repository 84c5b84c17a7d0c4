// A run's events as progress lines.

#ifndef ASSAY_CLIENT_CLI_RUN_DISPLAY_H_
#define ASSAY_CLIENT_CLI_RUN_DISPLAY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/cli/progress.h"
#include "storage/base/json.h"

namespace assay {

// One line per phase, summed over its subjects; phases that overlap are shown one after the other,
// the one that began first until it is done. Not thread-safe.
class RunDisplay {
 public:
  explicit RunDisplay(ProgressPrinter* printer) : printer_(printer) {}

  void OnEvent(const Json& event);  // a RunEvent (client/lib/client.h)
  void End();                       // the run has ended

 private:
  struct Counts {
    uint64_t done = 0, total = 0;
    int64_t units_done = 0, units_total = 0;
  };
  struct Phase {
    std::string name;
    std::map<std::string, Counts> subjects;
    int64_t units_at_start = -1;  // ended when the phase came on screen
    Counts Sum() const;
  };
  void OnProgress(const Json& progress);
  void OnRun(const Json& run);
  void Show();

  ProgressPrinter* const printer_;
  std::vector<Phase> phases_;   // in order of appearance
  size_t shown_ = 0;            // index of the phase on screen
  std::set<std::string> told_;  // candidates whose end was told
};

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_RUN_DISPLAY_H_
