// Suite manifests, and the choice of contexts from one that was accepted.

#include "storage/format/suite.h"

#include <algorithm>

#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(suite) {
  const auto suite = ParseSuiteManifest(input, "input");
  if (!suite.ok()) return;
  (void)CheckTokensBelow(*suite, 100);
  for (const char* filter : {"all", "sentinel", "analysis"}) {
    const auto selected = SelectContexts(*suite, filter);
    if (!selected.ok()) continue;
    const std::vector<size_t> limited = LimitContexts(*suite, *selected, 3);
    fuzz::Require(limited.size() == std::min<size_t>(3, selected->size()), "the limit is used up");
    fuzz::Require(std::is_sorted(limited.begin(), limited.end()), "contexts keep their order");
    for (const size_t at : limited)
      fuzz::Require(at < suite->contexts.size(), "a chosen context is one of the suite's");
  }
}

}  // namespace assay
