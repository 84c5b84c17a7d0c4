// The frame of a page, and the parts that pages are put together from. Every std::string named
// `html` is markup already; texts are escaped here (escape.h).

#ifndef ASSAY_CLIENT_HTML_PAGE_H_
#define ASSAY_CLIENT_HTML_PAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

enum class PageKind { kCandidate, kIndex };

// A whole document that needs nothing else: style, scripts and `data` (the figures' numbers,
// element "data") are inside, and a Content-Security-Policy names the digests of the only scripts
// and the only style that may be used, and forbids every request.
absl::StatusOr<std::string> AssemblePage(PageKind kind, std::string_view title,
                                         const std::string& body_html, const Json& data);

struct Cell {
  std::string html;
  std::string sort;  // a number with all its digits, what a column is sorted by; "" = by text
};

struct Column {
  std::string title;
  bool number = false;  // aligned to the right
};

// A table in a frame that scrolls sideways. `sortable`: the script makes headings into buttons.
std::string TableHtml(std::string_view caption, const std::vector<Column>& columns,
                      const std::vector<std::vector<Cell>>& rows, bool sortable = false);

struct Figure {
  std::string plot;  // what the script draws: "distribution", "strata", ...
  std::string head;  // of which head; "" = none
  std::string title;
  std::string note;  // how to read it
  std::string table_html;
};
// The table behind a figure is folded away, except where there is no script and in print.
std::string FigureHtml(const Figure& figure);

// A number with the digits of the terminal's tables, sorted by all of them; "-" for null.
Cell Num(const Json& value, const char* format = "%.6g");
// {"value", "infinite_count"}
Cell MeanOf(const Json& mean);
// {"hits", "positions", "fraction"}, in percent
Cell FractionOf(const Json& fraction);
Cell BytesOf(const Json& bytes);
Cell Count(const Json& count);
Cell Txt(std::string_view text);

// "<code>...</code>" with the text escaped.
std::string CodeHtml(std::string_view text);

// Name of a head as headings say it.
std::string HeadTitle(std::string_view head);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_PAGE_H_
