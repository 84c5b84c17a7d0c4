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

// What two published documents are put side by side for.
enum class PublishedUse : unsigned {
  kPair = 1,        // two candidates, replay reports (qwen-suites 4.1)
  kAggregate = 2,   // shards of one candidate, replay reports (4.2)
  kLadderPair = 4,  // two candidates, aggregates (4.3)
};

// Published documents of one kind; rows are not needed (a document without per_context_all is
// compared without them). What the generation of a document does not state counts as the default
// that it had then (every position scored), or, where there was none, as equal. Stricter than the
// published tools in pairs of reports: those look at suite, filter and head only.
// docs/formats/published.md lists the codes.
Comparability ComparePublished(const Json& a, const Json& b, PublishedUse use);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_COMPARABILITY_H_
