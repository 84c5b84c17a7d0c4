// index.html: all candidates of a result side by side.

#ifndef ASSAY_CLIENT_HTML_INDEX_PAGE_H_
#define ASSAY_CLIENT_HTML_INDEX_PAGE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// `weights`: bytes of each scored candidate's weights by label (report_set.h), or null.
// REPORT_INVALID when the summary lacks what the page needs.
absl::StatusOr<std::string> IndexPage(const Json& summary,
                                      const std::map<std::string, Json>& weights);

// One row per candidate, one column per candidate: row minus column. `data` gets the list.
std::string PairsHtml(const Json& summary, const std::string& head, Json* data);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_INDEX_PAGE_H_
