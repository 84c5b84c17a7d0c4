// Numbers on a page: those of the tables that assay prints come from
// storage/report/summary_cells.h, so that they have the same digits.

#ifndef ASSAY_CLIENT_HTML_NUMBERS_H_
#define ASSAY_CLIENT_HTML_NUMBERS_H_

#include <initializer_list>
#include <string>

#include "storage/base/json.h"
#include "storage/report/summary_cells.h"

namespace assay {

// "1 234 567": thin spaces (U+2009) between thousands.
std::string ShownCount(uint64_t count);

// document[a][b]..., or a null when a step is missing: for fields that not every file has.
const Json& Field(const Json& document, std::initializer_list<const char*> path);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_NUMBERS_H_
