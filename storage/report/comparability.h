// Whether two reports may be compared: the one predicate behind pairing, summaries and whatever
// puts two results side by side.

#ifndef ASSAY_STORAGE_REPORT_COMPARABILITY_H_
#define ASSAY_STORAGE_REPORT_COMPARABILITY_H_

#include <string>
#include <string_view>
#include <vector>

#include "storage/base/json.h"

namespace assay {

// One thing that two reports do not share.
struct Incomparability {
  std::string code;  // stable, UPPER_SNAKE; docs/report.md lists them
  std::string text;  // a clause that names the difference
  // The same question, computed by another numeric policy, backend or kernel: such reports may be
  // compared when somebody asks for it by name, and the difference is then shown.
  bool numeric = false;
  Json a, b;  // the two values; null where they are no short scalars
};

struct Comparability {
  std::vector<Incomparability> reasons;  // all of them, in the order of docs/report.md

  bool comparable() const { return reasons.empty(); }
  // Comparable but for numeric policy, backend or kernels (true as well when comparable).
  bool across_policies() const;
  std::string Text() const;  // the clauses divided by "; "; "" when comparable
  Json NumericJson() const;  // [{"code","a","b"}] of the numeric reasons
};

// Reports (assay-report/1) under head mode `head`. What may differ: the candidates and everything
// about them, engines and stacks of captures (disclosed), coverage of what neither uses.
Comparability CompareReports(const Json& a, const Json& b, std::string_view head);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_COMPARABILITY_H_
